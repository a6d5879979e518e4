# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Enroot's drop-ins: the topology file and /etc/nccl.conf in every container.

Enroot mounts what ``mounts.d/*.fstab`` lists, and ends the container at the first entry that fails, unless it has
``nofail``: these have, since a file that is missing here must not stop every container of the node. Such a container
sees an empty file that nobody may read, which NCCL passes over. (Both seen with enroot-mount of April 2026.)

``environ.d/*.env`` overrides what a job exported, with pyxis too (unless it is named in ``--container-env``). So only
the topology file is named there: it is a place of this node, which a job's environment or an image from elsewhere
cannot know. The other variables reach containers by the mounted /etc/nccl.conf, over which a job's environment wins.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

MOUNTS = "mounts.d/60-hpcai-nccl.fstab"
ENVIRONMENT = "environ.d/60-hpcai-nccl.env"
"""Below enroot's folder. Enroot reads them in the order of their names: after its own, before a site's 90 and up."""

# Without what would need quoting in a mount table, an environment file, or NCCL's own.
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9._/@+-]+")
# The options of enroot's own entries for files of the host, and nofail.
_OPTIONS = "x-create=file,bind,ro,nosuid,nodev,noexec,private,nofail"
_HEADER = "# Written by hpcai.azure.nccl_topology, which overwrites it.\n"


class PathError(ValueError):
    """A path that cannot be written down in all the files it has to stand in; the message names it."""


def check_path(option: str, path: str) -> str:
    """Return the path.

    :raises PathError: it is not absolute, or holds characters that would need quoting.
    """
    if not _PLAIN_PATH.fullmatch(path):
        raise PathError(f"{option} must be an absolute path of letters, digits and ._/@+- only, not {path!r}.")
    return path


def check_file(option: str, path: str) -> None:
    """Make sure that a path can be a file's.

    :raises PathError: it is a folder's.
    """
    if path.endswith("/") or os.path.isdir(path):
        raise PathError(f"{option} must be a file, and {path} is a folder: name a file in it.")


def mounts(files: Mapping[str, str]) -> str:
    """Return the mount table for these files of the host: where each lies there, and where in the container."""
    return _HEADER + "".join(f"{here} {there} none {_OPTIONS} 0 -1\n" for here, there in files.items())


def environment(topology_path: str) -> str:
    """Return the environment file."""
    return f"{_HEADER}NCCL_TOPO_FILE={topology_path}\n"
