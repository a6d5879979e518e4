# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The variables that a VM size needs outside NCCL's own file, and the files that set them.

Variables of MPI, UCX and CUDA, only those that a source recommends:

* HCOLL off and GPUs in bus order: Microsoft's article on ND A100 v4 recommends both wherever MPI starts NCCL jobs, and
  azhpc-images runs its tests with them on every family (tests/test-definitions.sh). The article writes the first one
  ``OMPI_MCA_COLL_HCOLL_ENABLE``, which Open MPI does not read: parameter names are lower-case.
* ``UCX_IB_PCI_RELAXED_ORDERING``: azurehpc, experimental/run_nccl_tests_ndv4; azhpc-images, tests/health_checks/NDv4.
* The variables for when MPI only starts the processes: the same article for ND A100 v4; test-definitions.sh for the
  other sizes with tcp, and for GB200 and GB300; ai-infrastructure-on-azure, NCCL/configs/hopper.conf, for H100 and H200
  with InfiniBand.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ...machine.root import Root
from ...sku import VmSize
from ..managed_file import BrokenBlock, FileChange, read_file, with_block, without_block
from ..nccl.conf import texts_of
from .library import files_in

_ALL: Mapping[str, str] = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "OMPI_MCA_coll_hcoll_enable": "0"}
_AMD = ("MI300X",)

_ND_A100 = ("Standard_ND96asr_v4", "Standard_ND96amsr_A100_v4")
_OF_SIZE: Mapping[str, Mapping[str, str]] = {name: {"UCX_IB_PCI_RELAXED_ORDERING": "on"} for name in _ND_A100}

_TCP = {"UCX_TLS": "tcp"}
_HOPPER = {"UCX_TLS": "rc", "UCX_NET_DEVICES": "mlx5_ib0:1"}
_GRACE = {"UCX_TLS": "rc", "UCX_IB_GID_INDEX": "0"}
_LAUNCH_ONLY: Mapping[str, Mapping[str, str]] = {
    **{name: {**_TCP, "UCX_NET_DEVICES": "eth0"} for name in _ND_A100},
    "Standard_ND40rs_v2": _TCP,
    "Standard_NC24ads_A100_v4": _TCP,
    "Standard_NC48ads_A100_v4": _TCP,
    "Standard_NC96ads_A100_v4": _TCP,
    "Standard_NC80adis_H100_v5": _TCP,
    "Standard_ND96isr_H100_v5": _HOPPER,
    "Standard_ND96isr_H200_v5": _HOPPER,
    "Standard_ND96isrf_H200_v5": _HOPPER,
    "Standard_ND128isr_NDR_GB200_v6": _GRACE,
    "Standard_ND128isr_GB300_v6": _GRACE,
}


