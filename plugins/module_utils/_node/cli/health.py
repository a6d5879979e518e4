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
from .command import Answer, Command, UsageError

_DESCRIPTION = """\
run measures whether this node is fit for jobs, and changes nothing on it. The checks of a tier are run one after the
other; --only runs some of them. A check answers pass; warn, worth a look, but jobs may run; fail; unknown, it could not
be measured, which says nothing against the node; or skip, there is nothing of this kind here, or
/etc/hpcai/health.json turns it off. A check that takes too long is ended and is unknown; a driver or a device that does
not answer twice running fails.

    prolog    before a job: under 2 s, and nothing that disturbs
    periodic  every few minutes, also while jobs run: under 10 s
    epilog    after a job
    boot      before slurmd starts
    deep      bandwidths, NCCL, GPU rates: minutes, on a node without jobs only

list explains each check, its limits on this machine and where they come from; --tier shows those of one tier. --list
without another word is the same.

status tells the verdicts of the last run of each tier in this boot, and what is latched.

report puts the results of the checks in /run/hpcai/health into the node's record at slurmctld, if they are new or the
last report is old. hpcai-health-report.service calls it.

prolog runs the checks of the tier prolog. Where one fails that no job can do without, it waits for the arbiter to
drain the node, and fails then. Where the arbiter does not, it lets the job start. The prolog 30-health calls it.

clear forgets what is latched, of all checks or of those named: what was read from a log fails each later run of its
check until the machine restarts, the GPU is reset, or this is called. It also forgets how often a driver did not
answer.

The last run of each tier is in /run/hpcai/health, one file a tier; a run with --only leaves it alone. What is latched
is in /var/lib/hpcai/health. Where there is a folder for them, each run writes a text file for Prometheus.

Exit status of run and status: 0 no check failed, 1 one failed, 2 one could not tell and none failed, or all were
skipped; warn and skip do not count otherwise. That of 'run prolog' is 1 only where a job must not start: a GPU or the
scratch directory is absent, or the fabric is down; it is 0 otherwise. Of report: 0 slurmctld has the report, 2 it could
not be sent. Of prolog: 1 the job must not start.
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=tuple(_ACTIONS), nargs="?", help="what to do")
    parser.add_argument(
        "names", metavar="TIER|CHECK", nargs="*", help=f"run, status: a tier of {', '.join(TIERS)}; clear: checks"
    )
    parser.add_argument("--only", metavar="CHECK", action="append", default=[], help="run: this check; may be repeated")
    parser.add_argument("--job", metavar="ID", help="run: the job whose prolog or epilog this is (SLURM_JOB_ID)")
    parser.add_argument("--within", type=float, metavar="SECONDS", help="prolog: how long it may take (60)")
    parser.add_argument("--tier", choices=TIERS, help="list: the checks of this tier")
    parser.add_argument("--list", action="store_true", help="the same as list")


def _execute(args: argparse.Namespace) -> Answer:
    action = "list" if args.list and args.action is None else args.action
    if action is None or (args.list and action != "list"):
        raise UsageError(f"say what to do: {', '.join(_ACTIONS)}")
    if action != "run" and (args.only or args.job is not None):
        raise UsageError(f"--only and --job go with run, not with {action}")
    if action != "prolog" and args.within is not None:
        raise UsageError(f"--within goes with prolog, not with {action}")
    if action != "list" and args.tier:
        raise UsageError(f"--tier goes with list: hpcnode health {action} {args.tier}")
    return _ACTIONS[action](args)


def _run(args: argparse.Namespace) -> Answer:
    root = _this_machine(args)
    tier = _one_tier(args)
    if not tier:
        raise UsageError(f"say which tier: {', '.join(TIERS)}")
    job = os.environ.get("SLURM_JOB_ID", "") if args.job is None else args.job
    try:
        done = perform(tier, args.only, root, run, VERSION, job)
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


def _without_words(args: argparse.Namespace) -> Root:
    if args.names:
        raise UsageError(f"{args.action} takes no words: {' '.join(args.names)}")
    return _this_machine(args)


def _report(args: argparse.Namespace) -> Answer:
    return report(_without_words(args))


def report(root: Root) -> Answer:
    """Put the results of the checks into the node's record at slurmctld."""
    # Not above, nor below: a job waits for the prolog, and most ask the arbiter nothing.
    from ..health.report.send import send

    sent = send(root, run)
    return Answer(
        command.GOOD if sent.known else command.UNKNOWN, sent.words, {"known": sent.known, "told": sent.words}
    )


def _prolog(args: argparse.Namespace) -> Answer:
    return prolog(_without_words(args), args.within)


def prolog(root: Root, within: float | None) -> Answer:
    """Run the checks of the tier prolog, and answer whether the job must not start.

    :param within: seconds that it may take in all; None for a minute.
    """
    deadline = time.monotonic() + (60.0 if within is None else within)
    try:
        return _checked(root, deadline)
    except Exception as error:
        # Not the job's fault, and not the node's: any other exit status would drain it.
        words = f"the checks could not be run, and the job starts: {error}"
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
        # The last line becomes the reason, where Slurm is the one that drains.
        return Answer(command.BAD, f"{given.words}\n{given.problem}", data)
    return Answer(command.GOOD, f"the job starts although {given.problem}: {given.words}", data)


def _one_tier(args: argparse.Namespace) -> str:
    for name in args.names:
        if name not in TIERS:
            raise UsageError(f"there is no tier {name}: there are {', '.join(TIERS)}")
    if len(args.names) > 1:
        raise UsageError(f"one tier at a time, not {', '.join(args.names)}")
    return str(args.names[0]) if args.names else ""


def _list(args: argparse.Namespace) -> Answer:
    if args.names:
        raise UsageError(f"list takes no words: hpcnode health list --tier {args.names[0]}")
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
            yield f"{tier}: it has not run in this boot"
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
            raise UsageError(f"there is no check {name}: 'hpcnode health list' shows them")
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
    summary="health checks: whether this node is fit for jobs",
    description=_DESCRIPTION,
    add_arguments=_add_arguments,
    execute=_execute,
)
