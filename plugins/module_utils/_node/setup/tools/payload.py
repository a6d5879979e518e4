# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The content of the node tool: the sources of this core, from wherever they were imported.

Ansible sends a module with its imports in a zip file. The same files are the node tool, so nothing else has to be
copied to the node, and tool and modules always have the same version.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass

PACKAGE = "hpcai_node"
"""The name of this core on a node. The core uses relative imports only, so it works under any name."""
MANIFEST = "manifest.json"
SCHEMA = 1


class ToolsError(ValueError):
    """Something that cannot be installed; the message names it and says what to do."""


@dataclass(frozen=True)
class Tree:
    """A folder that is installed completely and never changed afterwards.

    :ivar name: the folder's name; other content has another name.
    :ivar files: content by relative path, including the manifest.
    """

    name: str
    files: Mapping[str, bytes]


def read_sources() -> dict[str, bytes]:
    """Return this core's sources by their paths below the package, e.g. ``cli/main.py``.

    In AnsiballZ's zip file these are the files that the running module imports, in a folder all files.
    """
    package = __name__.rsplit(".", 3)[0]
    found: dict[str, bytes] = {}
    _collect(package, "", found)
    if "cli/main.py" not in found:
        raise ToolsError("this module contains no sources of hpcnode. Please report this bug")
    return found


def _collect(module: str, folder: str, found: dict[str, bytes]) -> None:
    spec = importlib.util.find_spec(module)
    get_source = getattr(spec.loader if spec else None, "get_source", None)
    source = get_source(module) if get_source else None
    if spec is None or source is None:
        raise ToolsError(f"the source of {module} cannot be read. Please report this bug")
    # Python's importers return text, Ansible's returns bytes.
    content = source if isinstance(source, bytes) else source.encode("utf-8")
    last = module.rpartition(".")[2]
    if spec.submodule_search_locations is None:
        found[f"{folder}{last}.py"] = content
        return
    inner = f"{folder}{last}/" if found else ""
    found[f"{inner}__init__.py"] = content
    for child in pkgutil.iter_modules(list(spec.submodule_search_locations)):
        _collect(f"{module}.{child.name}", inner, found)


def tool_tree(version: str, sources: Mapping[str, bytes]) -> Tree:
    """Return the folder of the node tool."""
    files = {f"{PACKAGE}/{path}": content for path, content in sources.items()}
    digest = digest_of(files)
    hashes = {path: hashlib.sha256(content).hexdigest() for path, content in sorted(files.items())}
    about = {"schema": SCHEMA, "name": "hpcnode", "version": version, "digest": digest, "files": hashes}
    manifest = json.dumps(about, indent=1) + "\n"
    return Tree(f"hpcnode-{version}-{digest[:12]}", {**files, MANIFEST: manifest.encode("utf-8")})


def digest_of(files: Mapping[str, bytes]) -> str:
    """Return one SHA-256 over all paths and contents."""
    digest = hashlib.sha256()
    for path, content in sorted(files.items()):
        digest.update(f"{path}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()
