# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode health: whether this node is fit for jobs."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, Callable

from ..health import record, state, text
from ..health.catalog import NAMES, NoSuchCheck, all_checks
from ..health.check import FAIL, PROLOG, SKIP, TIERS, UNKNOWN
from ..health.engine import machine_of
from ..health.perform import of_check, perform
from ..machine.atomic import require_readable
from ..machine.lock import Locked
from ..machine.root import Root
from ..machine.run import CommandFailed, run
from ..version import VERSION
from . import command
from .command import Action, Answer, Command, UsageError, no_arguments, suggest
from .terminal import counter

_DESCRIPTION = """\
Health checks: whether this node is fit for jobs.

The tiers are:

    prolog    before a job: under 2 s, does not disturb jobs
    periodic  every few minutes, also while jobs run: under 10 s
    epilog    after a job
    boot      before slurmd starts
    deep      bandwidths, NCCL, GPU rates: takes minutes, only on a node without jobs

The verdict of a check is one of:

    pass     good
    warn     not good, but jobs may run
    fail     a fault of the node, or of a user's job
    unknown  the check could not measure, so it does not count against the node
    skip     this node has nothing of this kind, or /etc/hpcai/health.json turns the check off

A check that exceeds its timeout is unknown. If its driver or device does not answer in two runs in a row, the check
fails; gpu_count asks twice in one run.

The last run of each tier is in /run/hpcai/health, one file per tier; a run with --only does not change it. Latched
findings are in /var/lib/hpcai/health. If the folder for Prometheus' text files exists, each run writes a text file
there.
"""
_STATUSES = """\
Exit status: 0 no check failed, 1 a check failed, 2 a check is unknown and none failed, or all were skipped.
"""
_RUN = f"""\
Runs the checks of a tier, one after the other, and changes nothing on the node. --only runs some of them. On a terminal
it shows which check is running.

{_STATUSES}
Exit status of 'run prolog': 1 a job must not start, because a GPU or the scratch directory is missing or the fabric is
down, 0 otherwise.
"""
_LIST = """\
Explains each check, its limits on this machine and the sources of the limits. 'hpcnode health --list' is the same.

Exit status: 0 good, 2 /etc/hpcai/health.json cannot be used.
"""
_STATUS = f"""\
Shows the verdicts of the last run of each tier in this boot, and the latched findings.

{_STATUSES}"""
_REPORT = """\
Reads the results of the checks from /run/hpcai/health, and writes them to the node's record at slurmctld if they are
new or the last report is old. hpcai-health-report.service calls it.

Exit status: 0 slurmctld has the report, 2 it could not be sent.
"""
_PROLOG = """\
Runs the checks of the tier prolog. If something that every job needs is missing or down (a GPU, the scratch or the
fabric), the command asks the arbiter to drain the node. It exits with 1 when the node is drained. If the arbiter does
not drain the node in time, the command exits with 0, and the job starts. The prolog 30-health calls it.

Exit status: 0 the job may start, 1 it must not start.
"""
_CLEAR = """\
Removes the latched findings of all checks, or of the named checks. A latched finding comes from a log: its check fails
in each later run until the machine restarts, a reset of the GPU repairs the fault, or you call clear. clear also resets
the count of how often a driver did not answer.

Exit status: 0 good, 1 the state cannot be changed.
"""


def _add_run(parser: argparse.ArgumentParser) -> None:
    _add_tier(parser)
    add = parser.add_argument
    suggest(add("--only", metavar="CHECK", action="append", default=[], help="one check; can be repeated"), NAMES)
    add("--job", metavar="ID", help="the job whose prolog or epilog this is (SLURM_JOB_ID)")


def _add_tier(parser: argparse.ArgumentParser) -> None:
    tier = parser.add_argument("names", metavar="TIER", nargs="*", help=f"a tier of {', '.join(TIERS)}")
    suggest(tier, TIERS)


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tier", choices=TIERS, help="only the checks of this tier")


