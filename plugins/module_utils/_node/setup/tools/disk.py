# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The node tool on disk: read the state, and apply a plan so that an interruption always leaves a working tool."""

from __future__ import annotations

import contextlib
import fcntl
import os
import py_compile
import shutil
import stat
from collections.abc import Iterator
from typing import Any

from ...machine.atomic import make_folders
from ...machine.lock import Locked, only_one
from ...machine.root import Root
from ...version import VERSION
from ..metadata.rules import NFT
from . import layout, services, share, units
from .layout import (
    FOLDERS,
    HOME,
    LAUNCHER,
    LOCK,
    SITE,
    TOOL,
    TREES,
    WHEELS,
    Compiled,
    Disk,
    Entry,
    File,
    Folder,
    Link,
    SpecialFile,
)
from .payload import ToolsError, read_sources
from .plan import ToolPlan, as_result, plan, wanted_disk
from .share import Pages

_HEADER = 16
"""Size in bytes of the header in a bytecode file."""
_LOCK_S = 120
"""How long to wait for another run, in seconds."""


def compare(root: Root, interpreter: str, pages: Pages, absent: bool = False) -> tuple[Disk, dict[str, Any]]:
    """Compare the disk with the wanted state; return that state, and the result of a module that would apply it.

    :param pages: manual pages and scripts for shells.
    :param absent: whether nothing should be there.
    :raises ToolsError: one of our paths contains a foreign file.
    """
    placed = share.placed(pages, root)
    wanted = {} if absent else wanted_disk(VERSION, read_sources(), interpreter, os.geteuid(), placed)
    found = read_disk(root)
    result = as_result(found, wanted, plan(found, wanted, trees_in_use(root)))
    return wanted, {**result, "version": VERSION, "interpreter": interpreter, "nft_needed": not root.exists(NFT)}


def read_disk(root: Root) -> dict[str, Entry]:
    """Return everything that is or could be part of the node tool, by its path on the machine."""
    candidates = [*FOLDERS, *services.HOOK_FOLDERS, TOOL, LAUNCHER, SITE, WHEELS, *_below(root, TREES)]
    candidates += [f"{services.LIBEXEC}/{name}" for name in root.entries(services.LIBEXEC)]
    candidates += share.paths_of(root)
    shipped, admin = layout.UNIT_FOLDER, layout.ADMIN_UNIT_FOLDER
    candidates += [f"{shipped}/{name}" for name in root.entries(shipped) if name.startswith("hpcai-")]
    rules = services.UDEV_FOLDER
    candidates += [f"{rules}/{name}" for name in root.entries(rules) if "-hpcai-" in name]
    for folder in root.entries(admin):
        if folder.endswith((".wants", ".requires")):
            names = [name for name in root.entries(f"{admin}/{folder}") if name.startswith("hpcai-")]
            candidates += [f"{admin}/{folder}", *(f"{admin}/{folder}/{name}" for name in names)]
    found = {path: _look(root.at(path)) for path in candidates}
    return {path: entry for path, entry in found.items() if entry is not None}


def _below(root: Root, folder: str) -> Iterator[str]:
    for name in root.entries(folder):
        path = f"{folder}/{name}"
        yield path
        if not os.path.islink(root.at(path)):
            yield from _below(root, path)


def _look(path: str) -> Entry | None:
    try:
        status = os.lstat(path)
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISLNK(status.st_mode):
            return Link(os.readlink(path))
        if stat.S_ISDIR(status.st_mode):
            return Folder(mode, status.st_uid)
        if not stat.S_ISREG(status.st_mode):
            return SpecialFile()
        with open(path, "rb") as file:
            if path.endswith(".pyc"):
                return Compiled(file.read(_HEADER), mode, status.st_uid)
            return File(file.read(), mode, status.st_uid)
    except (FileNotFoundError, NotADirectoryError):
        return None


def trees_in_use(root: Root) -> frozenset[str]:
    """Return the names of the trees that a running hpcnode uses: its launcher locks the one that it loads from."""
    used = set()
    for name in root.entries(TREES):
        with _unused(root.at(f"{TREES}/{name}")) as unused:
            if not unused:
                used.add(name)
    return frozenset(used)


