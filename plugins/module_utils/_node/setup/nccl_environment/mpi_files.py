# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Blocks in the system files of Open MPI and UCX: defaults that reach jobs without a login shell too.

Both read their file first and take the environment over it. Within a file the last line for a name counts, so a block
at the top gives way to a site's own lines (seen with ompi_info 4.1.4 and ucx_info 1.13.1; Debian's file of Open MPI has
no end of line at its end besides). Each installation has a file of its own, below its prefix; UCX reads
<folder of its library>/../etc/ucx/ucx.conf as well, which is how HPC-X finds its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from ...machine.root import Root
from ..managed_block import BrokenBlock, with_block, without_block
from ..managed_file import FileChange, read_file
from .library import files_in

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
"""Folders of their system files, where they are installed: distributions, azhpc-images (/opt), and NVIDIA's OFED."""
_OF_DISTRIBUTIONS = "/etc/ucx"
_UCX_LIBRARIES = ("/usr/lib/*-linux-gnu/libucs.so.0", "/usr/lib64/libucs.so.0")

_MCA_PREFIX, _UCX_PREFIX = "OMPI_MCA_", "UCX_"


def mpi_files(root: Root, variables: Mapping[str, str]) -> list[FileChange]:
    """Return the changes that bring the files of all installations to these variables; the block goes without any.

    :param variables: by the names of the environment; what is neither Open MPI's nor UCX's is passed over.
    :raises BrokenBlock: a file has half a block; the message names the file.
    :raises OSError: a file cannot be read.
    """
    mca = [f"{name[len(_MCA_PREFIX) :]} = {value}" for name, value in variables.items() if name.startswith(_MCA_PREFIX)]
    ucx = [f"{name}={value}" for name, value in variables.items() if name.startswith(_UCX_PREFIX)]
    ucx_folders = _installed(root, UCX)
    if _OF_DISTRIBUTIONS not in ucx_folders and any(files_in(root, pattern) for pattern in _UCX_LIBRARIES):
        # Distributions ship UCX without the folder, and build it to look there.
        ucx_folders.insert(0, _OF_DISTRIBUTIONS)
    return [
        *(_change(root, f"{folder}/openmpi-mca-params.conf", mca) for folder in _installed(root, OPEN_MPI)),
        *(_change(root, f"{folder}/ucx.conf", ucx) for folder in ucx_folders),
    ]


def _installed(root: Root, patterns: tuple[str, ...]) -> list[str]:
    """The folders that are there; one that several names lead to counts once."""
    found: dict[str, str] = {}
    for pattern in patterns:
        for folder in files_in(root, pattern):
            if os.path.isdir(root.at(folder)):
                found.setdefault(os.path.realpath(root.at(folder)), folder)
    return list(found.values())


def _change(root: Root, path: str, lines: list[str]) -> FileChange:
    at = root.at(path)
    before, mode = read_file(at)
    try:
        rest = without_block(before or "", BLOCK)
        after: str | None = with_block(before or "", BLOCK, lines) if lines else rest
    except BrokenBlock as error:
        raise BrokenBlock(f"{at}: {error} Remove the lines of that block by hand.") from None
    if not lines and (before is None or (not rest and rest != before)):
        # A file in which nothing but our block stood was ours.
        after = None
    return FileChange(at, before, after, mode if mode is not None else 0o644, mode)
