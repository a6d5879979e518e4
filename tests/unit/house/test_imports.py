# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What each part of the plugins may import: only lower layers."""

from __future__ import annotations

import ast
import pathlib
import sys
from collections.abc import Iterator

import pytest

PLUGINS = pathlib.PurePosixPath("plugins")
CORE = PLUGINS / "module_utils" / "_node"
COLLECTION = "ansible_collections.hpcai.azure."

# Inside the node core: a part imports itself and parts of a lower layer.
LAYERS = {
    "version": 0,
    "forms": -1,
    "sku": 0,
    "machine": 1,
    "setup": 2,
    "pinning": 2,
    "slurm": 3,
    "job": 4,
    "health": 4,
    "elastic": 4,
    "boot": 5,
    "bench": 5,
    "train": 5,
    "ledger": 5,
    "diag": 6,
    "recover": 6,
    "metrics": 6,
    "cli": 7,
}

# Prefixes within the collection that files below the key may import. The longest matching key decides.
ALLOWED_WITHIN = {
    "plugins/module_utils": ("plugins.module_utils.",),
    "plugins/module_utils/_node": ("plugins.module_utils._node.",),
    "plugins/modules": ("plugins.module_utils.",),
    "plugins/plugin_utils": ("plugins.plugin_utils.", "plugins.module_utils."),
    "plugins/plugin_utils/_azure": ("plugins.plugin_utils._azure.", "plugins.module_utils._node.sku."),
    "plugins/inventory": ("plugins.plugin_utils.", "plugins.module_utils."),
    "plugins/filter": ("plugins.plugin_utils.", "plugins.module_utils."),
    # An action plugin reads the argument_spec of its module.
    "plugins/action": ("plugins.plugin_utils.", "plugins.module_utils.", "plugins.modules."),
    "plugins/doc_fragments": (),
}

Import = tuple[pathlib.PurePosixPath, int, str]


def imported_names(file: pathlib.PurePosixPath, source: str) -> Iterator[Import]:
    """Each import of a file, as an absolute name. Names in this collection start with 'plugins.'."""
    package = list(file.parts[:-1])
    for node in ast.walk(ast.parse(source, filename=str(file))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*package[: len(package) - node.level + 1], *base.split(".")]).rstrip(".")
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            yield file, node.lineno, name.removeprefix(COLLECTION)


@pytest.fixture(scope="module")
def imports(repository: pathlib.Path, files: list[pathlib.PurePosixPath]) -> list[Import]:
    """Every import statement below plugins/."""
    found: list[Import] = []
    for file in files:
        if file.suffix == ".py" and file.is_relative_to(PLUGINS):
            found += imported_names(file, (repository / file).read_text(encoding="utf-8"))
    assert found
    return found


def rule_for(file: pathlib.PurePosixPath) -> str:
    """The key of ALLOWED_WITHIN that applies to a file."""
    return max((key for key in ALLOWED_WITHIN if file.is_relative_to(key)), key=len, default="")


def test_each_kind_of_plugin_has_a_rule(imports: list[Import]) -> None:
    without = {str(file) for file, _line, _name in imports if not rule_for(file)}
    assert not without, "add to ALLOWED_WITHIN what these files may import"


def test_imports_within_the_collection_go_to_lower_layers(imports: list[Import]) -> None:
    upward = [
        f"{file}:{line} imports {name}"
        for file, line, name in imports
        if name.startswith("plugins.") and not f"{name}.".startswith(ALLOWED_WITHIN.get(rule_for(file), ()))
    ]
    assert not upward


def test_the_node_core_uses_the_standard_library_only(imports: list[Import]) -> None:
    allowed = sys.stdlib_module_names | {"plugins"}
    foreign = [
        f"{file}:{line} imports {name}"
        for file, line, name in imports
        if file.is_relative_to(CORE) and name.split(".")[0] not in allowed
    ]
    assert not foreign


def test_modules_import_only_what_every_node_has(imports: list[Import]) -> None:
    foreign = [
        f"{file}:{line} imports {name}"
        for file, line, name in imports
        if file.is_relative_to(PLUGINS / "modules")
        and name.split(".")[0] not in sys.stdlib_module_names | {"plugins"}
        and not name.startswith("ansible.module_utils.")
    ]
    assert not foreign


def test_parts_of_the_node_core_import_lower_layers_only(imports: list[Import]) -> None:
    wrong = []
    for file, line, name in imports:
        if not file.is_relative_to(CORE) or not name.startswith("plugins.module_utils._node."):
            continue
        here, there = file.relative_to(CORE).parts[0].removesuffix(".py"), name.split(".")[3]
        unknown = {here, there} - LAYERS.keys()
        if unknown:
            wrong.append(f"{file}:{line}: add {unknown} to LAYERS")
        elif here != there and LAYERS[here] <= LAYERS[there]:
            wrong.append(f"{file}:{line}: {here} imports {there}, which is not in a lower layer")
    assert not wrong


def files_imported(imports: list[Import]) -> dict[str, set[str]]:
    """The files below plugins/ that each of them imports, as absolute names, also only for types."""
    dotted = {file: ".".join(file.with_suffix("").parts).removesuffix(".__init__") for file, _line, _name in imports}
    known = set(dotted.values())
    found: dict[str, set[str]] = {name: set() for name in known}
    for file, _line, name in imports:
        # A name in a file, or a file.
        target = name if name in known else name.rpartition(".")[0]
        if target in known - {dotted[file]}:
            found[dotted[file]].add(target)
    return found


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The groups of files of which each reaches each other."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        beyond: set[str] = set()
        waiting = [start]
        while waiting:
            for name in graph.get(waiting.pop(), set()) - beyond:
                beyond.add(name)
                waiting.append(name)
        reached[start] = beyond
    groups = {frozenset(other for other in reached[one] if one in reached[other]) for one in graph}
    return sorted(sorted(group) for group in groups if group)


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]


def test_no_files_import_each_other_in_a_circle(imports: list[Import]) -> None:
    """Whoever reads one file of a circle has to read all of them, also if only a type closes it."""
    assert circles(files_imported(imports)) == []


def test_only_imds_py_calls_the_metadata_service(repository: pathlib.Path, files: list[pathlib.PurePosixPath]) -> None:
    callers = [
        str(file)
        for file in files
        if file.is_relative_to(PLUGINS)
        and file != CORE / "machine" / "imds.py"
        and "//169.254.169.254" in (repository / file).read_text(encoding="utf-8")
    ]
    assert not callers


def test_the_whole_core_is_installed_on_nodes(imports: list[Import]) -> None:
    """Ansible sends only imported files. With one missing, no node's code is identical, and each module is sent."""
    targets: dict[str, set[str]] = {}
    for file, _line, name in imports:
        targets.setdefault(".".join(file.with_suffix("").parts).removesuffix(".__init__"), set()).add(name)
    core = {name for name in targets if name.startswith(".".join(CORE.parts))}
    reached: set[str] = set()
    waiting = ["plugins.modules.node_tools"]
    while waiting:
        for name in targets.get(waiting.pop(), ()):
            # A file, or a name in a file, and the packages that contain it.
            parts = name.split(".")
            for found in core & {".".join(parts[:end]) for end in range(1, len(parts) + 1)} - reached:
                reached.add(found)
                waiting.append(found)
    assert len(reached) > 100
    assert not core - reached, "import these in _node/cli/main.py"
