# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode beeond: a BeeGFS across the scratch of a job's nodes, started and stopped by its prolog and epilog."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Callable

from ..job.beeond.request import FEATURE, requests_beeond
from ..machine.root import Root
from .command import BAD, GOOD, UNKNOWN, Answer, Command, UsageError

if TYPE_CHECKING:
    from ..job.beeond.options import BeeondSettings
    from ..job.requeue import Controller

_REMOVE_S = 20.0
"""For what earlier removals left: a health script runs the sweep, and has less than a minute."""

_DESCRIPTION = """\
A job with --constraint=beeond has a file system of its own across the scratch of its nodes, or on the scratch of its
one node, for as long as it runs. Settings are in /etc/hpcai/beeond.json, which role hpcai.azure.beeond writes.

start is called by the prolog, with slurmd's environment. It starts this node's daemons, waits until those of the others
are there, and mounts. Where this node cannot have its part, it exits with 1, and slurmctld drains the node. Where
another node's part is missing, it takes everything down here and has slurmctld put the job back into the queue.

stop is called by the epilog. It unmounts, stops the daemons, removes the data, and looks whether anything is left.

status tells what jobs have here. Changes nothing.

sweep takes down what dead jobs have left: at boot, and from time to time, by the health script 30-beeond. It makes the
folder of all jobs' data on the scratch, and moves aside what a user has put in its place.

Exit status of start: 0 the file system is there, the job did not ask, or it will not run, 1 this node failed.
Exit status of stop and sweep: 0 nothing is left, 1 something is. 2: there are no settings, or no answer.
Exit status of status: 0 as it should be, 1 a running job lacks a part.
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=tuple(_ACTIONS), help="what to do")


def _execute(args: argparse.Namespace) -> Answer:
    root = Root(args.root)
    if args.action != "status" and not root.is_this_machine:
        raise UsageError(f"beeond {args.action} works on the running machine only: leave out --root")
    if args.action == "start" and not requests_beeond(os.environ):
        return Answer(GOOD, f"the job does not ask for {FEATURE}", {"asked": False})
    from ..job.beeond.options import SETTINGS, read_settings

    settings = read_settings(root)
    if settings is None:
        reason = f"no {SETTINGS}: role hpcai.azure.beeond writes it"
        return Answer(UNKNOWN, reason, {"reason": reason})
    return _ACTIONS[args.action](settings, root)


# Each imports what it needs: most jobs do not ask, and their prolog and epilog wait for this.
def _start(settings: BeeondSettings, root: Root) -> Answer:
    from ..job.beeond import start
    from ..job.beeond.job import NodeFailure, job_of
    from ..job.beeond.layout import LOCK
    from ..job.beeond.network import asker
    from ..job.beeond.stop import Machine
    from ..job.hooks.options import PROLOG, script_environment
    from ..machine.child import terminable
    from ..machine.lock import Locked, only_one
    from ..machine.run import run

    given = script_environment(os.environ, PROLOG)
    try:
        job = job_of(given)
        context = start.StartContext(given, asker(root, run), _controller(root))
        with terminable(), only_one(root.at(LOCK), 10.0):
            done = start.start(job, settings, Machine(root, run), context)
    except (NodeFailure, Locked) as error:
        return Answer(BAD, str(error), {"asked": True, "started": False, "reason": str(error)})
    data = {"asked": True, "started": done.started, "reason": "" if done.good and done.started else done.words}
    return Answer(GOOD if done.good else BAD, done.words, data)


def _stop(settings: BeeondSettings, root: Root) -> Answer:
    from ..job.beeond.job import NodeFailure, number_of
    from ..job.beeond.layout import LOCK
    from ..job.beeond.stop import Machine, stop, verify
    from ..job.beeond.sweep import find_leftovers
    from ..machine.lock import Locked, only_one
    from ..machine.run import run

    machine = Machine(root, run)
    try:
        number = number_of(os.environ)
        with only_one(root.at(LOCK), 30.0):
            held = [one.held for one in find_leftovers(settings, root, run) if one.held.job == number]
            problems = [words for one in held for words in (stop(one, machine) or verify(one, machine))]
    except (NodeFailure, Locked) as error:
        return Answer(BAD, str(error), {"problems": [str(error)]})
    summary = f"job {number} has nothing here any more" if held else f"job {number} had nothing here"
    return Answer(
        BAD if problems else GOOD,
        "; ".join(problems) or summary,
        {"job": number, "found": bool(held), "problems": problems},
    )


def _status(settings: BeeondSettings, root: Root) -> Answer:
    from ..job.beeond import sweep
    from ..job.beeond.stop import Machine
    from ..machine.run import run

    jobs = sweep.status(settings, Machine(root, run))
    return Answer(BAD if sweep.is_degraded(jobs) else GOOD, "\n".join(sweep.status_lines(jobs)), {"jobs": jobs})


def _sweep(settings: BeeondSettings, root: Root) -> Answer:
    from ..job.beeond import sweep
    from ..job.beeond.layout import LOCK, remove_leftovers
    from ..job.beeond.stop import Machine
    from ..job.requeue import runs
    from ..machine.lock import Locked, only_one
    from ..machine.run import run

    machine = Machine(root, run)
    try:
        with only_one(root.at(LOCK), 0):
            warnings = list(filter(None, [_make_root(settings, root)]))
            leftovers = sweep.find_leftovers(settings, root, run)
            controller = _controller(root)
            gone, unsure = sweep.of_dead_jobs(
                leftovers, sweep.live_here(root), lambda job: runs(job, controller), settings, time.time()
            )
            problems = sweep.clean(gone, machine)
            sweep.note(problems, root)
    except Locked as error:
        return Answer(
            GOOD, f"nothing is swept now: {error}", {"found": [], "problems": [], "unsure": [], "warnings": []}
        )
    # Without the lock: however long it takes, no start of a job waits for it.
    problems += filter(None, [remove_leftovers(settings.data_root, root, lambda command: run(command, _REMOVE_S))])
    lines = (
        [*problems, *unsure, *warnings] or [f"job {held.job} is swept" for held in gone] or ["nothing was left behind"]
    )
    data = {"found": [held.job for held in gone], "problems": problems, "unsure": unsure, "warnings": warnings}
    return Answer(BAD if problems else UNKNOWN if unsure else GOOD, "\n".join(lines), data)


def _make_root(settings: BeeondSettings, root: Root) -> str:
    """Make the folder of all jobs' data, before a user can; return what users should know."""
    from ..job.beeond.layout import make_root
    from ..machine.user_folders import FolderProblem

    try:
        return make_root(settings.data_root, root)
    except (FolderProblem, OSError) as error:
        return f"{settings.data_root} cannot be made: {error}"


def _controller(root: Root) -> Controller:
    from ..job.requeue import Controller
    from ..machine.run import run
    from ..slurm import slurmd_env

    env = slurmd_env.read(root)
    return Controller(env.controllers if env else (), run)


_ACTIONS: Mapping[str, Callable[[BeeondSettings, Root], Answer]] = {
    "start": _start,
    "stop": _stop,
    "status": _status,
    "sweep": _sweep,
}

COMMAND = Command("beeond", "a job's own BeeGFS: start, stop, sweep", _DESCRIPTION, _add_arguments, _execute)