def variables(size: VmSize, launch_only: bool, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables by name: the VM size's, and the user's, which override them.

    :param launch_only: MPI only starts the processes here, and transfers no data.
    :param settings: the user's variables; None as a value removes a variable.
    :raises SettingsError: a name or value from the user cannot be written.
    """
    merged: dict[str, Any] = {}
    if size.gpu_model not in _AMD:
        merged = {**_ALL, **_OF_SIZE.get(size.name, {})}
        if launch_only:
            merged.update(_LAUNCH_ONLY.get(size.name, {}))
    merged.update(settings)
    return texts_of(merged)


# The drop-in for login shells: defaults that do not override variables that are set already.
#
# Plain POSIX: sh, dash, bash, ksh and zsh can read it. A variable that is set to an empty value counts as set. A folder
# that is on the path already is not added again, and ours come last, so that a job's own folders win. The result has no
# empty entry, because that would mean the current folder.

PROFILE = "/etc/profile.d/hpcai-nccl.sh"
LIBRARY_PATH = "LD_LIBRARY_PATH"

_PROFILE_HEADER = (
    "# Written by hpcai.azure.nccl_environment, which overwrites it. Variables that are already set stay unchanged.\n"
)


def profile_text(variables: Mapping[str, str], folders: Sequence[str]) -> str | None:
    """Return the drop-in's text; None if it would set nothing.

    :param folders: folders to add to the library path.
    """
    lines = [f'[ -n "${{{name}+set}}" ] || export {name}={_quoted(value)}\n' for name, value in variables.items()]
    lines += [_on_the_path(folder) for folder in folders]
    return _PROFILE_HEADER + "".join(lines) if lines else None


def _on_the_path(folder: str) -> str:
    quoted = _quoted(folder)
    return (
        f'case ":${{{LIBRARY_PATH}-}}:" in\n'
        f"  *:{quoted}:*) ;;\n"
        f'  *) export {LIBRARY_PATH}="${{{LIBRARY_PATH}:+${LIBRARY_PATH}:}}"{quoted} ;;\n'
        "esac\n"
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# Blocks in the system files of Open MPI and UCX: defaults that also reach jobs without a login shell.
#
# Both programs read their file first, and the environment overrides it. Within a file the last line for a name wins, so
# a site's own lines override a block at the top (seen with ompi_info 4.1.4 and ucx_info 1.13.1). Also, Debian's file of
# Open MPI has no line break at its end. Each installation has its own file, below its prefix; UCX also reads
# <folder of its library>/../etc/ucx/ucx.conf, which is how HPC-X finds its own.

BLOCK = "hpcai.azure nccl_environment"

OPEN_MPI = (
    "/etc/openmpi",
    "/etc/openmpi-*",
    "/opt/openmpi-*/etc",
    "/opt/hpcx*/ompi/etc",
    "/opt/hpcx*/hpcx-rebuild/etc",
    "/usr/mpi/gcc/openmpi-*/etc",
)
UCX = ("/etc/ucx", "/opt/hpcx*/ucx/etc/ucx")
"""Folders of their system files, if installed: from distributions, azhpc-images (/opt), and NVIDIA's OFED."""
_OF_DISTRIBUTIONS = "/etc/ucx"
_UCX_LIBRARIES = ("/usr/lib/*-linux-gnu/libucs.so.0", "/usr/lib64/libucs.so.0")

_MCA_PREFIX, _UCX_PREFIX = "OMPI_MCA_", "UCX_"


def mpi_files(root: Root, variables: Mapping[str, str]) -> list[FileChange]:
    """Return the changes that write these variables to the files of all installations; without any, remove the block.

    :param variables: by their names in the environment; those of other programs are skipped.
    :raises BrokenBlock: a file has an incomplete block; the message names the file.
    :raises OSError: a file cannot be read.
    """
    mca = [f"{name[len(_MCA_PREFIX) :]} = {value}" for name, value in variables.items() if name.startswith(_MCA_PREFIX)]
    ucx = [f"{name}={value}" for name, value in variables.items() if name.startswith(_UCX_PREFIX)]
    ucx_folders = _installed(root, UCX)
    if _OF_DISTRIBUTIONS not in ucx_folders and any(files_in(root, pattern) for pattern in _UCX_LIBRARIES):
        # Distributions ship UCX without the folder, but build it to read the file there.
        ucx_folders.insert(0, _OF_DISTRIBUTIONS)
    return [
        *(_file_change(root, f"{folder}/openmpi-mca-params.conf", mca) for folder in _installed(root, OPEN_MPI)),
        *(_file_change(root, f"{folder}/ucx.conf", ucx) for folder in ucx_folders),
    ]


def _installed(root: Root, patterns: tuple[str, ...]) -> list[str]:
    """Return the folders that exist; one with several names counts once."""
    found: dict[str, str] = {}
    for pattern in patterns:
        for folder in files_in(root, pattern):
            if os.path.isdir(root.at(folder)):
                found.setdefault(os.path.realpath(root.at(folder)), folder)
    return list(found.values())


def _file_change(root: Root, path: str, lines: list[str]) -> FileChange:
    at = root.at(path)
    before, mode = read_file(at)
    try:
        rest = without_block(before or "", BLOCK)
        after: str | None = with_block(before or "", BLOCK, lines) if lines else rest
    except BrokenBlock as error:
        raise BrokenBlock(f"{at}: {error} Remove the lines of that block manually.") from None
    if not lines and (before is None or (not rest and rest != before)):
        # A file that contained only our block was created by us.
        after = None
    return FileChange(at, before, after, mode if mode is not None else 0o644, mode)
