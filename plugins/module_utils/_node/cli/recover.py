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
from ..machine.run import CommandFailed, run
from ..recover.comment import job_of
from ..recover.settings import FILE, Settings, read_settings
from .command import (
    BAD,
    GOOD,
    UNKNOWN,
    Action,
    Answer,
    Command,
    UsageError,
    no_arguments,
    require_this_machine,
    seconds,
)
from .service import alone, print_lines

_DESCRIPTION = """\
A job that asks with --comment=hpcai:recover, or that runs in a partition that the settings list, is started again when
it fails: without the faulty nodes, at most a few times, with growing waits, and only while it makes progress. A job
that would repeat its failure, such as a program's own bug, is held, and its AdminComment has the reason. Only batch
jobs that may be requeued can be recovered.

The controller decides (hpcai-recovery.service), with the settings in /etc/hpcai/recovery.json. In a job, 'hpcnode
recover watch' ends the job if it hangs.
"""
_LOOK = """\
Checks the failed jobs once, and starts them again or holds them. Use it where the service does not run. --check only
shows what would be done.

Exit status: 0 done, 1 slurmctld or slurmdbd does not answer or refuses, 2 there are no settings.
"""
_SERVE = """\
Checks the failed jobs repeatedly. hpcai-recovery.service calls it.
"""
_STATUS = """\
Shows the decisions of the last seven days.

Exit status: 0 good.
"""
_WATCH = """\
Watches whether the training makes progress. The training calls 'hpcnode train progress STEP' every few steps, or
touches the file that --file names. A pause counts as a hang if it is longer than --limit seconds and longer than ten
times the longest pause so far. Then watch writes the stacks of this node's Python processes to the job's log (if py-spy
is installed), and kills the job's steps, so that the job can be recovered. It needs no root. Start it on each node, in
the background of the batch script:

  srun --overlap --ntasks-per-node=1 hpcnode recover watch &

With --checkpoints, for a training without a store, it also notes the newest complete checkpoint in the job's comment,
so that the recovery and 'hpcnode goodput' know what a run has kept.

Exit status: 0 the training has ended, 1 it hung and was ended, 3 wrong usage.
"""
_SUSPECT = """\
Notes in this job's comment that up to four of its nodes are slow. When the run has ended, the controller starts the
deep health checks on them as an exclusive Slurm job, a few times a day per user and once a day per node. The note
itself drains no node; only the results of the checks can.

With --times, it compares the times of the ranks and finds the slow nodes itself. Each rank writes lines of JSON to
FOLDER/rank-N.jsonl: {"t": TIME, "rank": N, "node": NODE, "step_s": S, "data_s": S, "own_s": S}, with the seconds of a
step, of waiting for data in it, and of the rank's own work in it. Ranks wait for each other, so only a rank's own work
shows that it is slow. Without own_s, it is step_s less data_s.

Exit status: 0 noted, or no node is slow, 1 slurmctld does not answer or refuses, 2 there are no times of this run,
3 wrong usage.
"""
_DAYS = 7


