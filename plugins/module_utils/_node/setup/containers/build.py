# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Building pyxis from its source's archive, by a user who may do nothing else, in a folder that goes away."""

from __future__ import annotations

import contextlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator

from ...machine.run import Run

_NOBODY = 65534
_PARENT = "/var/tmp"
_PLUGIN = "spank_pyxis.so"
_ELF = b"\x7fELF"
_MOST = 64 << 20
"""Bytes of the unpacked source, at most: pyxis has 300 KiB."""


class BuildFailed(RuntimeError):
    """The plugin cannot be built; the message says why, and what to do."""


@contextlib.contextmanager
def build(archive: str, include: str, version: str, run: Run) -> Iterator[str]:
    """Unpack the archive, build the plugin and give its path, for as long as the context lasts.

    :param include: folder of Slurm's headers.
    :param version: pyxis' version, which the plugin says in its log.
    :raises BuildFailed: the archive is not what it should be, or it does not compile; the message has the first error.
    """
    folder = tempfile.mkdtemp(prefix="hpcai-pyxis-", dir=_PARENT)
    try:
        source = _unpack(archive, folder)
        _give_away(folder)
        extra = [] if include == "/usr/include" else [f"CPPFLAGS=-I{include}"]
        answer = run(["env", *extra, *_as_nobody(), "make", "-C", source, _PLUGIN, f"PYXIS_VER={version}"])
        plugin = f"{source}/{_PLUGIN}"
        if answer.rc != 0:
            lines = [line for line in answer.stderr.splitlines() if line.strip()]
            said = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "no message")
            raise BuildFailed(
                f"pyxis does not compile (make ended with {answer.rc}): {said.replace(folder, '').strip()}"
            )
        if not _is_elf(plugin):
            raise BuildFailed(f"make ended well and left no {_PLUGIN}: {archive} is no source of pyxis.")
        yield plugin
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _as_nobody() -> list[str]:
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--no-new-privs", "--"]


def _unpack(archive: str, folder: str) -> str:
    """Unpack plain files and folders only, each below the folder; return where the Makefile is."""
    try:
        with tarfile.open(archive) as tar:
            size = 0
            for member in tar:
                name = os.path.normpath(member.name)
                if name.startswith(("/", "..")):
                    raise BuildFailed(
                        f"{archive} has {member.name!r}, which leads out of it: it is no source of pyxis."
                    )
                path = os.path.join(folder, name)
                if member.isdir():
                    os.makedirs(path, exist_ok=True)
                elif member.isreg():
                    size += member.size
                    if size > _MOST:
                        raise BuildFailed(f"{archive} is larger than any source of pyxis.")
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    stream = tar.extractfile(member)
                    if stream:
                        with open(path, "wb") as file:
                            shutil.copyfileobj(stream, file)
                        # Make goes by the files' times.
                        os.utime(path, (member.mtime, member.mtime))
    except (tarfile.TarError, EOFError, OSError) as error:
        raise BuildFailed(f"{archive} cannot be unpacked: {error}.") from error
    tops = [folder, *(entry.path for entry in sorted(os.scandir(folder), key=lambda entry: entry.name))]
    for top in tops:
        if os.path.isfile(os.path.join(top, "Makefile")):
            return top
    raise BuildFailed(f"{archive} has no Makefile: it is no source of pyxis.")


def _give_away(folder: str) -> None:
    if os.geteuid() != 0:
        return
    for base, folders, files in os.walk(folder):
        os.chown(base, _NOBODY, _NOBODY)
        for name in (*folders, *files):
            os.chown(os.path.join(base, name), _NOBODY, _NOBODY, follow_symlinks=False)


def _is_elf(path: str) -> bool:
    # Whoever built it could have left a link to something else.
    if os.path.islink(path) or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(4) == _ELF
