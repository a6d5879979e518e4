# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode recover: starts jobs again that ask for it, on the controller; watches for hangs, in a job."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping
from typing import Callable

from ..ledger.decisions import read_decisions
from ..machine.child import terminable
from ..machine.config import ConfigError
from ..machine.root import Root
from ..machine.run import run
from ..recover.settings import FILE, Settings, read_settings
from .command import BAD, GOOD, Action, Answer, Command, UsageError, no_arguments, seconds
from .service import alone, print_lines

_DESCRIPTION = """\
A job that asks with --comment=hpcai:recover, or that runs in a partition of the settings, is started again when it
fails: without the faulty nodes, at most a few times, with growing waits, and only while it gets further. A job that
would repeat its failure, such as a program's own bug, is held, and its AdminComment has the reason. Only batch jobs
that may be requeued can be recovered.

The controller decides (hpcai-recovery.service), with the settings in /etc/hpcai/recovery.json. In a job, 'watch' ends
it if it hangs.
"""
_LOOK = """\
Makes one pass. Use it where the service does not run. --check only shows what would be done.

Exit status: 0 done, 1 slurmctld or slurmdbd does not answer or refused, 2 no settings.
"""
_SERVE = """\
Makes passes repeatedly. hpcai-recovery.service calls it.
"""
_STATUS = """\
Shows the decisions of the last days.
"""
_WATCH = """\
Watches a file that the training touches after each step. If it does not change for --limit seconds, and for ten times
the longest pause seen before, it writes the stacks of this node's Python processes to the job's log (if py-spy is
installed), and kills the job's steps, so that the job can be recovered. It needs no root. Start it on each node, in the
background of the batch script:

  srun --overlap --ntasks-per-node=1 hpcnode recover watch --file=progress &

Exit status: 0 the training has ended, 1 it hung and was ended, 3 wrong usage.
"""
_DAYS = 7


def _add_look(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--check", action="store_true", help="only show what would be done")


def _add_watch(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--file", metavar="FILE", required=True, help="the file that the training touches")
    add("--limit", type=seconds, default=1800, metavar="SECONDS", help="shortest pause that counts as a hang (1800)")
    add("--start", type=seconds, default=7200, metavar="SECONDS", help="how long the first change may take (7200)")
    add("--settle", type=seconds, default=60, metavar="SECONDS", help="wait for other nodes' stacks (60)")
    add("--end", metavar="FILE", default="", help="a file whose existence means that the training has ended")


def _execute(args: argparse.Namespace) -> Answer:
    root = Root(args.root)
    if args.action != "status" and not root.is_this_machine:
        raise UsageError(f"recover {args.action} works on the running machine only: leave out --root")
    return _ACTIONS[args.action](args, root)


def _settings(root: Root) -> Settings:
    settings = read_settings(root)
    if settings is None:
        raise ConfigError(f"no {FILE}: no job is recovered here; the role hpcai.azure.health_checks writes it")
    return settings


def _look(args: argparse.Namespace, root: Root) -> Answer:
    from ..recover.look import LOCK, look

    settings = _settings(root)
    with alone(root, LOCK, "recovery", "hpcai-recovery"):
        done = look(root, run, settings, time.time(), set(), args.check)
    lines = [f"would be done: {one.words}" if args.check else one.words for one in done]
    data = [{"job": one.job, "action": one.decision.action, "reason": one.decision.reason} for one in done]
    status = BAD if any(one.problem for one in done) else GOOD
    return Answer(status, "\n".join(lines) or "no job has to be recovered", {"decisions": data, "check": args.check})


def _serve(_args: argparse.Namespace, root: Root) -> Answer:
    from ..recover.look import LOCK, look_forever

    settings = _settings(root)
    with alone(root, LOCK, "recovery", "hpcai-recovery"):
        return print_lines(look_forever(root, run, settings))


def _status(_args: argparse.Namespace, root: Root) -> Answer:
    now = time.time()
    found = read_decisions(root, now - _DAYS * 86400, now)
    lines = []
    for one in found:
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(one["time"]))
        lines.append(f"{when} job {one['job']}: {one['action']}: {one['reason']}")
    return Answer(GOOD, "\n".join(lines) or f"no decisions in {_DAYS} days", {"decisions": found})


def _watch(args: argparse.Namespace, _root: Root) -> Answer:
    from ..recover.watch import Limits, watch

    if not os.environ.get("SLURM_JOB_ID", "").isdecimal():
        raise UsageError("recover watch works in a job only: SLURM_JOB_ID is missing")
    limits = Limits(args.limit, args.start, args.settle)

    def write(line: str) -> None:
        sys.stdout.write(f"hpcai recover: {line}\n")
        sys.stdout.flush()

    with terminable():
        hung = watch(args.file, limits, os.environ, run, write, lambda: bool(args.end) and os.path.exists(args.end))
    return Answer(
        BAD if hung else GOOD, "the job hung and was ended" if hung else "the training has ended", {"hung": hung}
    )


_ACTIONS: Mapping[str, Callable[[argparse.Namespace, Root], Answer]] = {
    "look": _look,
    "serve": _serve,
    "status": _status,
    "watch": _watch,
}

COMMAND = Command(
    "recover",
    "start failed jobs again that ask for it, on the controller; end jobs that hang",
    _DESCRIPTION,
    no_arguments,
    _execute,
    actions=(
        Action("status", "show the last decisions", _STATUS),
        Action("look", "make one pass", _LOOK, _add_look),
        Action("serve", "make passes repeatedly, as a service", _SERVE),
        Action("watch", "in a job: end it if it hangs", _WATCH, _add_watch),
    ),
    default="status",
)
