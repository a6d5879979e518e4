# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Plan the installation of the node tool: the wanted files, and the changes. Pure."""

from __future__ import annotations

import hashlib
import importlib.util
import posixpath
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from . import layout, services, share, units
from .layout import FOLDERS, HOME, LAUNCHER, SITE, TOOL, TREES, Compiled, Disk, Entry, File, Folder, Link, tree_of
from .payload import ToolsError, tool_tree

_UNUSED_TREES = 2
"""How many trees may stay that nothing runs from."""


@dataclass(frozen=True)
class ToolPlan:
    """What has to be done, in this order.

    :ivar build: names of trees to build next to the others.
    :ivar write: paths to bring into the wanted state, one by one.
    :ivar remove: paths to remove with all of their content.
    :ivar restored: those of the above that are ours and were changed or removed by somebody else.
    """

    build: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.build or self.write or self.remove)

    @property
    def written(self) -> list[str]:
        """Return the written paths, a new tree as one path."""
        return [*(f"{TREES}/{name}" for name in self.build), *self.write]

    @property
    def touches_units(self) -> bool:
        """Whether systemd has to reload its units."""
        folders = (layout.UNIT_FOLDER, layout.ADMIN_UNIT_FOLDER)
        return any(path.startswith(folders) for path in (*self.write, *self.remove))


def plan(found: Disk, wanted: Disk, in_use: Collection[str] = ()) -> ToolPlan:
    """Return the changes from ``found`` to ``wanted``; an empty ``wanted`` removes everything. Pure.

    :param in_use: names of trees that a process runs from: they stay, unless everything is removed. When they are no
        longer used, the next run that writes anything removes them: a run that has nothing else to do changes nothing.
    :raises ToolsError: one of our paths contains a foreign file.
    """
    _refuse_what_is_not_ours(found, wanted)
    write: list[str] = []
    restored: list[str] = []
    link = found.get(TOOL)
    current = posixpath.basename(link.target) if isinstance(link, Link) else ""
    others = [tree for tree in dict.fromkeys(map(tree_of, wanted)) if tree not in ("", current)]
    # A tree that stayed because a process runs from it is used as it is.
    build = [tree for tree in others if _below(found, tree) != _below(wanted, tree)]
    for path, entry in wanted.items():
        tree = tree_of(path)
        if tree not in others and found.get(path) != entry:
            write.append(path)
            if tree or (link and link == wanted[TOOL]):
                restored.append(path)
    kept = _paths_to_keep(found, wanted, in_use, changing=bool(build or write)) if wanted else set()
    remove = [path for path in _to_remove(found, wanted) if path not in kept]
    restored += [path for path in remove if current and tree_of(path) == current and path != f"{TREES}/{current}"]
    return ToolPlan(tuple(build), tuple(sorted(write, key=_rank)), tuple(remove), tuple(restored))


def _paths_to_keep(found: Disk, wanted: Disk, in_use: Collection[str], changing: bool) -> set[str]:
    site = found.get(SITE)
    others = sorted(set(map(tree_of, found)) - {"", *map(tree_of, wanted)})
    unused = [name for name in others if name not in in_use and not name.startswith(".")]
    kept = {*in_use, *(() if changing else unused[:_UNUSED_TREES])}
    return {
        *(f"{TREES}/{name}" for name in kept),
        *((SITE, f"{HOME}/{site.target}") if kept.intersection(others) and isinstance(site, Link) else ()),
    }


def _below(disk: Disk, tree: str) -> Disk:
    return {path: entry for path, entry in disk.items() if tree_of(path) == tree}


def _to_remove(found: Disk, wanted: Disk) -> Iterator[str]:
    wanted_units = {posixpath.basename(path) for path in wanted if path.startswith(layout.UNIT_FOLDER)}
    removed: set[str] = set()
    for path in sorted(found):
        if path in wanted or posixpath.dirname(path) in removed or any(path.startswith(f"{r}/") for r in removed):
            continue
        name = posixpath.basename(path)
        if path.startswith(f"{layout.ADMIN_UNIT_FOLDER}/"):
            # A link in a folder where we make links is left from another version. An administrator's own links
            # elsewhere, to units that stay, are left unchanged.
            in_our_folder = posixpath.basename(posixpath.dirname(path)) in units.ENABLED
            ours = found[path] == Link(f"{layout.UNIT_FOLDER}/{name}") and (in_our_folder or name not in wanted_units)
        elif path in (TOOL, SITE):
            ours = isinstance(found[path], Link)
        elif path.startswith(f"{HOME}/"):
            ours = True
        else:
            ours = _marked(found[path])
        if ours:
            removed.add(path)
            yield path


