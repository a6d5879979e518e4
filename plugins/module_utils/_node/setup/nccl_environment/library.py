# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The copies of NCCL on a machine, their versions, and whether they are new enough.

NCCL inside containers and in Python environments (PyTorch installs its own) is separate, and is not searched.
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
from ...machine.user_folders import is_open
from ...machine.verdict import PASS, UNKNOWN
from ...sku import VmSize

Version = tuple[int, int, int]

RECOMMENDED = "2.9.9"
"""Microsoft's advice for ND A100 v4 at scale: "It is recommended that you use NCCL version >= 2.9.9"."""

_VERSION_TEXT = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:[^0-9.].*)?")
_VERSIONED_FILE = re.compile(r"libnccl\.so\.(\d+\.\d+\.\d+)")


def parse_version(text: str) -> Version:
    """Return the version at the start of a text such as ``2.18.5``, ``2.9`` or ``2.18.5-1+cuda12.2``.

    :raises ValueError: it is not a version.
    """
    match = _VERSION_TEXT.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a version of NCCL, such as {RECOMMENDED}.")
    return int(match[1]), int(match[2]), int(match[3] or 0)


def version_of_file(name: str) -> Version | None:
    """Return the version at the end of a file's name (``libnccl.so.2.18.5``); None if it has none."""
    match = _VERSIONED_FILE.fullmatch(name)
    return parse_version(match[1]) if match else None


def version_of_code(code: int) -> Version:
    """Return the version for NCCL's version code: 2809 is 2.8.9, and from 2.9 on 20909 is 2.9.9 (``nccl.h``)."""
    unit = 1000 if code < 10000 else 10000
    return code // unit, code % unit // 100, code % 100


def version_text(version: Version) -> str:
    """Return a version as text."""
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
"""Folders to search besides the loader's cache; the first two are those of NVIDIA's packages."""

_IN_CACHE = re.compile(r"^\s*(lib\S+)\s+\([^)]*\)\s+=>\s+(/.*\S)\s*$", re.MULTILINE)
# In a separate process, because a library runs code when it is loaded, and may hang.
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

    :ivar path: the file, links resolved.
    :ivar version: its version; None if neither its name nor the library itself shows it.
    :ivar default: programs load this copy by default: it is the first in the loader's cache.
    """

    path: str
    version: Version | None
    default: bool


def loader_cache(root: Root, run: Run) -> dict[str, str]:
    """Return the files in the loader's cache, by library name; empty if it cannot be read."""
    shown = run(["/sbin/ldconfig", "-p", "-C", root.at("/etc/ld.so.cache")])
    found: dict[str, str] = {}
    for name, path in _IN_CACHE.findall(shown.stdout if shown.rc == 0 else ""):
        found.setdefault(name, path)
    return found


def find_copies(root: Root, run: Run, cache: dict[str, str], folders: Sequence[str] = ()) -> tuple[NcclCopy, ...]:
    """Return the copies of NCCL, the default one first.

    :param cache: the result of ``loader_cache``.
    :param folders: further folders to search.
    """
    first = _resolved(root, cache["libnccl.so.2"]) if "libnccl.so.2" in cache else None
    paths = dict.fromkeys(path for path in (first, *_candidates(root, folders)) if path)
    return tuple(NcclCopy(path, _version(root, run, path), path == first) for path in paths)


def files_in(root: Root, pattern: str) -> list[str]:
    """Return the paths on the machine that match a pattern, sorted by name."""
    prefix = "" if root.is_this_machine else root.path
    return [found[len(prefix) :] for found in sorted(glob.glob(f"{prefix}{pattern}"))]


def _candidates(root: Root, folders: Sequence[str]) -> Iterator[str | None]:
    for folder in (*folders, *LIBRARY_FOLDERS):
        for path in files_in(root, f"{folder}/libnccl.so.2*"):
            yield _resolved(root, path)


def _resolved(root: Root, path: str) -> str | None:
    """Return the file with links resolved, as a path of that machine; None if there is none."""
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
    if not _only_root_writes(root, path):
        # Root would run the code of whoever may replace the library.
        return None
    answer = run(["timeout", "-k", "1", str(_ASK_LIMIT_S), sys.executable, "-I", "-c", _ASK, root.at(path)])
    text = answer.stdout.strip()
    return version_of_code(int(text)) if answer.rc == 0 and text.isdecimal() and text.isascii() else None


