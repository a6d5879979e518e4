# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The settings in /etc/hpcai/beeond.json, which the role beeond writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ...forms import choice, instance_of, list_of, mapping_of, number, optional, record, text, wrong
from ...machine.config import FOLDER, ConfigError, as_config, read_checked
from ...machine.root import Root

CONFIG = "beeond"
SETTINGS = f"{FOLDER}/{CONFIG}.json"
AUTO, REQUIRED, ALLOWED, OFF = RDMA = ("auto", "required", "allowed", "off")
"""Use of RDMA: required if the VM size has InfiniBand; always required; used if available; never used."""
RELEASES = ("7.4",)
"""Releases of BeeGFS for which beegfs.py has a strategy."""
MARGIN_S, MARGIN_SHARE = 90.0, 0.4
"""Part of the prolog's limit that is reserved for the rollback and the requeue: 90 s, or 40 % if that is less."""
_SHORTEST_LIMIT_S = 30
_HIGHEST_PORT = 8010
"""The highest of the daemons' ports before they are shifted."""


@dataclass(frozen=True)
class BeeondSettings:
    """The content of the settings file.

    :ivar mount_point: where a job sees the file system.
    :ivar data_root: folder on the scratch that contains the data folder of each job.
    :ivar metadata_nodes: how many of a job's nodes run a metadata daemon.
    :ivar port_shift: added to the ports of BeeGFS, so that they differ from those of another BeeGFS on the machine.
    :ivar daemons: folder of the daemons.
    :ivar rdma: one of RDMA.
    :ivar interfaces: names of the network interfaces to use, in this order; empty for all.
    :ivar deadline_s: how long a start may wait for the other nodes.
    :ivar deadline_per_node_s: how much longer for each node of the job.
    :ivar start_limit_s: the prolog's limit.
    :ivar stop_limit_s: the epilog's limit.
    :ivar least_free_mib: free space that the scratch must have.
    :ivar release: of BeeGFS; one of RELEASES.
    :ivar client: further keys of the client's configuration.
    :ivar servers: further keys of the daemons' configurations, by ``mgmtd``, ``meta``, ``storage`` and ``helperd``.
    """

    mount_point: str = "/beeond"
    data_root: str = "/scratch/beeond"
    metadata_nodes: int = 1
    port_shift: int = 1000
    daemons: str = "/opt/beegfs/sbin"
    rdma: str = AUTO
    interfaces: tuple[str, ...] = ()
    deadline_s: float = 120
    deadline_per_node_s: float = 2
    start_limit_s: float = 300
    stop_limit_s: float = 180
    least_free_mib: int = 1024
    release: str = "7.4"
    client: Mapping[str, str] = field(default_factory=dict)
    servers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def wait_s(self, nodes: int) -> float:
        """Return how long a start on that many nodes waits; the limit always leaves time for the rollback."""
        margin_s = min(MARGIN_S, self.start_limit_s * MARGIN_SHARE)
        return min(self.deadline_s + nodes * self.deadline_per_node_s, self.start_limit_s - margin_s)


def read_settings(root: Root) -> BeeondSettings | None:
    """Return the settings; None if there is no file.

    :raises ConfigError: the file is invalid.
    """
    return read_checked(root, CONFIG, settings_from)


def as_text(settings: BeeondSettings) -> str:
    """Return the text of the file."""
    return as_config({**asdict(settings), "interfaces": list(settings.interfaces)})


def _path(path: str, value: Any) -> str:
    """Accept only a normalized absolute path, so that a later removal cannot reach another folder."""
    words = value.split("/")[1:] if isinstance(value, str) and value.startswith("/") else []
    if not words or any(word in ("", ".", "..") or not word.isprintable() or set(" ,") & set(word) for word in words):
        raise wrong(path, "a plain absolute path, and not the root folder", value)
    return str(value)


def _key(path: str, value: Any) -> str:
    if not str(value).isalnum():
        raise wrong(path, "of letters and digits", value)
    return str(value)


def _line(path: str, value: Any) -> str:
    """Accept a value for a configuration file only if it is one line, so that it cannot add other keys."""
    line = str(value).lower() if isinstance(value, bool) else str(value)
    if not line.isprintable():
        raise wrong(path, "a value on one line", value)
    return line


_SECONDS, _LIMIT = number(0, 3600), number(_SHORTEST_LIMIT_S, 3600)
_KEYS = optional(mapping_of(_key, _line), {})
_FORM = instance_of(
    BeeondSettings,
    {
        "mount_point": _path,
        "data_root": _path,
        "metadata_nodes": number(1, integral=True),
        "port_shift": number(0, 65535 - _HIGHEST_PORT, integral=True),
        "daemons": _path,
        "rdma": choice(*RDMA),
        "interfaces": list_of(text),
        "deadline_s": _SECONDS,
        "deadline_per_node_s": _SECONDS,
        "start_limit_s": _LIMIT,
        "stop_limit_s": _LIMIT,
        "least_free_mib": number(0, integral=True),
        "release": choice(*RELEASES),
        "client": _KEYS,
        "servers": optional(record(dict.fromkeys(("mgmtd", "meta", "storage", "helperd"), _KEYS)), {}),
    },
)


def settings_from(path: str, value: Any) -> BeeondSettings:
    """Parse the settings; missing values get the defaults."""
    settings = _FORM(path, value)
    mount_point, data_root = f"{settings.mount_point}/", f"{settings.data_root}/"
    if mount_point.startswith(data_root) or data_root.startswith(mount_point):
        raise ConfigError("mount_point and data_root must not be inside each other: use separate folders.")
    return settings
