# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode boot: the boot phase, which a node runs at each boot before slurmd starts."""

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
from .command import Action, Answer, Command, UsageError, no_arguments, require_this_machine, suggest
from .terminal import counter

_DESCRIPTION = """\
The boot phase: steps that a node runs at each boot before slurmd starts. At boot, each step has its own unit,
hpcai-STEP.service. Each step has a timeout.

The verdict of a step is one of:

    pass     the step succeeded
    warn     something is wrong, but jobs may run
    fail     the step failed
    unknown  the step could not find out whether the node is set up correctly
    skip     this node has nothing of this kind, or boot_skip in /etc/hpcai/node.json lists the step

If a blocking step has the verdict fail or unknown, slurmd does not start; 'systemctl start slurmd' runs these steps
again.

Records are in /run/hpcai/boot, one file per step.
"""
_RUN = """\
Runs the named steps of the boot phase, in the order of the boot. Without names it runs all steps except join, which is
part of slurmd's own start. It continues after a step that failed. On a terminal it shows which step is running. Steps
leave correct settings unchanged, so you can run them at any time. --check only shows what would be done.

Exit status: 0 no step failed, 1 a step failed, 2 a step is unknown. If no step is named, only blocking steps count.
"""
_STATUS = """\
Shows the result of each step in this boot, what keeps slurmd from starting, and what to do. It changes nothing.

Exit status: 0 nothing keeps slurmd from starting, 1 something does, 2 not all steps have finished.
"""
_REPORT = """\
Sets the node's reason in Slurm to the first problem that keeps slurmd from starting, unless somebody else has set a
reason. hpcai-report.service calls it when a blocking step has failed.

Exit status: 0 Slurm has the reason, or needs none, 2 the reason could not be sent.
"""
_LEVELS = {FAIL: "<3>", UNKNOWN: "<3>", WARN: "<4>"}
"""The journal's prefixes for errors and warnings (sd-daemon(3))."""


def _add_run(parser: argparse.ArgumentParser) -> None:
    steps = parser.add_argument("steps", metavar="STEP", nargs="*", help=f"steps to run, of {', '.join(NAMES)}")
    suggest(steps, NAMES)
    parser.add_argument("--check", action="store_true", help="only show what would be done")


def _execute(args: argparse.Namespace) -> Answer:
    return _ACTIONS[args.action](args)


def _run(args: argparse.Namespace) -> Answer:
    root = Root(args.root)
    require_this_machine(root, "boot run")
    try:
        steps = select_steps(args.steps)
    except NoSuchStep as error:
        raise UsageError(str(error)) from None
    ran = []
    with counter("boot", "step", args.json) as show:
        for number, step in enumerate(steps, start=1):
            show(step.name, number, len(steps))
            ran.append(perform(step, root, run, args.check))
    for problem in problems_of(ran):
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
    """Yield lines that say whether slurmd can start, and what to do."""
    for line in status.lines:
        if line.verdict in _LEVELS and not line.blocks:
            yield f"Jobs may run, but {line.step.name}: {sentence(line.summary, line.action)}"
    for line in status.lines:
        if line.blocks:
            yield f"slurmd does not start because of {line.step.name}: {sentence(line.summary, line.action)}"
    if status.state == boot_status.BLOCKED:
        yield "Then run 'systemctl start slurmd': it repeats the failed blocking steps, and starts slurmd if they pass."
    elif status.state == boot_status.UNFINISHED:
        waited = ", ".join(line.step.name for line in status.lines if line.unfinished)
        yield f"slurmd waits for: {waited}. To run a step by hand: 'hpcnode boot run STEP'."
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
    # Imported here, because only a failed unit needs it.
    from ..boot.report import report

    root = Root(args.root)
    require_this_machine(root, "boot report")
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
    summary="the boot phase: run its steps, show what keeps slurmd from starting",
    description=_DESCRIPTION,
    add_arguments=no_arguments,
    execute=_execute,
    actions=(
        Action("run", "run steps of the boot phase", _RUN, _add_run),
        Action("status", "show the result of each step, and what keeps slurmd from starting", _STATUS),
        Action("report", "report to Slurm what keeps slurmd from starting", _REPORT),
    ),
)
