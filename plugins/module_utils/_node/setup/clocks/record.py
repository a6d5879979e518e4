# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Our own record of locked clocks: NVML can set and reset them, but has no function to read them.

The record is valid for one load of the driver in one boot. It does not show if another program locked or unlocked
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
"""A run that changes clocks holds this lock from reading the record to writing it."""
_SCHEMA = 1


@dataclass(frozen=True)
class Lock:
    """The last change that we made to a GPU's locks.

    :ivar graphics: the locked graphics clock in MHz; None if unlocked.
    :ivar memory: the locked memory clock in MHz; None if unlocked.
    :ivar memory_refused: the driver's message when it refused to lock the memory clock.
    :ivar application_refused: the driver's message when it refused to set application clocks that it had shown.
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
    """Return the records for this load of the driver, by the GPU's UUID; empty if the record belongs to another
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


# The jobs whose GPUs have the clocks that the job asked for, a file for each job. A restart resets the clocks, and
# empties the folder.

JOBS_FOLDER = "/run/hpcai/job_clocks"


def job_path(job: str) -> str:
    """Return the path of a job's record."""
    return f"{JOBS_FOLDER}/{job}.json"


def job_gpus(root: Root) -> dict[str, tuple[int, ...]]:
    """Return the indices of the GPUs by job; records that cannot be read are left out."""
    found = {}
    for name in root.entries(JOBS_FOLDER):
        job = name[: -len(".json")] if name.endswith(".json") else ""
        try:
            held = json.loads(root.text(job_path(job)) or "") if job.isdecimal() else {}
            found[job] = tuple(int(gpu) for gpu in held["gpus"])
        except (ValueError, LookupError, TypeError):
            continue
    return found
