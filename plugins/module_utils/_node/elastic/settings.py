# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The settings of elastic sets, in /etc/hpcai/elastic.json on the controller, which the role elastic writes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..forms import (
    Malformed,
    absolute_path,
    boolean,
    choice,
    guid,
    instance_of,
    mapping_of,
    matching,
    number,
    optional,
    or_empty,
    string,
)
from ..machine.config import FOLDER, read_checked
from ..machine.root import Root

CONFIG = "elastic"
FILE = f"{FOLDER}/{CONFIG}.json"
STATE_FOLDER = "/var/lib/hpcai/elastic"
RUN_FOLDER = "/run/hpcai/elastic"

PUBLIC_CLOUD = "https://management.azure.com"
COMMENT, EXTRA = FIELDS = ("Comment", "Extra")
"""Fields of a node's record that can hold a lease. Both can be set, and survive a restart, from Slurm 22.05 on."""
DOWN_AFTER_S = 365 * 86400
"""SuspendTime in slurm.conf. Slurm's power saving needs a finite one, but the daemon decides when an idle node leaves:
Slurm 22.05 also suspends drained nodes, and no release knows ``keep``."""


@dataclass(frozen=True)
class ElasticSet:
    """A scale set that grows and shrinks.

    :ivar id: its resource id.
    :ivar max: how many nodes it may have; the slots are ``SET-0`` to ``SET-(max-1)``.
    :ivar min: how many nodes stay without jobs.
    :ivar idle_s: a node without jobs is deleted after this time.
    :ivar boot_s: how long an instance may take from its lease until its slurmd registers.
    :ivar order_s: how long Azure may take to create ordered instances.
    :ivar vm_size: its VM size, for the price file.
    :ivar spot: whether its instances have the price of spot.
    :ivar price: what a node costs for an hour, instead of the list price; None for the list price.
    """

    id: str
    max: int
    min: int = 0
    idle_s: float = 600.0
    boot_s: float = 1200.0
    order_s: float = 1200.0
    vm_size: str = ""
    spot: bool = False
    price: float | None = None

    def slots(self, name: str) -> list[str]:
        """Return the node names of the set."""
        return [f"{name}-{position}" for position in range(self.max)]


@dataclass(frozen=True)
class Budget:
    """Limits of the list price of all elastic nodes. None: no limit.

    :ivar day: for a day in UTC.
    :ivar month: for a calendar month in UTC.
    :ivar end_jobs: whether a used budget also requeues running jobs and deletes their machines.
    """

    day: float | None = None
    month: float | None = None
    end_jobs: bool = False


@dataclass(frozen=True)
class Settings:
    """The content of the file.

    :ivar sets: the elastic sets, by the name that their nodes start with.
    :ivar endpoint: Azure Resource Manager of the cloud.
    :ivar client_id: which managed identity of the controller to use, if it has several; else empty.
    :ivar lease_field: the field of a node's record that shows the lease; health reports use the other one.
    :ivar interval_s: seconds between two passes without a reason to hurry.
    :ivar state: file with the leases.
    :ivar metrics: folder for the Prometheus text file; empty for none, None for the node exporter's usual folder if it
        exists.
    :ivar prices: path of the price file; empty for none.
    :ivar region: the Azure region of the sets, for the price file.
    """

    sets: Mapping[str, ElasticSet]
    endpoint: str = PUBLIC_CLOUD
    client_id: str = ""
    lease_field: str = COMMENT
    interval_s: float = 15.0
    state: str = f"{STATE_FOLDER}/state.json"
    metrics: str | None = None
    budget: Budget = field(default_factory=Budget)
    prices: str = ""
    region: str = ""

    def owner_of(self, slot: str) -> str | None:
        """Return the elastic set whose nodes have such names, also beyond its ``max``; None if there is none."""
        name, dash, position = slot.rpartition("-")
        return name if dash and name in self.sets and position.isdecimal() else None

    def set_of(self, slot: str) -> str | None:
        """Return the elastic set that a node name belongs to; None if it belongs to none."""
        name = self.owner_of(slot)
        return name if name and int(slot.rpartition("-")[2]) < self.sets[name].max else None

    def followed(self, name: str, leases: Iterable[str]) -> list[str]:
        """Return the node names of a set, with those of leases beyond its ``max``, which was higher before."""
        beyond = [slot for slot in leases if self.owner_of(slot) == name and self.set_of(slot) is None]
        return [*self.sets[name].slots(name), *sorted(beyond, key=lambda slot: int(slot.rpartition("-")[2]))]


_ID = matching(
    re.compile(
        r"/subscriptions/[0-9a-f-]{36}/resourceGroups/[\w.()-]{1,90}/providers/Microsoft\.Compute"
        r"/virtualMachineScaleSets/[\w.-]{1,64}",
        re.IGNORECASE,
    ),
    "the resource id of a scale set",
)
_SECONDS = number(0, above=True)
_MONEY = optional(number(0))
# The node's token is sent there. Plain http is for a simulator on the machine itself.
_ENDPOINT = matching(r"https://[A-Za-z0-9.-]+(:\d+)?|http://127\.0\.0\.1:\d+", "the https URL of Resource Manager")
_NAME = matching(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", "a name of letters, digits, '-', '_' and '.'")


def _set(path: str, value: Any) -> ElasticSet:
    made = _SET(path, value)
    if made.min > made.max:
        raise Malformed(f"{path}.min is {made.min}, which is more than max ({made.max}).")
    return made


_SET = instance_of(
    ElasticSet,
    {
        "id": _ID,
        "max": number(1, 1000, integral=True),
        "min": number(0, 1000, integral=True),
        "idle_s": _SECONDS,
        "boot_s": _SECONDS,
        "order_s": _SECONDS,
        "vm_size": string,
        "spot": boolean,
        "price": _MONEY,
    },
    null_is_absent=True,
)
FORM = instance_of(
    Settings,
    {
        "sets": mapping_of(_NAME, _set),
        "endpoint": _ENDPOINT,
        "client_id": or_empty(guid),
        "lease_field": choice(*FIELDS),
        "interval_s": _SECONDS,
        "state": absolute_path,
        "metrics": or_empty(absolute_path),
        "prices": or_empty(absolute_path),
        "region": string,
        "budget": instance_of(Budget, {"day": _MONEY, "month": _MONEY, "end_jobs": boolean}, null_is_absent=True),
    },
    null_is_absent=True,
)


def read_settings(root: Root) -> Settings | None:
    """Return the settings; None if there is no file, so that this machine runs no elastic sets.

    :raises ConfigError: the file is invalid; the message says what to do.
    """
    return read_checked(root, CONFIG, FORM)
