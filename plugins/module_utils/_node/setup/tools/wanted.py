# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What should be there of the node tool, and nvidia-ml-py as it is there."""

from __future__ import annotations

import importlib.util
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass

from . import driver_watch, files, job_hooks, units
from .layout import FOLDERS, HOME, LAUNCHER, SITE, TOOL, TREES, Compiled, Disk, Entry, File, Folder, Link
from .payload import Tree, read_tree, tool_tree, wheel_tree


@dataclass(frozen=True)
class Wish:
    """What is to be installed.

    :ivar version: of the tool.
    :ivar sources: of the tool, by path below its package.
    :ivar wheel: path of nvidia-ml-py's wheel on the node; None where it was not brought.
    :ivar wheel_sha256: which wheel is to be unpacked; None to leave what is there.
    :ivar interpreter: absolute path of the Python that runs the tool.
    :ivar uid: who owns it all: root, but for tests.
    """

    version: str
    sources: Mapping[str, bytes]
    wheel: str | None
    wheel_sha256: str | None
    interpreter: str
    uid: int


def wanted_disk(found: Disk, wish: Wish) -> tuple[dict[str, Entry], bool]:
    """Return everything that should be there, and whether the wheel has still to be brought.

    :raises ToolsError: the wheel cannot be used.
    """
    tool = tool_tree(wish.version, wish.sources)
    wanted: dict[str, Entry] = {path: Folder(0o755, wish.uid) for path in (*FOLDERS, *job_hooks.FOLDERS)}
    wanted.update(on_disk(tool, wish.uid))
    wanted[TOOL] = Link(f"trees/{tool.name}")
    site, wheel_needed = _site(found, wish)
    wanted.update(site)
    wanted[LAUNCHER] = File(files.launcher(wish.interpreter).encode(), 0o755, wish.uid)
    for name, text in units.UNITS.items():
        wanted[f"{files.UNIT_FOLDER}/{name}"] = File(text.encode(), 0o644, wish.uid)
    for path, text in driver_watch.RULES.items():
        wanted[path] = File(text.encode(), 0o644, wish.uid)
    for path, text in job_hooks.PROGRAMS.items():
        wanted[path] = File(text.encode(), 0o755, wish.uid)
    for folder, names in units.ENABLED.items():
        wanted[f"{files.ADMIN_UNIT_FOLDER}/{folder}"] = Folder(0o755, wish.uid)
        for name in names:
            link = f"{files.ADMIN_UNIT_FOLDER}/{folder}/{name}"
            wanted[link] = Link(f"{files.UNIT_FOLDER}/{name}")
    return wanted, wheel_needed


def _site(found: Disk, wish: Wish) -> tuple[Mapping[str, Entry], bool]:
    link = found.get(SITE)
    folder = posixpath.join(HOME, link.target) if isinstance(link, Link) else SITE
    installed, wheel_sha256 = read_tree(
        {
            path[len(folder) + 1 :]: entry.content
            for path, entry in found.items()
            if path.startswith(f"{folder}/") and isinstance(entry, File)
        }
    )
    if installed and installed.name == posixpath.basename(folder) and wish.wheel_sha256 in (None, wheel_sha256):
        return {**on_disk(installed, wish.uid), SITE: Link(f"trees/{installed.name}")}, False
    if wish.wheel_sha256 and wish.wheel:
        tree = wheel_tree(wish.wheel, wish.wheel_sha256)
        return {**on_disk(tree, wish.uid), SITE: Link(f"trees/{tree.name}")}, False
    # It stays as it is: an older one, or one that was tampered with, until the wheel comes.
    kept = {path: entry for path, entry in found.items() if path in (SITE, folder) or path.startswith(f"{folder}/")}
    return kept, bool(wish.wheel_sha256)


def on_disk(tree: Tree, uid: int) -> dict[str, Entry]:
    base = f"{TREES}/{tree.name}"
    made: dict[str, Entry] = {base: Folder(0o755, uid)}
    for path, content in sorted(tree.files.items()):
        parts = path.split("/")
        for depth in range(1, len(parts)):
            made[f"{base}/{'/'.join(parts[:depth])}"] = Folder(0o755, uid)
        made[f"{base}/{path}"] = File(content, 0o644, uid)
        if path.endswith(".py"):
            cache = importlib.util.cache_from_source(f"{base}/{path}")
            made[posixpath.dirname(cache)] = Folder(0o755, uid)
            made[cache] = Compiled(bytecode_header(content), 0o644, uid)
    return made


def bytecode_header(source: bytes) -> bytes:
    """Return how bytecode begins that Python compares with its source, not with the age of that (PEP 552)."""
    return importlib.util.MAGIC_NUMBER + (0b11).to_bytes(4, "little") + importlib.util.source_hash(source)
