# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The plugin through which NCCL uses InfiniBand best, and SHARP where the fabric has it: which one, and its folders.

Sources: azhpc-images builds it into /usr/local/nccl-rdma-sharp-plugins (components/install_nccl.sh; not for sizes
without InfiniBand), and unpacks HPC-X, which has one too, to /opt/hpcx-v... (components/install_mpis.sh). NCCL opens
libnccl-net.so by the loader's rules (plugin_open.cc), so its folder has to be among those. One built with SHARP
cannot be loaded without SHARP's libraries, also where SHARP itself is not enabled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...machine.pci import read_pci
from ...machine.root import Root
from ...sku import VmSize
from .library import files_in

LIBRARY = "libnccl-net.so"
PLACES = ("/usr/local/nccl-rdma-sharp-plugins/lib", "/opt/hpcx*/nccl_rdma_sharp_plugin/lib")
"""Where it lies, best first: the first is the one that the images' own tests use."""
_SHARP = "libsharp_coll.so*"
_MELLANOX_SHARP = "/opt/mellanox/sharp/lib"

WITHOUT_SHARP = ("Standard_ND96asr_v4",)
"""Sizes of which Microsoft says that SHARP "is currently not enabled". Of the others no source says anything."""


@dataclass(frozen=True)
class Plugin:
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


def find_plugin(root: Root, size: VmSize, wanted: bool, cache: Mapping[str, str], folders: Sequence[str]) -> Plugin:
    """Return what is found and what goes on the path.

    :param wanted: whether it is to be used.
    :param cache: what the loader finds by itself, by library name.
    :param folders: where to look first.
    """
    found = tuple(dict.fromkeys(_folders(root, folders)))
    sharp = False if size.name in WITHOUT_SHARP else None
    reason = _reason(root, size, wanted, cache, found)
    if reason:
        return Plugin(found, (), reason, sharp)
    beside = [re.sub(r"/nccl_rdma_sharp_plugin/lib$", "/sharp/lib", found[0]), _MELLANOX_SHARP]
    libraries = [folder for folder in beside if folder != found[0] and files_in(root, f"{folder}/{_SHARP}")]
    return Plugin(found, (found[0], *libraries[:1]), "", sharp)


def _reason(root: Root, size: VmSize, wanted: bool, cache: Mapping[str, str], found: Sequence[str]) -> str:
    if not wanted:
        return "it was not asked for"
    if not _has_infiniband(root, size):
        return f"{size.name} has no InfiniBand"
    if LIBRARY in cache:
        return f"the loader finds {cache[LIBRARY]} by itself"
    return "" if found else "none is installed"


def _has_infiniband(root: Root, size: VmSize) -> bool:
    if size.hca_count is not None:
        return size.hca_count > 0
    return any(device.is_hca for device in read_pci(root))


def _folders(root: Root, folders: Sequence[str]) -> list[str]:
    found = []
    for pattern in (*folders, *PLACES):
        files = files_in(root, f"{pattern}/{LIBRARY}")
        found += [path.rpartition("/")[0] for path in sorted(files, key=_by_version, reverse=True)]
    return found


def _by_version(path: str) -> list[tuple[int, str]]:
    """The newest of several HPC-X: 2.9 comes before 2.18."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", path)]
