# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Finds what dead jobs left on this node, and removes it: at boot, periodically, and before a job.

It considers only what belongs to a job: its folder in /run, its units, its data with the marker, and a mount on the
role's mount point. A job is dead if it has no slurmstepd on this node and slurmctld does not report it as running. Data
of an earlier boot belongs to a dead job in any case. A start or stop in progress holds the lock. Recent starts are left
alone, because other scripts may run between the prolog and the first slurmstepd.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Callable

from ...machine.atomic import remove_file, write_file
from ...machine.kernel import read_boot_id
from ...machine.owners import live_jobs, read_owned
from ...machine.root import Root
from . import layout, units
from .job import Bounded, UsersFault
from .layout import BEEGFS, FILES, Holding
from .mounting import mount_of_job
from .options import BeeondSettings
from .stop import Machine, stop

YOUNG_S = 600.0
"""A job counts as starting for the prolog's limit plus these seconds."""
_NOBODY = "0"

Runs = Callable[[str], "bool | None"]
"""Returns whether slurmctld reports that a job runs; None if it does not answer."""


@dataclass(frozen=True)
class Leftover:
    """Parts of a job that were found on this node.

    :ivar held: the recorded parts, or assumed ones if there is no record.
    :ivar earlier_boot: whether they were created before this boot.
    """

    held: Holding
    earlier_boot: bool


def find_leftovers(settings: BeeondSettings, root: Root, run: Bounded) -> list[Leftover]:
    """Return the parts of all jobs, live or dead, sorted by job id."""
    data = layout.jobs_with_data(settings.data_root, root)
    loaded = units.loaded_jobs(run)
    written = layout.jobs_with_state(root)
    held = {}
    for job in sorted({*data, *loaded, *written}, key=int):
        known = layout.read_state(job, root) or _guess(job, settings)
        held[job] = replace(known, daemons=known.daemons or tuple(loaded.get(job, ())))
    mounted = mount_of_job(settings.mount_point, root)
    if mounted and not any(_has(one, settings.mount_point, root) for one in held.values()):
        job = _job_of_bind(mounted.root)
        held[job] = held.get(job) or _guess(job, settings)
    now = read_boot_id(root)
    return [Leftover(one, data.get(job, now) != now and job not in written) for job, one in held.items()]


def live_here(root: Root) -> set[str]:
    """Return the ids of jobs that have a slurmstepd on this machine."""
    return {str(job) for job in live_jobs(read_owned(root))}


def of_dead_jobs(
    leftovers: list[Leftover], live: Collection[str], runs: Runs, settings: BeeondSettings, now: float
) -> tuple[list[Holding], list[str]]:
    """Return the parts of dead jobs, and messages about jobs whose state is unknown."""
    gone, unsure = [], []
    for one in leftovers:
        job = one.held.job
        if job in live:
            continue
        if one.earlier_boot or job == _NOBODY:
            gone.append(one.held)
        elif now - one.held.since < settings.start_limit_s + YOUNG_S:
            continue
        else:
            state = runs(job)
            if state is None:
                unsure.append(f"job {job} has parts on this node, but slurmctld does not answer whether it runs")
            elif not state:
                gone.append(one.held)
    return gone, unsure


def clean(gone: list[Holding], machine: Machine) -> list[str]:
    """Tear down all of them, and return messages about what is left."""
    problems = []
    for held in gone:
        problems += [f"job {held.job}: {words}" for words in stop(held, machine, wait_for_clients=False)]
    return problems


def note(problems: list[str], root: Root) -> None:
    """Write down what could not be removed, for the health check that gets the node drained.

    :raises OSError: the file cannot be written.
    """
    if problems:
        write_file(root.at(layout.LEFTOVERS), "".join(f"{words}\n" for words in problems))
    else:
        remove_file(root.at(layout.LEFTOVERS))


def clean_before(job: str, settings: BeeondSettings, machine: Machine) -> list[str]:
    """Before a job, remove what other jobs and an earlier incarnation of this job left.

    The job has the node exclusively, so any job without a slurmstepd on this node is dead.

    :raises UsersFault: another job that runs here has a file system, so neither job is exclusive.
    """
    live = live_here(machine.root) - {job}
    found = [one.held for one in find_leftovers(settings, machine.root, machine.run)]
    others = [held.job for held in found if held.job in live]
    if others:
        raise UsersFault(f"job {others[0]} has a file system on this node too: submit with --exclusive")
    return clean(found, machine)


def _guess(job: str, settings: BeeondSettings) -> Holding:
    return Holding(job, BEEGFS, settings.mount_point, f"{settings.data_root}/{job}", settings.data_root)


def _has(held: Holding, mount_point: str, root: Root) -> bool:
    return held.mount_point == mount_point and root.exists(layout.run_folder(held.job))


def _job_of_bind(path: str) -> str:
    """Return the job whose folder is mounted: .../<job>/files."""
    folder, _slash, last = path.rpartition("/")
    job = os.path.basename(folder)
    return job if last == FILES and job.isdecimal() else _NOBODY


def status(settings: BeeondSettings, machine: Machine) -> list[dict[str, Any]]:
    """Return each job's parts as plain JSON values."""
    live = live_here(machine.root)
    statuses = []
    for one in find_leftovers(settings, machine.root, machine.run):
        held = one.held
        statuses.append(
            {
                "job": held.job,
                "kind": held.kind,
                "mount_point": held.mount_point,
                "mounted": mount_of_job(held.mount_point, machine.root) is not None,
                "data": held.data,
                "daemons": list(held.daemons),
                "dead": units.dead(held.daemons, held.job, machine.run) if held.daemons else [],
                "runs": held.job in live,
            }
        )
    return statuses


def status_lines(statuses: list[dict[str, Any]]) -> list[str]:
    """Return the status as lines for people."""
    if not statuses:
        return ["no job has a BeeOND file system on this node"]
    lines = []
    for one in statuses:
        states = [f"{one['mount_point']} {'mounted' if one['mounted'] else 'not mounted'}"]
        states += [f"{daemon} {'ended' if daemon in one['dead'] else 'runs'}" for daemon in one["daemons"]]
        owner = "" if one["runs"] else " (has no slurmstepd on this node)"
        lines.append(f"job {one['job']}{owner}: {', '.join(states)}")
    return lines


def is_degraded(statuses: list[dict[str, Any]]) -> bool:
    """Whether a live job's mount or daemon is missing."""
    return any(one["runs"] and (one["dead"] or not one["mounted"]) for one in statuses)