def _add_prolog(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--within", type=float, metavar="SECONDS", help="timeout in seconds (60)")


def _add_clear(parser: argparse.ArgumentParser) -> None:
    suggest(parser.add_argument("names", metavar="CHECK", nargs="*", help="a check, instead of all"), NAMES)


def _execute(args: argparse.Namespace) -> Answer:
    return _ACTIONS[args.action](args)


def _run(args: argparse.Namespace) -> Answer:
    root = _this_machine(args)
    tier = _one_tier(args)
    if not tier:
        raise UsageError(f"say which tier: {', '.join(TIERS)}")
    job = os.environ.get("SLURM_JOB_ID", "") if args.job is None else args.job
    try:
        with counter("health", "check", args.json) as show:
            done = perform(tier, args.only, root, run, VERSION, job, show)
    except NoSuchCheck as error:
        raise UsageError(str(error)) from None
    for problem in done.document["problems"]:
        sys.stderr.write(f"hpcnode health: {problem}\n")
    levels = text.LEVELS if command.is_journal() else {}
    return Answer(done.status, "\n".join(text.of_run(done.run, levels)), done.document)


def _this_machine(args: argparse.Namespace) -> Root:
    root = Root(args.root)
    if not root.is_this_machine:
        raise UsageError(f"health {args.action} works on the running machine only: leave out --root")
    return root


def _report(args: argparse.Namespace) -> Answer:
    return report(_this_machine(args))


def report(root: Root) -> Answer:
    """Write the results of the checks to the node's record at slurmctld."""
    # Imported here, because a job waits for the prolog, and most prologs need nothing of the arbiter.
    from ..diag.perform import start_if_due
    from ..health.report.send import send

    sent = send(root, run)
    collecting = start_if_due(root, run)
    words = "; ".join(filter(None, (sent.words, collecting)))
    return Answer(command.GOOD if sent.known else command.UNKNOWN, words, {"known": sent.known, "told": words})


def _prolog(args: argparse.Namespace) -> Answer:
    return prolog(_this_machine(args), args.within)


def prolog(root: Root, within: float | None) -> Answer:
    """Run the checks of the tier prolog, and say whether the job must not start.

    :param within: timeout in seconds; None for 60.
    """
    deadline = time.monotonic() + (60.0 if within is None else within)
    try:
        return _checked(root, deadline)
    except Exception as error:
        # A defect of hpcnode must not drain the node, as any other exit status would.
        words = f"the checks could not be run, so the job starts: {error}"
        return Answer(command.GOOD, words, {"refuse": False, "problem": None, "told": words})


def _checked(root: Root, deadline: float) -> Answer:
    job = os.environ.get("SLURM_JOB_ID", "")
    done = perform(PROLOG, (), root, run, VERSION, job)
    if not done.run.blocks_job:
        return Answer(command.GOOD, "the node is fit for the job", {"refuse": False, "problem": None, "told": ""})
    from ..health.report.ask import ask

    given = ask(root, job, max(0.0, deadline - time.monotonic()))
    data = {"refuse": given.refuse, "problem": given.problem, "told": given.words}
    if given.refuse:
        # If Slurm itself drains the node, the last line becomes the drain reason.
        return Answer(command.BAD, f"{given.words}\n{given.problem}", data)
    return Answer(command.GOOD, f"the job starts although {given.problem}: {given.words}", data)


def _one_tier(args: argparse.Namespace) -> str:
    for name in args.names:
        if name not in TIERS:
            raise UsageError(f"there is no tier {name}: the tiers are {', '.join(TIERS)}")
    if len(args.names) > 1:
        raise UsageError(f"one tier at a time, not {', '.join(args.names)}")
    return str(args.names[0]) if args.names else ""


def _list(args: argparse.Namespace) -> Answer:
    machine = machine_of(Root(args.root), run)
    checks = [check for check in all_checks() if args.tier in (None, *check.tiers)]
    for problem in filter(None, (machine.settings_problem, machine.size_problem)):
        sys.stderr.write(f"hpcnode health: {problem}\n")
    status = command.UNKNOWN if machine.settings_problem else command.GOOD
    lines = "\n".join(text.of_checks(checks, machine))
    data = {
        "vm_size": machine.size.name if machine.size else "",
        "checks": [of_check(check, machine) for check in checks],
        "problems": [problem for problem in (machine.settings_problem, machine.size_problem) if problem],
    }
    return Answer(status, lines, data)


def _status(args: argparse.Namespace) -> Answer:
    root = Root(args.root)
    tier = _one_tier(args)
    require_readable(root, state.RUN_FOLDER)
    known = {name: record.read(root, name) for name in TIERS if tier in ("", name)}
    documents = {name: document for name, document in known.items() if document}
    kept = {check: held for check, held in state.read(root).latched.items() if held}
    verdicts = [check["verdict"] for document in documents.values() for check in document["checks"]]
    status = command.BAD if FAIL in verdicts else command.GOOD
    if status == command.GOOD and (UNKNOWN in verdicts or not set(verdicts) - {SKIP}):
        status = command.UNKNOWN
    lines = [
        *_of_documents(known),
        *(f"latched: {check}: {one.finding.summary}" for check in kept for one in kept[check]),
    ]
    data = {
        "tiers": documents,
        "latched": {check: [one.finding.summary for one in held] for check, held in kept.items()},
    }
    return Answer(status, "\n".join(lines), data)


def _of_documents(known: Mapping[str, dict[str, object] | None]) -> Iterator[str]:
    for tier, document in known.items():
        if not document:
            yield f"{tier}: not run in this boot"
            continue
        yield f"{tier}: {document['verdict']} at {document['time']}"
        checks: Any = document["checks"]
        yield from (
            f"    {check['name']}: {check['verdict']}: {check['summary']}"
            for check in checks
            if check["verdict"] not in ("pass", "skip")
        )


def _clear(args: argparse.Namespace) -> Answer:
    root = Root(args.root)
    for name in args.names:
        if name not in NAMES:
            raise UsageError(f"there is no check {name}: 'hpcnode health list' shows all checks")
    cleared = []
    try:
        with state.changes(root) as kept:
            for check in args.names or list({**kept.latched, **kept.unanswered}):
                cleared += [f"{check}: {one.finding.summary}" for one in kept.latched.pop(check, ())]
                kept.unanswered.pop(check, None)
    except Locked as error:
        raise CommandFailed(str(error)) from None
    words = [f"cleared {one}" for one in cleared] or ["nothing was latched"]
    return Answer(command.GOOD, "\n".join(words), {"cleared": cleared})


_ACTIONS: Mapping[str, Callable[[argparse.Namespace], Answer]] = {
    "run": _run,
    "list": _list,
    "status": _status,
    "report": _report,
    "prolog": _prolog,
    "clear": _clear,
}

COMMAND = Command(
    name="health",
    summary="health checks: run them, show whether this node is fit for jobs",
    description=_DESCRIPTION,
    add_arguments=no_arguments,
    execute=_execute,
    actions=(
        Action("run", "run the checks of a tier", _RUN, _add_run),
        Action("list", "explain the checks and their limits", _LIST, _add_list, option="--list"),
        Action("status", "show the last verdicts and the latched findings", _STATUS, _add_tier),
        Action("report", "report the results to slurmctld", _REPORT),
        Action("prolog", "find out whether a job may start on this node", _PROLOG, _add_prolog),
        Action("clear", "remove latched findings", _CLEAR, _add_clear),
    ),
)