def _refuse_what_is_not_ours(found: Disk, wanted: Disk) -> None:
    for path, entry in found.items():
        if path not in wanted:
            continue
        if path in (TOOL, SITE) and not isinstance(entry, Link):
            raise ToolsError(f"{path} is not the link that this module makes. Move it away")
        prefixes = (LAUNCHER, layout.UNIT_FOLDER, services.UDEV_FOLDER, f"{services.LIBEXEC}/", f"{share.SHARE}/")
        if path.startswith(prefixes) and not _marked(entry):
            raise ToolsError(f"{path} was not made by this module. Move it away")
        if isinstance(wanted[path], Folder) and not isinstance(entry, Folder) and not tree_of(path):
            raise ToolsError(f"{path} must be a folder, but is not. Move it away")


def _marked(entry: Entry) -> bool:
    return isinstance(entry, File) and layout.MARK.encode() in entry.content


def _rank(path: str) -> int:
    """Sort folders first, then the trees that are in use, then what uses them, and last what starts that at boot."""
    if path in (*FOLDERS, *services.HOOK_FOLDERS):
        return 0
    programs = (LAUNCHER, services.LIBEXEC, share.SHARE)
    order = (f"{TREES}/", HOME, *programs, layout.UNIT_FOLDER, layout.ADMIN_UNIT_FOLDER, services.UDEV_FOLDER)
    return 1 + next(number for number, prefix in enumerate(order) if path.startswith(prefix))


def as_result(found: Disk, wanted: Disk, made: ToolPlan) -> dict[str, Any]:
    """Return a plan as the module's result, including the diff."""
    touched = sorted({*made.written, *made.remove})
    return {
        "changed": made.changed,
        "written": made.written,
        "removed": list(made.remove),
        "restored": list(made.restored),
        "diff": {
            "before": "".join(f"{path}: {_describe(found.get(path))}\n" for path in touched),
            "after": "".join(f"{path}: {_describe(wanted.get(path))}\n" for path in touched),
        },
    }


def _describe(entry: Entry | None) -> str:
    if entry is None:
        return "absent"
    if isinstance(entry, Link):
        return f"link to {entry.target}"
    if isinstance(entry, Folder):
        return f"folder, mode {entry.mode:04o}, owner {entry.uid}"
    if isinstance(entry, File):
        return f"file, mode {entry.mode:04o}, owner {entry.uid}, SHA-256 {hashlib.sha256(entry.content).hexdigest()}"
    return "bytecode" if isinstance(entry, Compiled) else "something else"


def wanted_disk(
    version: str,
    sources: Mapping[str, bytes],
    interpreter: str,
    uid: int,
    shared: Mapping[str, str] | None = None,
) -> dict[str, Entry]:
    """Return the complete wanted state.

    :param sources: the tool's sources, by path below its package.
    :param interpreter: absolute path of the Python that runs it.
    :param uid: owner of everything: root, except in tests.
    :param shared: texts of manual pages and scripts for shells, by path.
    """
    tool = tool_tree(version, sources)
    base = f"{TREES}/{tool.name}"
    wanted: dict[str, Entry] = {path: Folder(0o755, uid) for path in (*FOLDERS, *services.HOOK_FOLDERS, base)}
    for path, content in sorted(tool.files.items()):
        folders = path.split("/")
        for depth in range(1, len(folders)):
            wanted[f"{base}/{'/'.join(folders[:depth])}"] = Folder(0o755, uid)
        wanted[f"{base}/{path}"] = File(content, 0o644, uid)
        if path.endswith(".py"):
            cache = importlib.util.cache_from_source(f"{base}/{path}")
            wanted[posixpath.dirname(cache)] = Folder(0o755, uid)
            wanted[cache] = Compiled(bytecode_header(content), 0o644, uid)
    wanted[TOOL] = Link(f"trees/{tool.name}")
    wanted[LAUNCHER] = File(layout.launcher(interpreter).encode(), 0o755, uid)
    for name, text in units.UNITS.items():
        wanted[f"{layout.UNIT_FOLDER}/{name}"] = File(text.encode(), 0o644, uid)
    for path, text in services.UDEV_RULES.items():
        wanted[path] = File(text.encode(), 0o644, uid)
    for path, text in (shared or {}).items():
        wanted[path] = File(text.encode(), 0o644, uid)
    for path, text in services.HOOKS.items():
        wanted[path] = File(text.encode(), 0o755, uid)
    for folder, names in units.ENABLED.items():
        wanted[f"{layout.ADMIN_UNIT_FOLDER}/{folder}"] = Folder(0o755, uid)
        for name in names:
            wanted[f"{layout.ADMIN_UNIT_FOLDER}/{folder}/{name}"] = Link(f"{layout.UNIT_FOLDER}/{name}")
    return wanted


def bytecode_header(source: bytes) -> bytes:
    """Return the header of bytecode that Python checks by its source's hash, not by its modification time (PEP 552)."""
    return importlib.util.MAGIC_NUMBER + (0b11).to_bytes(4, "little") + importlib.util.source_hash(source)
