# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""NCCL's variables in /etc/nccl.conf: which apply, and a block of ours at its top.

How NCCL reads that file (``setEnvFile`` in its ``param.cc``, the same from 2.9 to 2.30 unless said):

* ``~/.nccl.conf``, or the file named by ``NCCL_CONF_FILE``, comes before it, and the environment before both: what is
  set is never set again. So of several lines for one variable the first counts, and our block stands first.
* A line is a name up to the first ``=`` and a value up to its end, at most 1023 bytes each: no quotes, no blanks around
  the ``=``. Up to 2.21 ``#`` began no comment: one with a ``=`` in it set a variable that nobody asks for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ...forms import ConfigError
from ...sku import VmSize
from ..managed_file import with_block, without_block

BLOCK = "hpcai.azure nccl_topology"
TOPO_FILE = "NCCL_TOPO_FILE"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST = 1023


_DEBUG = "NCCL_DEBUG"
_DEBUG_LEVELS = ("VERSION", "WARN", "INFO", "ABORT", "TRACE")
"""Those that NCCL knows, in any case (NCCL, src/debug.cc). It ignores any other, and then reports no errors."""
_IN_CAPITALS = ("NCCL_", "RCCL_", "UCX_", "CUDA_")
_OPEN_MPI = "OMPI_MCA_"


class SettingsError(ValueError):
    """A setting that NCCL could not read back; the message names it."""


def variables(size: VmSize, topology_path: str | None, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of the block: the size's, the topology file, and the user's on top.

    :param topology_path: where the topology file lies; None where there is none.
    :param settings: the user's; None as a value takes the variable out of the block.
    :raises SettingsError: a name or value of the user's that NCCL could not read back.
    """
    merged: dict[str, Any] = dict(size.nccl_settings or {})
    if topology_path:
        merged[TOPO_FILE] = topology_path
    merged.update(settings)
    return texts_of(merged)


def with_variables(text: str, settings: Mapping[str, str]) -> str:
    """Return the file's text with the block of these variables; without it where there are none.

    :raises BrokenBlock: see ``with_block``.
    """
    if not settings:
        return without_block(text, BLOCK)
    return with_block(text, BLOCK, [f"{name}={value}" for name, value in settings.items()])


def effective(text: str) -> dict[str, str]:
    """Return what NCCL takes from the text of a configuration file."""
    found: dict[str, str] = {}
    for name, value in _settings(text):
        found.setdefault(name, value)
    return found


def overridden(text: str, settings: Mapping[str, str]) -> list[str]:
    """Return the lines outside the block that set one of these variables to something else: they have no effect."""
    return [
        f"{name}={value}" for name, value in _settings(without_block(text, BLOCK)) if settings.get(name, value) != value
    ]


def named_outside(text: str, name: str) -> list[str]:
    """Return the values that lines outside the block give a variable.

    :raises BrokenBlock: see ``without_block``.
    """
    return [value for found, value in _settings(without_block(text, BLOCK)) if found == name]


def problem_of(name: str, value: str) -> str:
    """Return why the program that a variable is for does not take it; empty where nothing is known to be wrong."""
    right = _right_case(name)
    if name != right:
        return f"{name} is read by nobody, because case counts: write {right}"
    if name == _DEBUG and value.strip() and value.strip().upper() not in _DEBUG_LEVELS:
        return f"{name} is {value!r}, which NCCL ignores: it knows {', '.join(_DEBUG_LEVELS)}"
    return ""


def _right_case(name: str) -> str:
    capitals = name.upper()
    if capitals.startswith(_IN_CAPITALS):
        return capitals
    if capitals.startswith(_OPEN_MPI):
        # Its parameters are in small letters.
        return f"{_OPEN_MPI}{name[len(_OPEN_MPI) :].lower()}"
    return name


def _settings(text: str) -> Iterator[tuple[str, str]]:
    for line in text.split("\n"):
        name, equals, value = line.rstrip("\r").partition("=")
        if equals and not line.startswith("#"):
            yield name, value


def texts_of(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the values as lines of text, without those that are None: a boolean becomes 1 or 0.

    :raises SettingsError: one cannot be written so, or a name is none. The name of one that is left out counts too.
    """
    for name, value in settings.items():
        if not _NAME.fullmatch(str(name)):
            raise SettingsError(f"settings: {name!r} is no name of a variable.")
        problem = problem_of(name, "" if value is None else str(value))
        if problem:
            raise SettingsError(f"settings: {problem}.")
    return {name: _text_of(name, value) for name, value in sorted(settings.items()) if value is not None}


def _text_of(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if not isinstance(value, (str, int, float)):
        raise SettingsError(f"settings.{name} must be text or a number, not {value!r}.")
    text = str(value).strip()
    if any(ord(character) < 32 for character in text) or len(text.encode("utf-8", "surrogateescape")) > _LONGEST:
        raise SettingsError(f"settings.{name} must be one line of at most {_LONGEST} bytes.")
    return text


# Enroot's drop-ins: the topology file and /etc/nccl.conf in every container.
#
# Enroot mounts what ``mounts.d/*.fstab`` lists, and ends the container at the first entry that fails, unless it has
# ``nofail``: these have, since a file that is missing here must not stop every container of the node. Such a container
# sees an empty file that nobody may read, which NCCL passes over. (Both seen with enroot-mount of April 2026.)
#
# ``environ.d/*.env`` overrides what a job exported, with pyxis too (unless it is named in ``--container-env``). So only
# the topology file is named there: it is a place of this node, which a job's environment or an image from elsewhere
# cannot know. The other variables reach containers by the mounted /etc/nccl.conf, over which a job's environment wins.

ENROOT_MOUNTS = "mounts.d/60-hpcai-nccl.fstab"
ENROOT_ENVIRONMENT = "environ.d/60-hpcai-nccl.env"
"""Below enroot's folder. Enroot reads them in the order of their names: after its own, before a site's 90 and up."""

# The options of enroot's own entries for files of the host, and nofail.
_MOUNT_OPTIONS = "x-create=file,bind,ro,nosuid,nodev,noexec,private,nofail"
_ENROOT_HEADER = "# Written by hpcai.azure.nccl_topology, which overwrites it.\n"


def check_file(option: str, path: str) -> None:
    """Make sure that a path can be a file's.

    :raises ConfigError: it is a folder's.
    """
    if path.endswith("/") or os.path.isdir(path):
        raise ConfigError(f"{option} must be a file, and {path} is a folder: name a file in it.")


def enroot_mounts(files: Mapping[str, str]) -> str:
    """Return the mount table for these files of the host: where each lies there, and where in the container."""
    return _ENROOT_HEADER + "".join(
        f"{on_host} {in_container} none {_MOUNT_OPTIONS} 0 -1\n" for on_host, in_container in files.items()
    )


def enroot_environment(topology_path: str) -> str:
    """Return the environment file."""
    return f"{_ENROOT_HEADER}NCCL_TOPO_FILE={topology_path}\n"
