# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Make a dump, atomically: it is either complete or absent.

slurmctld's state is copied first and the database afterwards, so the accounting has each job in the queue. In the other
order, jobs could end whose start was not recorded.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import shutil
import stat
import tarfile
import time
from collections.abc import Iterator
from typing import Any

from ..machine.run import Run, must
from .database import count_rows
from .state import DATABASE, MANIFEST, SCHEMA, STATE, Refused, StatePaths, digest, dumps_in, installed_release

_PARTIAL = ".partial-"
_SPARE_BYTES = 64 << 20
"""Space that must stay free on the dumps' file system."""
DATABASE_LIMIT_S = 3600
"""Timeout for the dump of the database."""
_AGAIN, _PAUSE_S = 3, 0.02
_ABANDONED_S = 24 * 3600
"""Age at which an incomplete dump counts as left by a host that is gone."""


def make_dump(place: StatePaths, run: Run, now: float | None = None) -> str:
    """Make a dump, prune the oldest ones, and return its path.

    :raises Refused: there is not enough space, or nothing to dump.
    :raises CommandFailed: the database could not be dumped.
    :raises OSError: a file could not be written.
    """
    if not place.path:
        raise Refused("No folder for dumps is set (slurm_dump_path).")
    if not place.state and not place.database:
        raise Refused("This host has neither slurmctld's state nor slurmdbd's database.")
    os.makedirs(place.path, mode=0o700, exist_ok=True)
    _remove_partial(place.path)
    _check_room(place, run)
    moment = time.gmtime(time.time() if now is None else now)
    name = f"{place.cluster}-{time.strftime('%Y%m%dT%H%M%SZ', moment)}"
    done = os.path.join(place.path, name)
    if os.path.exists(done):
        raise Refused(f"{done} already exists. Wait a second.")
    partial = os.path.join(place.path, f"{_PARTIAL}{name}{_own_mark()}")
    try:
        _fill(partial, place, run, time.strftime("%Y-%m-%dT%H:%M:%SZ", moment))
        os.rename(partial, done)
        _sync(place.path)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    # The host of slurmdbd may have its dumps in the same folder, and removes them itself.
    for old in dumps_in(place.path, place.cluster, place.files)[: -max(place.keep, 1)]:
        shutil.rmtree(old)
    return done


def _fill(folder: str, place: StatePaths, run: Run, moment: str) -> None:
    os.mkdir(folder, 0o700)
    files: dict[str, Any] = {}
    if place.state:
        _archive(place.state, os.path.join(folder, STATE))
        files[STATE] = {}
    rows = None
    if place.database:
        path = os.path.join(folder, DATABASE)
        words = ["mariadb-dump", "--single-transaction", "--quick", "--routines", "--hex-blob", "--skip-dump-date"]
        _must_have_room(
            place,
            functools.partial(run, timeout_s=DATABASE_LIMIT_S)(  # type: ignore[call-arg]
                [*words, f"--result-file={path}", place.database]
            ),
        )
        os.chmod(path, 0o600)
        rows = count_rows(place.database, place.cluster, run)
        files[DATABASE] = {}
    for name, entry in files.items():
        path = os.path.join(folder, name)
        entry.update(sha256=digest(path), bytes=os.path.getsize(path))
        _sync(path)
    manifest = {
        "schema": SCHEMA,
        "cluster": place.cluster,
        "made_at": moment,
        "slurm": installed_release(place, run),
        "jobs_in_database": rows,
        "files": files,
    }
    path = os.path.join(folder, MANIFEST)
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(manifest, indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())
    _sync(folder)


def _must_have_room(place: StatePaths, answer: Any) -> None:
    """Raise Refused if the disk was full: mariadb-dump then exits with 5 and prints the errno."""
    if answer.rc != 0 and (f"rrcode: {errno.ENOSPC}" in answer.stderr or "No space left" in answer.stderr):
        raise Refused(f"No space is left in {place.path}. Existing dumps are unchanged. Free some space.")
    must(answer)


def _archive(state: str, path: str) -> None:
    """Copy slurmctld's state while it runs: it replaces complete files, and may remove one meanwhile.

    The queue comes first, its jobs' scripts afterwards, because an extra script does no harm.
    """
    listed = os.listdir(state)
    # A file that is just being replaced may not be listed, but its former content, with ".old", is.
    replaced = {name.removesuffix(".old") for name in listed}
    names = sorted({*listed, *replaced}, key=lambda name: (name.startswith("hash."), name))
    with (
        open(path, "xb", opener=lambda p, flags: os.open(p, flags, 0o600)) as file,
        tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name in names:
            for full, inside in _tree(os.path.join(state, name), name):
                _add(archive, full, inside)


def _tree(full: str, inside: str) -> Iterator[tuple[str, str]]:
    yield full, inside
    if os.path.isdir(full) and not os.path.islink(full):
        with contextlib.suppress(FileNotFoundError):
            for name in sorted(os.listdir(full)):
                yield from _tree(os.path.join(full, name), f"{inside}/{name}")


def _add(archive: tarfile.TarFile, full: str, inside: str) -> None:
    """Add one file. It is opened before its size is read, because it may be replaced or removed at any time.

    While slurmctld replaces a file, there is no file of this name for a moment: it unlinks the old one before it links
    the new one (save_buf_to_state in Slurm's src/common/state_save.c).
    """
    for attempt in range(_AGAIN):
        try:
            if attempt:
                time.sleep(_PAUSE_S)
            mode = os.lstat(full).st_mode
            if stat.S_ISDIR(mode):
                archive.add(full, inside, recursive=False)
            elif stat.S_ISREG(mode):
                with open(full, "rb") as file:
                    archive.addfile(archive.gettarinfo(arcname=inside, fileobj=file), file)
            return
        except FileNotFoundError:
            continue


def _check_room(place: StatePaths, run: Run) -> None:
    needed = _SPARE_BYTES + (_size_of(place.state) if place.state else 0)
    if place.database:
        # The text of a dump has no indexes, and is about as large as the data.
        size = (
            f"SELECT COALESCE(SUM(data_length), 0) FROM information_schema.tables WHERE table_schema='{place.database}'"
        )
        needed += int(
            must(run(["mariadb", "--batch", "--skip-column-names", f"--execute={size}"])).stdout.split(".")[0]
        )
    file_system = os.statvfs(place.path)
    free = file_system.f_bavail * file_system.f_frsize
    if free < needed:
        raise Refused(
            f"{place.path} has {free >> 20} MiB free, but a dump needs {needed >> 20} MiB. "
            "Existing dumps are unchanged. Free some space, or keep fewer dumps (slurm_dump_keep)."
        )


def _size_of(folder: str) -> int:
    total = 0
    for parent, _folders, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(parent, name)).st_size
    return total


def _remove_partial(folder: str) -> None:
    """Remove what an interrupted dump of this host left. The caller holds the lock of this host.

    Other hosts may be writing their dumps to the same folder, so what they left is removed only after a day.
    """
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name.startswith(_PARTIAL) and (name.endswith(_own_mark()) or _is_abandoned(path)):
            shutil.rmtree(path, ignore_errors=not name.endswith(_own_mark()))


def _own_mark() -> str:
    return f"@{os.uname().nodename}"


def _is_abandoned(path: str) -> bool:
    try:
        return time.time() - os.stat(path).st_mtime > _ABANDONED_S
    except FileNotFoundError:
        return False


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
