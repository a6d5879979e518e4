# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Highest GPU clocks for a job that asks for them, and the node's own clocks after it.

A job asks with ``--constraint=maxclocks``. Only slurmctld grants that: it refuses a constraint that no node has as a
feature, and the nodes have this one only if the cluster's definition allows it. The GPUs are those that slurmd gives
the job, so a job never changes the clocks of another one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Callable

from ..machine.atomic import make_operators_folder, remove_file, write_file
from ..machine.gpu import Driver, connect
from ..machine.root import Root
from ..setup import clocks
from ..setup.clocks.options import chosen
from .beeond.request import CONSTRAINTS, has_feature
from .hooks.options import NO_JOB, job_number

FEATURE = "maxclocks"
"""The feature that a job requests with ``--constraint``; the role slurm gives it to the nodes."""
_GPUS = "SLURM_JOB_GPUS"
"""What slurmd sets for prologs and epilogs: the indices of the job's GPUs on this node."""

Opener = Callable[[Root], Driver]


@dataclass(frozen=True)
class ClockChanges:
    """What a prolog or epilog changed at the clocks of a job's GPUs.

    :ivar changed: the GPUs, by index, whose clocks belong to another state now.
    :ivar problems: what failed, one line each.
    """

    changed: tuple[int, ...] = ()
    problems: tuple[str, ...] = ()
    words: str = ""


def gpus_of(environment: Mapping[str, str]) -> tuple[int, ...]:
    """Return the indices of the job's GPUs; ``0,2-3`` and ``0,2,3`` are the same."""
    found: list[int] = []
    for word in environment.get(_GPUS, "").split(","):
        match = re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", word.strip())
        if match:
            found += range(int(match[1]), int(match[2] or match[1]) + 1)
    return tuple(sorted(set(found)))


def start(environment: Mapping[str, str], root: Root, open_driver: Opener | None = None) -> ClockChanges:
    """Raise the clocks of a job's GPUs if it asks for that. Before, undo what a job left whose epilog did not run.

    :param environment: that of the job's prolog.
    :raises GpuError: the driver fails completely.
    :raises Locked: another run is changing clocks and does not finish in time.
    :raises ConfigError: /etc/hpcai/clocks.json is invalid.
    :raises OSError: the job cannot be recorded, so its clocks stay as they are.
    """
    job, gpus = job_number(environment), gpus_of(environment)
    if job == NO_JOB or not gpus:
        return ClockChanges(words="the job has no GPUs")
    left = [other for other, theirs in clocks.job_gpus(root).items() if other != job and set(theirs) & set(gpus)]
    asks = has_feature(environment.get(CONSTRAINTS, ""), FEATURE)
    if not asks and not left:
        return ClockChanges(words="the job does not ask for clocks")
    problems: list[str] = []
    with _driver(root, open_driver) as driver:
        for other in left:
            # A GPU belongs to one job at a time, so that job has ended.
            problems += _give_back(driver, root, other)
        if not asks:
            return ClockChanges((), tuple(problems), f"the clocks of {len(left)} ended jobs were reset")
        # First the record: a node that loses the epilog must know what to undo.
        make_operators_folder(root, clocks.JOBS_FOLDER)
        write_file(root.at(clocks.job_path(job)), json.dumps({"gpus": gpus}) + "\n", mode=0o600)
        problems += _set(driver, root, clocks.ClockOptions(state="max", on_unsupported="warn"), gpus)
    return ClockChanges(
        gpus, tuple(problems), f"GPUs {', '.join(map(str, gpus))} run at their highest clocks for job {job}"
    )


def end(environment: Mapping[str, str], root: Root, open_driver: Opener | None = None) -> ClockChanges:
    """Give the job's GPUs the node's own clocks again.

    :param environment: that of the job's epilog.
    :raises GpuError, Locked, ConfigError, OSError: as for ``start``.
    """
    job = job_number(environment)
    gpus = clocks.job_gpus(root).get(job, ())
    if not gpus:
        return ClockChanges(words="the job changed no clocks")
    with _driver(root, open_driver) as driver:
        problems = _give_back(driver, root, job)
    return ClockChanges(gpus, tuple(problems), f"GPUs {', '.join(map(str, gpus))} have the node's own clocks again")


def _give_back(driver: Driver, root: Root, job: str) -> list[str]:
    gpus = clocks.job_gpus(root).get(job, ())
    own = clocks.read_options(root)
    default = clocks.ClockOptions(state="default", on_unsupported="warn")
    there = driver.read()
    named = {gpu.index for gpu in chosen(there, own.gpus)} if own else set()
    problems = []
    for options, part in ((own or default, [gpu for gpu in gpus if gpu in named]), (default, set(gpus) - named)):
        problems += _set(driver, root, options, tuple(sorted(part)))
    if not problems:
        remove_file(root.at(clocks.job_path(job)))
    return problems


def _set(driver: Driver, root: Root, options: clocks.ClockOptions, gpus: tuple[int, ...]) -> list[str]:
    if not gpus:
        return []
    wanted = replace(options, gpus=tuple(map(str, gpus)), on_unsupported="warn")
    try:
        return list(clocks.ensure(root, driver, wanted).problems)
    except ValueError as error:
        return [str(error)]


@contextmanager
def _driver(root: Root, open_driver: Opener | None) -> Iterator[Driver]:
    driver = (open_driver or connect)(root)
    try:
        yield driver
    finally:
        driver.close()
