# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Our own record of locked clocks: NVML sets and resets them, and has no function that reads them back.

The record holds for one load of the driver in one boot. What it cannot know: that somebody else locked or unlocked
clocks since (``nvidia-smi -lgc``, ``-rgc``), or reset a GPU.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ...machine.atomic import write_file
from ...machine.gpu import DriverLoad
from ...machine.root import Root

PATH = "/run/hpcai/clocks.json"
LOCK_PATH = "/run/hpcai/clocks.lock"
"""Held by whoever changes clocks, from reading the record to writing it."""
_SCHEMA = 1


@dataclass(frozen=True)
class Lock:
    """What we last did to the locks of a GPU.

    :ivar graphics: the graphics clock that it is locked at, in MHz; None for unlocked.
    :ivar memory: the same of the memory clock.
    :ivar memory_refused: what the driver said when it would not lock the memory clock.
    :ivar application_refused: what the driver said when it would not set application clocks that it had shown.
    """

    graphics: int | None = None
    memory: int | None = None
    memory_refused: str | None = None
    application_refused: str | None = None

    @property
    def locked(self) -> bool:
        """Whether any clock is locked."""
        return self.graphics is not None or self.memory is not None


def read_record(root: Root, load: DriverLoad | None) -> dict[str, Lock]:
    """Return what is recorded for this load of the driver, by the GPU's UUID; nothing if the record is of another
    load, or cannot be read."""
    try:
        record = json.loads(root.text(PATH) or "")
        if load is None or record["schema"] != _SCHEMA or record["load"] != asdict(load):
            return {}
        return {uuid: Lock(**lock) for uuid, lock in record["gpus"].items()}
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}


def write_record(root: Root, load: DriverLoad, locks: Mapping[str, Lock]) -> None:
    """Replace the record.

    :raises OSError: it cannot be written.
    """
    record = {
        "schema": _SCHEMA,
        "load": asdict(load),
        "gpus": {uuid: asdict(lock) for uuid, lock in sorted(locks.items())},
    }
    write_file(root.at(PATH), json.dumps(record, indent=2, sort_keys=True) + "\n")