@contextlib.contextmanager
def _unused(path: str) -> Iterator[bool]:
    """Yield whether no process has locked a folder; nobody can lock it meanwhile. Anything else is unused."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        yield True
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(handle)


def apply(root: Root, wanted: Disk) -> ToolPlan:
    """Bring the disk into the wanted state, and return what had to be done.

    Trees are built under a temporary name and renamed when complete; then the links and other files change, each by one
    rename; what is no longer needed is removed last, or stays while a process runs from it. A concurrent run waits,
    and then reads the disk again.

    :raises ToolsError: one of our paths contains a foreign file, or another run does not finish.
    :raises OSError: the disk is full or read-only, for example.
    """
    with _locked(root):
        made = plan(read_disk(root), wanted, trees_in_use(root))
        for name in made.build:
            _build(root, name, wanted)
        for path in made.write:
            _write(root, path, wanted[path])
        if TOOL in made.write:
            # A daemon that runs from another version is now older than the link, so it is restarted.
            os.utime(root.at(TOOL))
        for path in made.remove:
            with _unused(root.at(path)) as unused:
                if unused or not wanted:
                    _remove(root.at(path))
        if HOME not in wanted:
            _remove(root.at(LOCK))
    if HOME not in wanted:
        for folder in (HOME, services.LIBEXEC, *(f"{layout.ADMIN_UNIT_FOLDER}/{name}" for name in units.ENABLED)):
            # A folder with somebody else's files stays.
            with contextlib.suppress(OSError):
                os.rmdir(root.at(folder))
    return made


@contextlib.contextmanager
def _locked(root: Root) -> Iterator[None]:
    try:
        with only_one(root.at(LOCK), _LOCK_S):
            yield
    except Locked as error:
        raise ToolsError(f"another run is installing hpcnode: {error}") from None


def _build(root: Root, name: str, wanted: Disk) -> None:
    """Build a tree next to the others. Its files are synced to disk before it gets its name."""
    final, aside = f"{TREES}/{name}", f"{TREES}/.new-{name}"
    _remove(root.at(aside))
    folders = []
    for path, entry in wanted.items():
        if path == final or path.startswith(f"{final}/"):
            _write(root, aside + path[len(final) :], entry, final_path=path)
            if isinstance(entry, Folder):
                folders.append(aside + path[len(final) :])
    for folder in reversed(folders):
        _sync(root.at(folder))
    _remove(root.at(final))
    os.rename(root.at(aside), root.at(final))
    _sync(root.at(TREES))


def _write(root: Root, path: str, entry: Entry, final_path: str = "") -> None:
    """Bring one path into its state; a reader sees either the old or the new state."""
    full_path = root.at(path)
    if isinstance(entry, Folder):
        if not os.path.isdir(full_path) or os.path.islink(full_path):
            _remove(full_path)
            os.makedirs(full_path)
        os.chmod(full_path, entry.mode)
        os.chown(full_path, entry.uid, -1)
        return
    if isinstance(entry, Compiled):
        _compile(root, path, entry, final_path or path)
        return
    parent, name = os.path.split(full_path)
    make_folders(parent)
    if os.path.isdir(full_path) and not os.path.islink(full_path):
        _remove(full_path)
    aside = os.path.join(parent, f".{name}.new")
    _remove(aside)
    if isinstance(entry, Link):
        os.symlink(entry.target, aside)
    elif isinstance(entry, File):
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(entry.content)
            os.fchmod(file.fileno(), entry.mode)
            os.fchown(file.fileno(), entry.uid, -1)
            file.flush()
            os.fsync(file.fileno())
    os.replace(aside, full_path)
    if not path.startswith(f"{TREES}/"):
        _sync(parent)


def _compile(root: Root, path: str, entry: Compiled, final_path: str) -> None:
    """Compile a source. Tracebacks show its final path."""
    folder, name = os.path.split(path)
    source = f"{os.path.dirname(folder)}/{name.partition('.')[0]}.py"
    shown = f"{os.path.dirname(os.path.dirname(final_path))}/{os.path.basename(source)}"
    full_path = root.at(path)
    _remove(full_path)
    checked = py_compile.PycInvalidationMode.CHECKED_HASH
    py_compile.compile(root.at(source), cfile=full_path, dfile=shown, doraise=True, invalidation_mode=checked)
    os.chmod(full_path, entry.mode)
    os.chown(full_path, entry.uid, -1)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(path)


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
