# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""NCCL's variables in /etc/nccl.conf: which apply, and our block at its top.

How NCCL reads that file (``setEnvFile`` in its ``param.cc``, the same from 2.9 to 2.30 unless noted):

* NCCL reads the environment first, then ``~/.nccl.conf`` or the file in ``NCCL_CONF_FILE``, then this file. A variable
  that is set is never set again. So the first of several lines for a variable wins, and our block comes first.
* A line is a name up to the first ``=`` and a value up to its end, at most 1023 bytes each, without quotes or blanks
  around the ``=``. Up to 2.21, ``#`` did not start a comment: with a ``=`` in it, the line set a useless variable.
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
"""The levels that NCCL knows, in any case (NCCL, src/debug.cc). It ignores others, and then reports no errors."""
_IN_CAPITALS = ("NCCL_", "RCCL_", "UCX_", "CUDA_")
_OPEN_MPI = "OMPI_MCA_"


class SettingsError(ValueError):
    """A setting that NCCL could not read; the message names it."""


def variables(size: VmSize, topology_path: str | None, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the block's variables: the VM size's, the topology file, and the user's, which override the others.

    :param topology_path: path of the topology file; None if there is none.
    :param settings: the user's variables; None as a value removes a variable from the block.
    :raises SettingsError: NCCL could not read a name or value from the user.
    """
    merged: dict[str, Any] = dict(size.nccl_settings or {})
    if topology_path:
        merged[TOPO_FILE] = topology_path
    merged.update(settings)
    return texts_of(merged)


def with_variables(text: str, settings: Mapping[str, str]) -> str:
    """Return the file's text with the block of these variables, or without a block if there are none.

    :raises BrokenBlock: see ``with_block``.
    """
    if not settings:
        return without_block(text, BLOCK)
    return with_block(text, BLOCK, [f"{name}={value}" for name, value in settings.items()])


def effective(text: str) -> dict[str, str]:
    """Return the variables that NCCL reads from the text of a configuration file."""
    found: dict[str, str] = {}
    for name, value in _settings(text):
        found.setdefault(name, value)
    return found


def overridden(text: str, settings: Mapping[str, str]) -> list[str]:
    """Return the lines outside the block that set one of these variables differently: they have no effect."""
    return [
        f"{name}={value}" for name, value in _settings(without_block(text, BLOCK)) if settings.get(name, value) != value
    ]


def named_outside(text: str, name: str) -> list[str]:
    """Return a variable's values in lines outside the block.

    :raises BrokenBlock: see ``without_block``.
    """
    return [value for found, value in _settings(without_block(text, BLOCK)) if found == name]


def problem_of(name: str, value: str) -> str:
    """Return why the variable's program ignores it; empty if no problem is known."""
    right = _right_case(name)
    if name != right:
        return f"{name} has no effect, because names are case-sensitive. Write {right}"
    if name == _DEBUG and value.strip() and value.strip().upper() not in _DEBUG_LEVELS:
        return f"{name} is {value!r}, which NCCL ignores. Valid values are {', '.join(_DEBUG_LEVELS)}"
    return ""


def _right_case(name: str) -> str:
    capitals = name.upper()
    if capitals.startswith(_IN_CAPITALS):
        return capitals
    if capitals.startswith(_OPEN_MPI):
        # The names of its parameters are lower-case.
        return f"{_OPEN_MPI}{name[len(_OPEN_MPI) :].lower()}"
    return name


def _settings(text: str) -> Iterator[tuple[str, str]]:
    for line in text.split("\n"):
        name, equals, value = line.rstrip("\r").partition("=")
        if equals and not line.startswith("#"):
            yield name, value


def texts_of(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the values as text, without those that are None. A boolean becomes 1 or 0.

    :raises SettingsError: a value cannot be written so, or a name is invalid, also one with the value None.
    """
    for name, value in settings.items():
        if not _NAME.fullmatch(str(name)):
            raise SettingsError(f"settings: {name!r} is not a valid variable name.")
        problem = problem_of(name, "" if value is None else str(value))
        if problem:
            raise SettingsError(f"settings: {problem}.")
    return {name: _text_of(name, value) for name, value in sorted(settings.items()) if value is not None}


def _text_of(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if not isinstance(value, (str, int, float)):
        raise SettingsError(f"settings.{name} must be a string or a number, not {value!r}.")
    text = str(value).strip()
    if any(ord(character) < 32 for character in text) or len(text.encode("utf-8", "surrogateescape")) > _LONGEST:
        raise SettingsError(f"settings.{name} must be one line of at most {_LONGEST} bytes.")
    return text


# Enroot's drop-ins: the topology file and /etc/nccl.conf in every container.
#
# Enroot mounts the entries in ``mounts.d/*.fstab``, and stops the container at the first entry that fails, unless it
# has ``nofail``. These entries have it, because a file that is missing here must not stop every container of the node.
# The container then sees an empty, unreadable file, which NCCL skips. (Both seen with enroot-mount of April 2026.)
#
# ``environ.d/*.env`` overrides what a job exported, with pyxis too (unless it is listed in ``--container-env``). So it
# sets only the topology file: its path belongs to this node, and neither a job's environment nor a foreign image can
# know it. The other variables reach containers in the mounted /etc/nccl.conf, which a job's environment overrides.

ENROOT_MOUNTS = "mounts.d/60-hpcai-nccl.fstab"
ENROOT_ENVIRONMENT = "environ.d/60-hpcai-nccl.env"
"""Below enroot's folder. Enroot reads them by name: after its own files, before a site's from 90 up."""

# The options of enroot's own entries for host files, and nofail.
_MOUNT_OPTIONS = "x-create=file,bind,ro,nosuid,nodev,noexec,private,nofail"
_ENROOT_HEADER = "# Written by hpcai.azure.nccl_topology, which overwrites it.\n"


def check_file(option: str, path: str) -> None:
    """Make sure that a path can be a file.

    :raises ConfigError: it is a folder.
    """
    if path.endswith("/") or os.path.isdir(path):
        raise ConfigError(f"{option} must be a file, but {path} is a folder. Set a file in it.")


def enroot_mounts(files: Mapping[str, str]) -> str:
    """Return the mount table for these host files: path on the host, and path in the container."""
    return _ENROOT_HEADER + "".join(
        f"{on_host} {in_container} none {_MOUNT_OPTIONS} 0 -1\n" for on_host, in_container in files.items()
    )


def enroot_environment(topology_path: str) -> str:
    """Return the text of the environment file."""
    return f"{_ENROOT_HEADER}NCCL_TOPO_FILE={topology_path}\n"
