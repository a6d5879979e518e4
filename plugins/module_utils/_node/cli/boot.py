# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode boot: what a node does by itself at each boot, before slurmd starts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Callable

from ..boot import status as boot_status
from ..boot.catalog import NAMES, NoSuchStep, all_steps, select_steps
from ..boot.engine import StepRun, as_document, perform, problems_of, sentence
from ..health.check import FAIL, PASS, SKIP, UNKNOWN, WARN
from ..machine.root import Root
from ..machine.run import run
from . import command
from .command import Answer, Command, UsageError

_DESCRIPTION = """\
run does the steps of the boot phase that are named, in the order of the boot; without names all of them but join, which
is a part of slurmd's own start. It goes on after one that failed. At boot each step is run by a unit of its own,
hpcai-STEP.service. What is done already stays as it is, so it may be run at any time. --check only says what would be
done.

status tells what became of each step in this boot, what keeps slurmd from starting, and what to do. Changes nothing.

report puts the first reason that keeps slurmd from starting into the node's reason in Slurm, if Slurm can be told and
nobody else gave the node one. hpcai-report.service calls it when a blocking step has failed.

A step answers pass; warn, not as it should be, but jobs may run; fail; unknown, it could not be told; or skip, there is
nothing of this kind here, or boot_skip in /etc/hpcai/node.json names it. Of a blocking step fail and unknown keep
slurmd from starting; 'systemctl start slurmd' runs those once more. Each step is ended when its time is over.

Records are in /run/hpcai/boot, one file a step.

Exit status of run: 0 none failed, 1 one failed, 2 one could not tell; without names only blocking ones count.
Exit status of status: 0 nothing keeps slurmd from starting, 1 something does, 2 not all steps have ended.
Exit status of report: 0 Slurm knows, or need not, 2 it could not be told.
"""
_LEVELS = {FAIL: "<3>", UNKNOWN: "<3>", WARN: "<4>"}
"""How a line for the journal begins that is an error or a warning (sd-daemon(3))."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=tuple(_ACTIONS), help="what to do")
    parser.add_argument("steps", metavar="STEP", nargs="*", help=f"run: which steps of {', '.join(NAMES)}")
    parser.add_argument("--check", action="store_true", help="run: only say what would be done")


def _execute(args: argparse.Namespace) -> Answer:
    if args.action != "run" and (args.steps or args.check):
        raise UsageError(f"STEP and --check go with run, not with {args.action}")
    return _ACTIONS[args.action](args)


def _run(args: argparse.Namespace) -> Answer:
    root = Root(args.root)
    if not root.is_this_machine:
        raise UsageError("boot run works on the running machine only: leave out --root")
    try:
        steps = select_steps(args.steps)
    except NoSuchStep as error:
        raise UsageError(str(error)) from None
    ran = []
    for step in steps:
        ran.append(perform(step, root, run, args.check))
        for problem in problems_of(ran[-1:]):
            sys.stderr.write(f"hpcnode boot: {problem}\n")
    counted = [one for one in ran if (one.bad if args.steps else one.blocks)]
    return Answer(_status_of(counted), "\n".join(_lines(ran, args.check)), as_document(ran, args.check))


def _status_of(bad: Sequence[StepRun]) -> int:
    if any(one.outcome.verdict == FAIL for one in bad):
        return command.BAD
    return command.UNKNOWN if bad else command.GOOD


def _lines(ran: Iterable[StepRun], check: bool) -> Iterable[str]:
    levels = _LEVELS if command.is_journal() else {}
    for one in ran:
        name, outcome = one.step.name, one.outcome
        yield from (f"{name}: {'would be changed' if check else 'changed'}: {change}" for change in outcome.changes)
        verdict = f"{name}: {outcome.verdict} ({one.seconds:.1f} s)"
        yield f"{levels.get(outcome.verdict, '')}{verdict}: {sentence(outcome.summary, outcome.action)}"


def _status(args: argparse.Namespace) -> Answer:
    status = boot_status.read_status(Root(args.root), run, all_steps())
    states = {boot_status.READY: command.GOOD, boot_status.BLOCKED: command.BAD}
    rows = [("STEP", "VERDICT", "SECONDS", "SUMMARY")]
    for line in status.lines:
        seconds = "" if line.seconds is None else f"{line.seconds:.1f}"
        rows.append((line.step.name, line.verdict, seconds, line.summary))
    text = [_columns(rows), "", *_advice(status)]
    return Answer(states.get(status.state, command.UNKNOWN), "\n".join(text), boot_status.as_dict(status))


def _advice(status: boot_status.Status) -> Iterable[str]:
    """What follows from it, and what to do."""
    for line in status.lines:
        if line.verdict in _LEVELS and not line.blocks:
            yield f"Jobs may run, but {line.step.name}: {sentence(line.summary, line.action)}"
    for line in status.lines:
        if line.blocks:
            yield f"slurmd does not start for {line.step.name}: {sentence(line.summary, line.action)}"
    if status.state == boot_status.BLOCKED:
        yield "Then 'systemctl start slurmd' runs the blocking steps that failed once more, and starts it if they pass."
    elif status.state == boot_status.UNFINISHED:
        waited = ", ".join(line.step.name for line in status.lines if line.unfinished)
        yield f"slurmd waits for: {waited}. 'hpcnode boot run STEP' runs one by hand."
    else:
        yield f"Nothing keeps slurmd from starting{_slurmd_words(status.slurmd)}."


def _slurmd_words(state: str | None) -> str:
    if state in ("inactive", "failed"):
        return f"; it is {state}, and 'systemctl start slurmd' starts it"
    return f"; it is {state}" if state else ""


def _columns(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def _report(args: argparse.Namespace) -> Answer:
    # Not above: nothing but a failed unit needs it.
    from ..boot.report import report

    root = Root(args.root)
    if not root.is_this_machine:
        raise UsageError("boot report works on the running machine only: leave out --root")
    done = report(root, run, all_steps())
    status = command.GOOD if done.verdict in (PASS, SKIP) else command.UNKNOWN
    return Answer(status, sentence(done.summary, done.action), {"verdict": done.verdict, "summary": done.summary})


_ACTIONS: Mapping[str, Callable[[argparse.Namespace], Answer]] = {
    "run": _run,
    "status": _status,
    "report": _report,
}

COMMAND = Command(
    name="boot",
    summary="the boot phase: run its steps, see what keeps slurmd from starting",
    description=_DESCRIPTION,
    add_arguments=_add_arguments,
    execute=_execute,
)