def _only_root_writes(root: Root, path: str) -> bool:
    """Return whether only root can replace a file, or a folder above it; the path has no links."""
    parts = path.split("/")
    places = ["/".join(parts[:count]) or "/" for count in range(1, len(parts) + 1)]
    return not any(is_open(os.stat(root.at(place))) for place in places)


# Whether NCCL is new enough.


@dataclass(frozen=True)
class VersionVerdict:
    """The result of the version check.

    :ivar verdict: PASS, UNKNOWN, or WARN or FAIL if it is too old.
    :ivar version: version of the copy that decides; None if it is unknown or there is none.
    :ivar min_version: the oldest accepted version.
    :ivar summary: in words.
    :ivar copies: all copies that were found.
    """

    verdict: str
    version: str | None
    min_version: str
    summary: str
    copies: tuple[NcclCopy, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return it as data for JSON."""
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
    """Check the copy that programs load; if the loader's cache has none, check all, the oldest first. Pure.

    :param when_old: the verdict if the version is too old: WARN or FAIL.
    :raises ValueError: ``min_version`` is not a version.
    """
    floor, found = parse_version(min_version), tuple(copies)

    def judgement(verdict: str, version: str | None, summary: str) -> VersionVerdict:
        return VersionVerdict(verdict, version, min_version, summary, found)

    deciding = [copy for copy in found if copy.default] or list(found)
    if not deciding:
        return judgement(UNKNOWN, None, "No NCCL was found on this machine; containers were not searched.")
    known = sorted((copy.version, copy.path) for copy in deciding if copy.version)
    if known and known[0][0] < floor:
        version, path = known[0]
        text = version_text(version)
        return judgement(when_old, text, f"{path} is NCCL {text}; {min_version} or newer is needed.")
    for copy in deciding:
        if copy.version is None:
            return judgement(UNKNOWN, None, f"The version of {copy.path} cannot be found out.")
    version, path = known[0]
    old = [copy.path for copy in found if copy.version and copy.version < floor]
    aside = f" Also found, and older than {min_version}: {', '.join(old)}." if old else ""
    return judgement(PASS, version_text(version), f"{path} is NCCL {version_text(version)}.{aside}")


# NCCL's plugin for InfiniBand, and for SHARP if the fabric has it: which one to use, and its folders.
#
# Sources: azhpc-images builds it in /usr/local/nccl-rdma-sharp-plugins (components/install_nccl.sh; not for sizes
# without InfiniBand), and unpacks HPC-X, which also has one, to /opt/hpcx-v... (components/install_mpis.sh). NCCL opens
# libnccl-net.so by the loader's rules (plugin_open.cc), so its folder must be on the library path. A plugin built with
# SHARP cannot be loaded without SHARP's libraries, even if SHARP itself is not enabled.

PLUGIN = "libnccl-net.so"
PLUGIN_FOLDERS = ("/usr/local/nccl-rdma-sharp-plugins/lib", "/opt/hpcx*/nccl_rdma_sharp_plugin/lib")
"""Folders to search, best first: the images' own tests use the first."""
_SHARP_LIBRARY = "libsharp_coll.so*"
_MELLANOX_SHARP = "/opt/mellanox/sharp/lib"

WITHOUT_SHARP = ("Standard_ND96asr_v4",)
"""Sizes for which Microsoft says that SHARP "is currently not enabled". No source covers the other sizes."""


@dataclass(frozen=True)
class NetPlugin:
    """What has to be done about the plugin.

    :ivar found: the folders that contain one, best first.
    :ivar folders: the folders to add to the library path: the plugin's, and that of SHARP's libraries.
    :ivar reason: why none is added; empty if one is.
    :ivar sharp: whether the size's fabric has SHARP; None if no source says.
    """

    found: tuple[str, ...]
    folders: tuple[str, ...]
    reason: str
    sharp: bool | None


def find_plugin(root: Root, size: VmSize, enabled: bool, cache: Mapping[str, str], folders: Sequence[str]) -> NetPlugin:
    """Return what was found and what to add to the library path.

    :param enabled: whether to use the plugin.
    :param cache: the libraries in the loader's cache, by name.
    :param folders: folders to search first.
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
        return "it is disabled in the options"
    if not _has_infiniband(root, size):
        return f"{size.name} has no InfiniBand"
    if PLUGIN in cache:
        return f"the loader already finds {cache[PLUGIN]}"
    return "" if found else "no plugin is installed"


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
    """Return a sort key that compares numbers in paths as numbers, so that HPC-X 2.9 sorts before 2.18."""
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in re.split(r"(\d+)", path)]
