# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The archive of a bundle: an index, a first page for people, and a text file for each item."""

from __future__ import annotations

import contextlib
import io
import json
import os
import secrets
import tarfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..machine.root import Root
from ..version import VERSION
from .collect import Entry
from .page import page

SCHEMA = 1
FOLDERS = ("/var/lib/hpcai/diag", "/run/hpcai/diag")
"""Where archives are written: the second one is in memory, for a machine whose disk is full."""
_MODE = 0o600
_SPARE = 64 << 20
"""Free space that must remain for the machine itself, in bytes."""


class NoRoom(OSError):
    """The archive fits nowhere; the message says where it was tried, and what to do."""


@dataclass(frozen=True)
class Bundle:
    """A bundle that is not written yet.

    :ivar name: the name of its folder in the archive, and of the archive without its ending.
    :ivar index: what it contains, as in ``index.json``.
    :ivar data: the archive, gzip-compressed.
    """

    name: str
    index: Mapping[str, Any]
    data: bytes

    def summary(self) -> dict[str, Any]:
        """Return its size, how many values were hidden, and which items are not available."""
        return {
            "node": self.index["node"],
            "bytes": len(self.data),
            "hidden": sum(item["redacted"] for item in self.index["items"]),
            "missing": [item["name"] for item in self.index["items"] if not item["file"]],
        }


def make_bundle(node: str, entries: Sequence[Entry], now: float, pseudonymous: bool, seconds: float) -> Bundle:
    """Return the bundle of these entries. Pure.

    :param node: the machine's name, or its pseudonym.
    :param now: when it was made, in seconds since the epoch.
    """
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    name = f"hpcai-diag-{node}-{stamp}"
    index = {
        "schema": SCHEMA,
        "node": node,
        "made_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)),
        "hpcnode": VERSION,
        "seconds": round(seconds, 1),
        "pseudonyms": pseudonymous,
        "items": [entry.as_index() for entry in entries],
    }
    parts = {
        "index.html": page(index, {entry.item.name: entry.text for entry in entries}),
        "index.json": json.dumps(index, indent=1) + "\n",
    }
    parts.update({entry.file: entry.text for entry in entries if entry.file})
    return Bundle(name, index, _packed(name, parts, now))


def _packed(name: str, parts: Mapping[str, str], now: float) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=6) as archive:
        for path, text in parts.items():
            data = text.encode("utf-8", "replace")
            # No owner and no restrictive mode, so that anybody can unpack it.
            member = tarfile.TarInfo(f"{name}/{path}")
            member.size, member.mtime, member.mode = len(data), int(now), 0o644
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def write_bundle(root: Root, bundle: Bundle, folders: Sequence[str] = FOLDERS) -> str:
    """Write the archive into the first folder with enough room, and return its path. Only root can read it.

    :raises NoRoom: it fits nowhere.
    """
    problems = []
    for folder in folders:
        try:
            return _write(root, f"{folder}/{bundle.name}.tar.gz", bundle.data)
        except OSError as error:
            problems.append(f"{folder}: {error.strerror or error}")
    raise NoRoom(
        f"cannot write {len(bundle.data) >> 10} KiB ({'; '.join(problems)}). Free some space, or use --output -."
    )


def _write(root: Root, path: str, data: bytes) -> str:
    folder = os.path.dirname(root.at(path))
    os.makedirs(folder, mode=0o700, exist_ok=True)
    room = os.statvfs(folder)
    if room.f_bavail * room.f_frsize < len(data) + _SPARE:
        raise OSError(0, f"only {room.f_bavail * room.f_frsize >> 20} MiB are free")
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    temporary = f".{os.path.basename(path)}.{secrets.token_hex(4)}"
    try:
        file_handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE, dir_fd=handle)
        with open(file_handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, os.path.basename(path), src_dir_fd=handle, dst_dir_fd=handle)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=handle)
        raise
    finally:
        os.close(handle)
    return path


def keep_newest(root: Root, folder: str, keep: int, newest: str = "") -> list[str]:
    """Remove all archives but the newest ones, and return the names of the removed ones.

    :param newest: path of the archive that was just written. It stays, even if the clock was set back before.
    """
    names = [name for name in root.entries(folder) if name.startswith("hpcai-diag-") and name.endswith(".tar.gz")]
    # The names of one machine end with the time.
    ordered = sorted(names, key=lambda name: (f"{folder}/{name}" == newest, name.rpartition("-")[2]))
    old = ordered[:-keep]
    handle = os.open(root.at(folder), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC) if old else -1
    try:
        for name in old:
            os.unlink(name, dir_fd=handle)
    finally:
        if handle >= 0:
            os.close(handle)
    return old
