# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The copies of NCCL on a machine, which versions they are, and whether they are new enough.

NCCL inside containers and in Python environments (PyTorch brings its own) is another one, and is not looked for.
"""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...machine.pci import read_pci
from ...machine.root import Root
from ...machine.run import Run
from ...sku import VmSize

Version = tuple[int, int, int]

RECOMMENDED = "2.9.9"
"""What Microsoft advises for ND A100 v4 at scale: "It is recommended that you use NCCL version >= 2.9.9"."""

_VERSION_TEXT = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:[^0-9.].*)?")
_VERSIONED_FILE = re.compile(r"libnccl\.so\.(\d+\.\d+\.\d+)")


def parse_version(text: str) -> Version:
    """Return the version that a text such as ``2.18.5``, ``2.9`` or ``2.18.5-1+cuda12.2`` begins with.

    :raises ValueError: it is no version.
    """
    match = _VERSION_TEXT.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is no version of NCCL, such as {RECOMMENDED}.")
    return int(match[1]), int(match[2]), int(match[3] or 0)


def version_of_file(name: str) -> Version | None:
    """Return the version that a file's name ends in (``libnccl.so.2.18.5``); None where it has none."""
    match = _VERSIONED_FILE.fullmatch(name)
    return parse_version(match[1]) if match else None


def version_of_code(code: int) -> Version:
    """Return the version out of NCCL's number of it: 2809 is 2.8.9, and from 2.9 on 20909 is 2.9.9 (``nccl.h``)."""
    unit = 1000 if code < 10000 else 10000
    return code // unit, code % unit // 100, code % 100


def version_text(version: Version) -> str:
    """Return it as it is written."""
    return ".".join(map(str, version))


