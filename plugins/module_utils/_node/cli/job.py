# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode job: the scripts that Slurm runs before and after each job, and at regular intervals."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Callable

from ..job.hooks.failures import Failure
from ..job.hooks.options import KINDS
from ..machine.root import Root
from .command import BAD, GOOD, UNKNOWN, Action, Answer, Command, UsageError, no_arguments

if TYPE_CHECKING:
    from ..job.hooks.runner import DrainDecision

_DESCRIPTION = """\
The scripts that Slurm runs before and after each job, and at regular intervals. They are in /etc/hpcai/KIND.d, and run
in the order of their names (50-gpu).

Output is in /var/log/hpcai/jobs, settings are in /etc/hpcai/job_hooks.json, failures in /run/hpcai/job.
"""
_RUN = """\
Runs the scripts of a kind: prolog before a job starts on this node, epilog after it, health at regular intervals.
slurmd calls it through /usr/libexec/hpcai/KIND. Each script has a timeout, after which it is killed together with all
processes that it started. In a prolog, no script runs after one that failed; in an epilog and in health, all scripts
run. A file that root does not own, that others may write, or that is not executable counts as a failure.

If a script of a prolog exits with 75, the job is requeued with the script's last line as the reason, and the node is
not drained. After any other failure of a prolog or epilog, slurmctld drains the node. If the role health_checks is set
up, the node asks the arbiter to drain it instead, and the job of a prolog is requeued. The node stays in scheduling
if the drain limit is reached or the arbiter does not answer.

Exit status: 0 all scripts passed, or there are none, 1 a script failed.
"""
_STATUS = """\
Shows the scripts, and what failed last in this boot. It changes nothing.

Exit status: 0 nothing failed since the last good run, 1 something failed, or a file is refused.
"""
_REPORT = """\
Sets the node's reason in Slurm to the cause, after slurmctld has drained the node for a failed prolog or epilog. It
replaces only slurmctld's own reason. hpcai-hook-report.service calls it.

Exit status: 0 Slurm has the cause, or needs none, 2 it could not be sent.
"""
_SCRATCH = """\
Checks that the scratch is still mounted, as the boot phase left it, and that it can be written. --unless-checked skips
this if the prolog of the health checks is installed. The prolog 10-scratch uses that option.

Exit status: 0 the scratch is good, or none is expected, 1 it is not good.
"""
_HOSTS = """\
Writes the names of Slurm's nodes to a block in /etc/hosts: the nodes in slurm.conf, and the nodes of the job whose
prolog calls it. The prolog 15-hosts calls it.

Exit status: 0 /etc/hosts has all names of the job's nodes, 2 a name is missing.
"""
_UNKILLABLE = """\
Frees users' processes that do not end after SIGKILL: it aborts the FUSE connections on which they hang, if the same
user made them, and kills their tracers. The health script 10-unkillable calls it.

Exit status: 0 nothing was stuck, or it was freed, 2 FUSE's connections cannot be read.
"""


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", metavar="KIND", choices=KINDS, help=", ".join(KINDS))


def _add_scratch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--unless-checked", action="store_true", help="only if no health check covers it")


def _execute(args: argparse.Namespace) -> Answer:
    root = Root(args.root)
    if args.action in ("run", "report", "hosts", "unkillable") and not root.is_this_machine:
        raise UsageError(f"job {args.action} works on the running machine only: leave out --root")
    return _ACTIONS[args.action](args, root)


# Each action imports only what it needs, because slurmd waits for it.
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
    """If health checks are set up, ask the arbiter to drain this node for a failed script, and return its decision."""
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
    lines = [one.summary for one in reported] or ["there is no failure to report"]
    known = all(one.known for one in reported)
    return Answer(GOOD if known else UNKNOWN, "\n".join(lines), {"told": lines if reported else []})


def _scratch(args: argparse.Namespace, root: Root) -> Answer:
    from ..health.checks.scratch import problem_of
    from ..job.hooks.options import PROLOG, folder
    from ..slurm.arbiter.reasons import PROLOG_SCRIPT

    # Slurm drains every node whose prolog fails, without a limit. The health checks test the scratch too, and keep the
    # drain limit, so this test is skipped if their prolog is installed.
    if args.unless_checked and root.exists(f"{folder(PROLOG)}/{PROLOG_SCRIPT}"):
        return Answer(GOOD, f"skipped: {PROLOG_SCRIPT} checks the scratch", {"problem": "", "left_to": PROLOG_SCRIPT})
    problem = problem_of(root)
    return Answer(BAD if problem else GOOD, problem or "the scratch is good, or none is expected", {"problem": problem})


def _hosts(_args: argparse.Namespace, root: Root) -> Answer:
    from ..job.hooks.options import PROLOG, script_environment
    from ..job.hosts import write_hosts
    from ..machine.lock import Locked
    from ..machine.run import run
    from ..setup.hosts_file import HOSTS
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
        return Answer(UNKNOWN, f"cannot free a killed process: {error}", {"freed": []})
    return Answer(GOOD, "\n".join(done) or "no killed process is left", {"freed": done})


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
    summary="prolog, epilog and health scripts: run them, show what failed",
    description=_DESCRIPTION,
    add_arguments=no_arguments,
    execute=_execute,
    actions=(
        Action("run", "run the scripts of a kind", _RUN, _add_run),
        Action("status", "show the scripts, and what failed last", _STATUS),
        Action("report", "report to Slurm why a script drained the node", _REPORT),
        Action("scratch", "check the scratch before a job", _SCRATCH, _add_scratch),
        Action("hosts", "write the nodes' names to /etc/hosts", _HOSTS),
        Action("unkillable", "free processes that do not end after SIGKILL", _UNKILLABLE),
    ),
)
