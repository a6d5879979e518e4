# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The copies of NCCL on a machine, and which versions they are.

NCCL inside containers and in Python environments (PyTorch brings its own) is another one, and is not looked for.
"""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...machine.root import Root
from ...machine.run import Run
from .versions import Version, version_of_code, version_of_file

PLACES = (
    "/usr/lib/*-linux-gnu",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/local/cuda*/lib64",
    "/usr/local/nccl*/lib*",
    "/opt/nccl*/lib*",
    "/opt/nccl*/build/lib*",
)
"""Where copies lie besides what the loader's cache names; the first two are those of NVIDIA's packages."""

_IN_CACHE = re.compile(r"^\s*(lib\S+)\s+\([^)]*\)\s+=>\s+(/.*\S)\s*$", re.MULTILINE)
# In a process of its own: a library runs code when it is loaded, and may never come back.
_ASK = (
    "import ctypes, sys\n"
    "version = ctypes.c_int()\n"
    "if ctypes.CDLL(sys.argv[1]).ncclGetVersion(ctypes.byref(version)) == 0:\n"
    "    sys.stdout.write(str(version.value))\n"
)
_ASK_LIMIT_S = 10


@dataclass(frozen=True)
class Copy:
    """A copy of NCCL.

    :ivar path: the file, links followed.
    :ivar version: which it is; None where neither its name nor the library itself says so.
    :ivar default: it is the one that a program gets without further ado: the loader's cache names it first.
    """

    path: str
    version: Version | None
    default: bool


def loader_cache(root: Root, run: Run) -> dict[str, str]:
    """Return the files that programs get by the loader's cache, by library name; empty if it cannot be read."""
    shown = run(["/sbin/ldconfig", "-p", "-C", root.at("/etc/ld.so.cache")])
    found: dict[str, str] = {}
    for name, path in _IN_CACHE.findall(shown.stdout if shown.rc == 0 else ""):
        found.setdefault(name, path)
    return found


def find_copies(root: Root, run: Run, cache: dict[str, str], folders: Sequence[str] = ()) -> tuple[Copy, ...]:
    """Return the copies of NCCL, the default one first.

    :param cache: what ``loader_cache`` returned.
    :param folders: where to look as well.
    """
    first = _resolved(root, cache["libnccl.so.2"]) if "libnccl.so.2" in cache else None
    paths = dict.fromkeys(path for path in (first, *_candidates(root, folders)) if path)
    return tuple(Copy(path, _version(root, run, path), path == first) for path in paths)


def files_in(root: Root, pattern: str) -> list[str]:
    """Return the paths of the machine that match a pattern, by name."""
    prefix = "" if root.is_this_machine else root.path
    return [found[len(prefix) :] for found in sorted(glob.glob(f"{prefix}{pattern}"))]


def _candidates(root: Root, folders: Sequence[str]) -> Iterator[str | None]:
    for folder in (*folders, *PLACES):
        for path in files_in(root, f"{folder}/libnccl.so.2*"):
            yield _resolved(root, path)


def _resolved(root: Root, path: str) -> str | None:
    """The file behind links, as a path of that machine; None where there is none."""
    real = os.path.realpath(root.at(path))
    if not os.path.isfile(real):
        return None
    if root.is_this_machine:
        return real
    inside = os.path.realpath(root.path)
    return real[len(inside) :] if real.startswith(f"{inside}/") else None


def _version(root: Root, run: Run, path: str) -> Version | None:
    named = version_of_file(os.path.basename(path))
    if named:
        return named
    said = run(["timeout", "-k", "1", str(_ASK_LIMIT_S), sys.executable, "-I", "-c", _ASK, root.at(path)])
    text = said.stdout.strip()
    return version_of_code(int(text)) if said.rc == 0 and text.isdecimal() and text.isascii() else None
