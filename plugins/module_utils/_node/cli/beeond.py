# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode beeond: a BeeGFS over the scratch of a job's nodes, started by the prolog and stopped by the epilog."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Callable

from ..job.beeond.request import FEATURE, requests_beeond
from ..machine.root import Root
from .command import BAD, GOOD, UNKNOWN, Action, Answer, Command, UsageError, no_arguments

if TYPE_CHECKING:
    from ..job.beeond.options import BeeondSettings
    from ..job.requeue import Controller

_REMOVE_S = 20.0
"""Timeout for the data that earlier removals left: the health script that runs sweep has less than a minute."""

_DESCRIPTION = """\
A job with --constraint=beeond gets its own file system, built from the scratch of its nodes. One node is enough. The
file system exists while the job runs. The role hpcai.azure.beeond writes the settings to /etc/hpcai/beeond.json.
"""
_START_TEXT = """\
Called by the prolog, with slurmd's environment. It starts this node's daemons, waits for the daemons of the job's other
nodes, and mounts the file system. If this node cannot provide its part, start exits with 1, so the prolog fails
('hpcnode job run --help' explains what follows). If another node's part is missing, start undoes everything on this
node and requeues the job.

Exit status: 0 the file system is mounted, the job did not request it, or the job will not run, 1 this node failed, 2
there are no settings.
"""
_STOP_TEXT = """\
Called by the epilog. It unmounts the file system, stops the daemons, removes the data, and verifies that nothing is
left.

Exit status: 0 nothing is left, 1 something is left, 2 there are no settings, or the result is not known.
"""
_STATUS_TEXT = """\
Shows the parts of each job's file system on this node. It changes nothing.

Exit status: 0 good, 1 a running job lacks a part, 2 there are no settings.
"""
_SWEEP_TEXT = """\
Removes what finished jobs left. It runs at boot, and regularly from the health script 30-beeond. It also creates the
folder for all jobs' data on the scratch, and moves aside anything that a user put in its place.

Exit status: 0 nothing is left, 1 something is left, 2 there are no settings, or the result is not known.
"""


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


# Each action imports only what it needs, because every job's prolog and epilog wait for this, also without BeeOND.
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
    summary = f"removed everything of job {number}" if held else f"job {number} had nothing on this node"
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
        return Answer(GOOD, f"sweep was skipped: {error}", {"found": [], "problems": [], "unsure": [], "warnings": []})
    # Without the lock, so that no job's start waits for it.
    problems += filter(None, [remove_leftovers(settings.data_root, root, lambda command: run(command, _REMOVE_S))])
    lines = (
        [*problems, *unsure, *warnings]
        or [f"removed what job {held.job} left" for held in gone]
        or ["nothing was left behind"]
    )
    data = {"found": [held.job for held in gone], "problems": problems, "unsure": unsure, "warnings": warnings}
    return Answer(BAD if problems else UNKNOWN if unsure else GOOD, "\n".join(lines), data)


def _make_root(settings: BeeondSettings, root: Root) -> str:
    """Create the folder for all jobs' data before a user can, and return a warning or an empty text."""
    from ..job.beeond.layout import make_root
    from ..machine.user_folders import FolderProblem

    try:
        return make_root(settings.data_root, root)
    except (FolderProblem, OSError) as error:
        return f"cannot create {settings.data_root}: {error}"


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

COMMAND = Command(
    "beeond",
    "a BeeGFS file system per job: start, stop, sweep",
    _DESCRIPTION,
    no_arguments,
    _execute,
    actions=(
        Action("start", "start a job's file system, in its prolog", _START_TEXT),
        Action("stop", "stop a job's file system, in its epilog", _STOP_TEXT),
        Action("status", "show the parts of jobs' file systems on this node", _STATUS_TEXT),
        Action("sweep", "remove what finished jobs left", _SWEEP_TEXT),
    ),
)