LIBRARY_FOLDERS = (
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
class NcclCopy:
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


def find_copies(root: Root, run: Run, cache: dict[str, str], folders: Sequence[str] = ()) -> tuple[NcclCopy, ...]:
    """Return the copies of NCCL, the default one first.

    :param cache: what ``loader_cache`` returned.
    :param folders: where to look as well.
    """
    first = _resolved(root, cache["libnccl.so.2"]) if "libnccl.so.2" in cache else None
    paths = dict.fromkeys(path for path in (first, *_candidates(root, folders)) if path)
    return tuple(NcclCopy(path, _version(root, run, path), path == first) for path in paths)


def files_in(root: Root, pattern: str) -> list[str]:
    """Return the paths of the machine that match a pattern, by name."""
    prefix = "" if root.is_this_machine else root.path
    return [found[len(prefix) :] for found in sorted(glob.glob(f"{prefix}{pattern}"))]


def _candidates(root: Root, folders: Sequence[str]) -> Iterator[str | None]:
    for folder in (*folders, *LIBRARY_FOLDERS):
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
    answer = run(["timeout", "-k", "1", str(_ASK_LIMIT_S), sys.executable, "-I", "-c", _ASK, root.at(path)])
    text = answer.stdout.strip()
    return version_of_code(int(text)) if answer.rc == 0 and text.isdecimal() and text.isascii() else None


# Is NCCL new enough?

PASS, WARN, FAIL, UNKNOWN = "pass", "warn", "fail", "unknown"


@dataclass(frozen=True)
class VersionVerdict:
    """What is to be said of the machine's NCCL.

    :ivar verdict: PASS, UNKNOWN, or WARN or FAIL for one that is too old.
    :ivar version: of the copy that decides; None where it is unknown or there is none.
    :ivar min_version: the oldest version that is good.
    :ivar summary: in words.
    :ivar copies: all that were found.
    """

    verdict: str
    version: str | None
    min_version: str
    summary: str
    copies: tuple[NcclCopy, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        floor = parse_version(self.min_version)
        return {
            "verdict": self.verdict,
            "version": self.version,
            "min_version": self.min_version,
            "summary": self.summary,
            "copies": [
                {
                    "path": copy.path,
                    "version": version_text(copy.version) if copy.version else None,
                    "default": copy.default,
                    "old": None if copy.version is None else copy.version < floor,
                }
                for copy in self.copies
            ],
        }


def check_version(copies: Sequence[NcclCopy], min_version: str, when_old: str) -> VersionVerdict:
    """Judge the copy that programs get; where the loader names none, each copy counts, the oldest first. Pure.

    :param when_old: the verdict of a version that is too old: WARN or FAIL.
    :raises ValueError: ``min_version`` is no version.
    """
    floor, found = parse_version(min_version), tuple(copies)

    def judgement(verdict: str, version: str | None, summary: str) -> VersionVerdict:
        return VersionVerdict(verdict, version, min_version, summary, found)

    deciding = [copy for copy in found if copy.default] or list(found)
    if not deciding:
        return judgement(UNKNOWN, None, "No NCCL was found on this machine; that of containers was not looked at.")
    known = sorted((copy.version, copy.path) for copy in deciding if copy.version)
    if known and known[0][0] < floor:
        version, path = known[0]
        text = version_text(version)
        return judgement(when_old, text, f"{path} is NCCL {text}; {min_version} or newer is needed.")
    for copy in deciding:
        if copy.version is None:
            return judgement(UNKNOWN, None, f"{copy.path}: which version it is cannot be told.")
    version, path = known[0]
    old = [copy.path for copy in found if copy.version and copy.version < floor]
    aside = f" Also here, and older than {min_version}: {', '.join(old)}." if old else ""
    return judgement(PASS, version_text(version), f"{path} is NCCL {version_text(version)}.{aside}")


# The plugin through which NCCL uses InfiniBand best, and SHARP where the fabric has it: which one, and its folders.
#
# Sources: azhpc-images builds it into /usr/local/nccl-rdma-sharp-plugins (components/install_nccl.sh; not for sizes
# without InfiniBand), and unpacks HPC-X, which has one too, to /opt/hpcx-v... (components/install_mpis.sh). NCCL opens
# libnccl-net.so by the loader's rules (plugin_open.cc), so its folder has to be among those. One built with SHARP
# cannot be loaded without SHARP's libraries, also where SHARP itself is not enabled.

PLUGIN = "libnccl-net.so"
PLUGIN_FOLDERS = ("/usr/local/nccl-rdma-sharp-plugins/lib", "/opt/hpcx*/nccl_rdma_sharp_plugin/lib")
"""Where it lies, best first: the first is the one that the images' own tests use."""
_SHARP_LIBRARY = "libsharp_coll.so*"
_MELLANOX_SHARP = "/opt/mellanox/sharp/lib"

WITHOUT_SHARP = ("Standard_ND96asr_v4",)
"""Sizes of which Microsoft says that SHARP "is currently not enabled". Of the others no source says anything."""


@dataclass(frozen=True)
class NetPlugin:
    """What is to be done about the plugin.

    :ivar found: the folders that hold one, best first.
    :ivar folders: what goes on the library path: the plugin's folder, and that of SHARP's libraries.
    :ivar reason: why nothing does; empty where something does.
    :ivar sharp: whether the size's fabric offers SHARP; None where no source says.
    """

    found: tuple[str, ...]
    folders: tuple[str, ...]
    reason: str
    sharp: bool | None


def find_plugin(root: Root, size: VmSize, enabled: bool, cache: Mapping[str, str], folders: Sequence[str]) -> NetPlugin:
    """Return what is found and what goes on the path.

    :param enabled: whether it is to be used.
    :param cache: what the loader finds by itself, by library name.
    :param folders: where to look first.
    """
    found = tuple(dict.fromkeys(_plugin_folders(root, folders)))
    sharp = False if size.name in WITHOUT_SHARP else None
    reason = _why_no_plugin(root, size, enabled, cache, found)
    if reason:
        return NetPlugin(found, (), reason, sharp)
    beside = [re.sub(r"/nccl_rdma_sharp_plugin/lib$", "/sharp/lib", found[0]), _MELLANOX_SHARP]
    libraries = [folder for folder in beside if folder != found[0] and files_in(root, f"{folder}/{_SHARP_LIBRARY}")]
    return NetPlugin(found, (found[0], *libraries[:1]), "", sharp)


def _why_no_plugin(root: Root, size: VmSize, enabled: bool, cache: Mapping[str, str], found: Sequence[str]) -> str:
    if not enabled:
        return "it was not asked for"
    if not _has_infiniband(root, size):
        return f"{size.name} has no InfiniBand"
    if PLUGIN in cache:
        return f"the loader finds {cache[PLUGIN]} by itself"
    return "" if found else "none is installed"


def _has_infiniband(root: Root, size: VmSize) -> bool:
    if size.hca_count is not None:
        return size.hca_count > 0
    return any(device.is_hca for device in read_pci(root))


def _plugin_folders(root: Root, folders: Sequence[str]) -> list[str]:
    found = []
    for pattern in (*folders, *PLUGIN_FOLDERS):
        files = files_in(root, f"{pattern}/{PLUGIN}")
        found += [path.rpartition("/")[0] for path in sorted(files, key=_by_version, reverse=True)]
    return found


def _by_version(path: str) -> list[tuple[int, str]]:
    """The newest of several HPC-X: 2.9 comes before 2.18."""
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in re.split(r"(\d+)", path)]
