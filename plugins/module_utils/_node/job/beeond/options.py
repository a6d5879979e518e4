# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The settings in /etc/hpcai/beeond.json, which the role beeond writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ...machine.config import FOLDER, ConfigError, as_config, read_config
from ...machine.root import Root

CONFIG = "beeond"
SETTINGS = f"{FOLDER}/{CONFIG}.json"
AUTO, REQUIRED, ALLOWED, OFF = RDMA = ("auto", "required", "allowed", "off")
"""What RDMA is to be: required where the VM size has InfiniBand, without fail, used if it can be had, not at all."""
RELEASES = ("7.4",)
"""Releases of BeeGFS that there is a strategy for, in beegfs.py."""
MARGIN_S, MARGIN_SHARE = 90.0, 0.4
"""What is left of the prolog's limit for rolling back and for putting the job back: so many seconds, or that share of a
short limit."""
_SHORTEST_LIMIT_S = 30
_HIGHEST_PORT = 8010
"""The highest of the daemons' ports before they are shifted."""


@dataclass(frozen=True)
class BeeondSettings:
    """What the file says.

    :ivar mount_point: where a job finds the file system.
    :ivar data_root: folder on the scratch in which each job's data has a folder.
    :ivar metadata_nodes: how many of a job's nodes keep metadata.
    :ivar port_shift: what is added to the ports of BeeGFS, so that another one on the machine is not in the way.
    :ivar daemons: folder of the daemons.
    :ivar rdma: one of RDMA.
    :ivar interfaces: names of network interfaces that are used, in this order; empty for all.
    :ivar deadline_s: how long a start may wait for the other nodes.
    :ivar deadline_per_node_s: how much longer for each node of the job.
    :ivar start_limit_s: the prolog's limit.
    :ivar stop_limit_s: the epilog's limit.
    :ivar least_free_mib: what the scratch must have free.
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
    client: Mapping[str, str] | None = None
    servers: Mapping[str, Mapping[str, str]] | None = None

    def wait_s(self, nodes: int) -> float:
        """Return how long a start on so many nodes waits; never so long that no time is left to roll back."""
        margin_s = min(MARGIN_S, self.start_limit_s * MARGIN_SHARE)
        return min(self.deadline_s + nodes * self.deadline_per_node_s, self.start_limit_s - margin_s)


def read_settings(root: Root) -> BeeondSettings | None:
    """Return the settings; None if there is no file.

    :raises ConfigError: they cannot be used.
    """
    stated = read_config(root, CONFIG)
    return None if stated is None else settings_from(stated, root.at(SETTINGS))


def as_text(settings: BeeondSettings) -> str:
    """Return the text of the file."""
    return as_config({**asdict(settings), "interfaces": list(settings.interfaces)})


def settings_from(stated: Mapping[str, Any], where: str) -> BeeondSettings:
    """Return the settings that ``stated`` holds; what is not stated is the default.

    :param where: how messages name the place.
    :raises ConfigError: a key is unknown, or a value makes no sense.
    """
    known = asdict(BeeondSettings())
    unknown = sorted(set(stated) - set(known))
    if unknown:
        raise ConfigError(f"{where} has unknown keys: {', '.join(unknown)}; it may have {', '.join(sorted(known))}.")
    given = {**known, **stated}
    for key in ("mount_point", "data_root", "daemons"):
        given[key] = _path(given[key], f"{key} of {where}")
    for key, least in (("metadata_nodes", 1), ("port_shift", 0), ("least_free_mib", 0)):
        given[key] = _whole(given[key], least, f"{key} of {where}")
    if given["port_shift"] > 65535 - _HIGHEST_PORT:
        raise ConfigError(f"port_shift of {where} is {given['port_shift']}: there are no ports above 65535.")
    for key in ("deadline_s", "deadline_per_node_s", "start_limit_s", "stop_limit_s"):
        given[key] = _seconds(given[key], f"{key} of {where}")
    for key in ("start_limit_s", "stop_limit_s"):
        if given[key] < _SHORTEST_LIMIT_S:
            raise ConfigError(f"{key} of {where} is {given[key]:g}: less than {_SHORTEST_LIMIT_S} s is not enough.")
    for key, choices in (("rdma", RDMA), ("release", RELEASES)):
        if given[key] not in choices:
            raise ConfigError(f"{key} of {where} is {given[key]!r}: it may be {', '.join(choices)}.")
    given["interfaces"] = _names(given["interfaces"], f"interfaces of {where}")
    given["client"] = _keys(given["client"], f"client of {where}")
    servers = given["servers"] or {}
    if not isinstance(servers, Mapping) or set(servers) - {"mgmtd", "meta", "storage", "helperd"}:
        raise ConfigError(f"servers of {where} must be a mapping of mgmtd, meta, storage and helperd.")
    given["servers"] = {name: _keys(keys, f"{name} in servers of {where}") for name, keys in servers.items()}
    if _inside(given["mount_point"], given["data_root"]) or _inside(given["data_root"], given["mount_point"]):
        raise ConfigError(f"mount_point and data_root of {where} lie in each other.")
    return BeeondSettings(**given)


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _path(value: Any, what: str) -> str:
    """A path that is as long as it looks: nothing of what is removed later may lie elsewhere."""
    words = value.split("/")[1:] if isinstance(value, str) and value.startswith("/") else []
    if not words or any(word in ("", ".", "..") or not word.isprintable() or set(" ,") & set(word) for word in words):
        raise ConfigError(f"{what} is {value!r}: it must be a plain absolute path, and not the root folder.")
    return str(value)


def _whole(value: Any, least: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{what} is {value!r}: it must be a whole number from {least} on.")
    return value


def _seconds(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 3600:
        raise ConfigError(f"{what} is {value!r}: it must be a number of seconds up to 3600.")
    return value


def _names(value: Any, what: str) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, str) and one.isprintable() for one in value):
        raise ConfigError(f"{what} must be a list of names, not {value!r}.")
    return tuple(value)


def _keys(value: Any, what: str) -> dict[str, str]:
    """Keys of a configuration file, whose values must not smuggle in another line."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{what} must be a mapping of keys, not {value!r}.")
    made = {}
    for key, given in value.items():
        text = str(given).lower() if isinstance(given, bool) else str(given)
        if not str(key).isalnum() or not (text.isprintable() or not text):
            raise ConfigError(f"{what} has {key!r} = {given!r}: keys are letters and digits, values one line.")
        made[str(key)] = text
    return made