def _add_look(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--check", action="store_true", help="only show what would be done")


def _add_watch(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--file", metavar="FILE", help="the file that the training touches (that of 'hpcnode train progress')")
    add("--checkpoints", metavar="DIR", default="", help="folder of the checkpoints, if no store has them")
    add("--limit", type=seconds, default=1800, metavar="SECONDS", help="shortest pause that counts as a hang (1800)")
    add("--start", type=seconds, default=7200, metavar="SECONDS", help="how long the first change may take (7200)")
    add(
        "--settle",
        type=seconds,
        default=60,
        metavar="SECONDS",
        help="how long to wait for the stacks of other nodes (60)",
    )
    add("--end", metavar="FILE", default="", help="a file whose existence means that the training has ended")


def _add_suspect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("nodes", metavar="NODE", nargs="*", help="a slow node of this job")
    parser.add_argument(
        "--times", metavar="FOLDER", help="find the slow nodes by the times of the ranks in this folder"
    )


def _execute(args: argparse.Namespace) -> Answer:
    root = Root(args.root)
    if args.action != "status":
        require_this_machine(root, f"recover {args.action}")
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
    data = [{"job": one.job, "action": one.action, "reason": one.why} for one in done]
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


def _job() -> str:
    job = job_of(os.environ)
    if not job:
        raise UsageError("this works in a job only: SLURM_JOB_ID is missing")
    return job


def _watch(args: argparse.Namespace, _root: Root) -> Answer:
    from ..recover.watch import Limits, Saves, progress_file, watch

    _job()
    limits = Limits(args.limit, args.start, args.settle)

    def write(line: str) -> None:
        sys.stdout.write(f"hpcai recover: {line}\n")
        sys.stdout.flush()

    # The nodes may share the folder, and one note is enough.
    is_first = os.environ.get("SLURM_NODEID", "0") == "0"
    saves = Saves(args.checkpoints, os.environ, run, write) if args.checkpoints and is_first else None
    path = args.file or progress_file(os.environ)
    with terminable():
        hung = watch(path, limits, os.environ, run, write, lambda: bool(args.end) and os.path.exists(args.end), saves)
    return Answer(
        BAD if hung else GOOD, "the job hung and was ended" if hung else "the training has ended", {"hung": hung}
    )


def _suspect(args: argparse.Namespace, _root: Root) -> Answer:
    from ..recover.comment import NoNote
    from ..recover.suspects import MOST_PER_RUN, add_slow_nodes
    from ..train.environment import job_nodes
    from ..train.report import times_of_run
    from ..train.slow import find_slow

    job = _job()
    own = job_nodes(os.environ)
    if bool(args.nodes) == bool(args.times):
        raise UsageError("recover suspect: name either slow nodes, or with --times the folder of the ranks' times")
    nodes, lines = list(args.nodes), []
    if args.times:
        started = os.environ.get("SLURM_JOB_START_TIME", "")
        samples, strangers = times_of_run(args.times, own, float(started) if started.isdecimal() else 0.0)
        if not samples:
            why = f"its lines name {strangers[0]}, which is no node of this job" if strangers else "no rank wrote any"
            return Answer(UNKNOWN, f"{args.times} has no times of this run: {why}", {"nodes": []})
        slow = find_slow(samples)
        nodes = list(dict.fromkeys(one.subject for one in slow if one.subject in own))[:MOST_PER_RUN]
        lines = [one.why for one in slow] or ["no node is slow"]
    foreign = [node for node in nodes if node not in own]
    if foreign or len(nodes) > MOST_PER_RUN:
        why = f"{foreign[0]} is no node of this job" if foreign else f"name at most {MOST_PER_RUN} nodes"
        raise UsageError(f"recover suspect: {why}")
    if nodes:
        try:
            add_slow_nodes(job, nodes, run)
        except NoNote as error:
            raise CommandFailed(f"not noted: {error}") from error
        lines.append(f"noted: {', '.join(nodes)}")
    return Answer(GOOD, "\n".join(lines), {"nodes": nodes})


_ACTIONS: Mapping[str, Callable[[argparse.Namespace, Root], Answer]] = {
    "look": _look,
    "serve": _serve,
    "status": _status,
    "watch": _watch,
    "suspect": _suspect,
}

COMMAND = Command(
    "recover",
    "start failed jobs again that ask for it, on the controller; end jobs that hang",
    _DESCRIPTION,
    no_arguments,
    _execute,
    actions=(
        Action("status", "show the last decisions", _STATUS),
        Action("look", "check the jobs once", _LOOK, _add_look),
        Action("serve", "check the jobs repeatedly, as a service", _SERVE),
        Action("watch", "in a job: end the job if it hangs", _WATCH, _add_watch),
        Action("suspect", "in a job: have slow nodes checked after the job", _SUSPECT, _add_suspect),
    ),
    default="status",
)
