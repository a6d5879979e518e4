# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode job: the scripts that Slurm has run before and after each job, and from time to time."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Callable

from ..job.hooks.failures import Failure
from ..job.hooks.options import KINDS
from ..machine.root import Root
from .command import BAD, GOOD, UNKNOWN, Answer, Command, UsageError

if TYPE_CHECKING:
    from ..job.hooks.runner import DrainDecision

_DESCRIPTION = """\
run runs the scripts of a kind: prolog, before a job starts on this node; epilog, after it; health, from time to time.
They lie in /etc/hpcai/KIND.d and run in the order of their names (50-gpu). slurmd calls it through
/usr/libexec/hpcai/KIND. Each script has a limit in seconds, and is ended with all that it started when that is over.
The first one of a prolog that fails ends it, of the others all run. A file that is not root's, that others may write,
or that is not executable counts as a failure. A script of a prolog that exits with 75 has the job requeued, with its
last line as the reason, instead of the node drained. Where the role health_checks was, a prolog or epilog that
fails otherwise asks the arbiter to drain the node, and the job of a prolog is requeued. If no more nodes may be out, or
nobody answers, the node stays.

status tells which scripts there are and what failed last in this boot. Changes nothing.

report puts the cause into the node's reason in Slurm, once slurmctld has drained it for a prolog or an epilog that
failed, and only in the place of slurmctld's own words. hpcai-hook-report.service calls it.

scratch tells whether the scratch is still mounted and can be written, as the boot left it. --unless-checked leaves that
to the health checks where their prolog is installed. The prolog 10-scratch calls it so.

hosts writes the names of Slurm's nodes into a block of /etc/hosts: those of slurm.conf, and the nodes of the job whose
prolog calls it. The prolog 15-hosts calls it so.

unkillable frees users' processes that were killed and do not end: it aborts the FUSE connections on which they hang, if
the same user made them, and kills their tracers. The health script 10-unkillable calls it.

Output is in /var/log/hpcai/jobs, limits in /etc/hpcai/job_hooks.json, failures in /run/hpcai/job.

Exit status of run: 0 all scripts passed, or there are none, 1 one failed.
Exit status of status: 0 nothing failed since the last good run, 1 something did, or a file is refused.
Exit status of report: 0 Slurm knows, or need not, 2 it could not be told.
Exit status of scratch: 0 it is good, or there is none, 1 it is not.
Exit status of unkillable: 0 nothing was stuck, or it was freed, 2 FUSE's connections cannot be seen.
Exit status of hosts: 0 all names of the job's nodes are there, 2 one is not.
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=tuple(_ACTIONS), help="what to do")
    parser.add_argument("--unless-checked", action="store_true", help="scratch: only where no health check looks at it")
    parser.add_argument("kind", metavar="KIND", nargs="?", choices=KINDS, help=f"run: {', '.join(KINDS)}")


def _execute(args: argparse.Namespace) -> Answer:
    if (args.action == "run") is (args.kind is None):
        raise UsageError("run needs a KIND" if args.action == "run" else f"KIND goes with run, not with {args.action}")
    if args.unless_checked and args.action != "scratch":
        raise UsageError(f"--unless-checked goes with scratch, not with {args.action}")
    root = Root(args.root)
    if args.action in ("run", "report", "hosts", "unkillable") and not root.is_this_machine:
        raise UsageError(f"job {args.action} works on the running machine only: leave out --root")
    return _ACTIONS[args.action](args, root)


# Each imports what it needs: slurmd waits for the one that it calls.
def _run(args: argparse.Namespace, root: Root) -> Answer:
    from ..job.hooks.runner import run_kind

    done = run_kind(args.kind, root, os.environ, ask=partial(_ask, root))
    scripts = [
        {"name": one.name, "cause": one.cause, "last_line": one.last_line, "seconds": round(one.seconds, 3)}
        for one in done.runs
    ]
    data = {"kind": done.kind, "job": done.job, "scripts": scripts}
    if done.failure is None:
        words = done.done_instead or f"{args.kind}: {len(done.runs)} passed"
        return Answer(GOOD, words, {**data, "reason": None, "given_back": done.done_instead})
    return Answer(BAD, done.failure.reason, {**data, "reason": done.failure.reason})


def _ask(root: Root, failure: Failure, seconds: float) -> DrainDecision | None:
    """Ask the arbiter, where there is one, whether this node may go out for a script that failed."""
    import calendar
    import time

    from ..health.report.ask import ask_for_script
    from ..health.report.files import ScriptFault, is_set_up
    from ..job.hooks.runner import DrainDecision

    if not is_set_up(root):
        return None
    at = calendar.timegm(time.strptime(failure.time, "%Y-%m-%dT%H:%M:%SZ"))
    given = ask_for_script(root, failure.job, ScriptFault(failure.kind, failure.summary, at), seconds)
    return DrainDecision(given.refuse, given.words)


def _status(_args: argparse.Namespace, root: Root) -> Answer:
    from ..job.hooks import scripts

    kinds = scripts.status(root)
    bad = any(one.bad for one in kinds)
    return Answer(BAD if bad else GOOD, "\n".join(scripts.status_lines(kinds)), {"kinds": scripts.as_dict(kinds)})


def _report(_args: argparse.Namespace, root: Root) -> Answer:
    from ..job.hooks.failures import report_all
    from ..machine.run import run

    reported = report_all(root, run)
    lines = [one.summary for one in reported] or ["no failure waits to be told"]
    known = all(one.known for one in reported)
    return Answer(GOOD if known else UNKNOWN, "\n".join(lines), {"told": lines if reported else []})


def _scratch(args: argparse.Namespace, root: Root) -> Answer:
    from ..health.checks.scratch import problem_of
    from ..job.hooks.options import PROLOG, folder
    from ..slurm.arbiter.reasons import PROLOG_SCRIPT

    # Slurm drains each node whose prolog fails, as many as there are. The health checks look for the same and more, and
    # take no more nodes out than may be: where their prolog is installed, it is left to them.
    if args.unless_checked and root.exists(f"{folder(PROLOG)}/{PROLOG_SCRIPT}"):
        return Answer(GOOD, f"{PROLOG_SCRIPT} looks at the scratch", {"problem": "", "left_to": PROLOG_SCRIPT})
    problem = problem_of(root)
    return Answer(BAD if problem else GOOD, problem or "the scratch is good, or none is expected", {"problem": problem})


def _hosts(_args: argparse.Namespace, root: Root) -> Answer:
    from ..job.hooks.options import PROLOG, script_environment
    from ..job.hosts import HOSTS, write_hosts
    from ..machine.lock import Locked
    from ..machine.run import run
    from ..setup.managed_file import BrokenBlock

    try:
        problem = write_hosts(script_environment(os.environ, PROLOG), root, run)
    except (BrokenBlock, Locked) as error:
        problem = str(error)
    except OSError as error:
        problem = str(error.strerror)
    words = f"{HOSTS}: {problem}" if problem else f"{HOSTS} has the names of the job's nodes"
    return Answer(UNKNOWN if problem else GOOD, words, {"problem": problem})


def _unkillable(_args: argparse.Namespace, root: Root) -> Answer:
    import time

    from ..job.unkillable import free
    from ..machine.run import CommandFailed, run

    try:
        done = free(root, run, os.kill, time.sleep)
    except (CommandFailed, OSError) as error:
        return Answer(UNKNOWN, f"a process that was killed cannot be freed: {error}", {"freed": []})
    return Answer(GOOD, "\n".join(done) or "no process that was killed is left", {"freed": done})


_ACTIONS: Mapping[str, Callable[[argparse.Namespace, Root], Answer]] = {
    "run": _run,
    "status": _status,
    "report": _report,
    "scratch": _scratch,
    "hosts": _hosts,
    "unkillable": _unkillable,
}

COMMAND = Command(
    name="job",
    summary="prolog, epilog and health scripts: run them, see what failed",
    description=_DESCRIPTION,
    add_arguments=_add_arguments,
    execute=_execute,
)
