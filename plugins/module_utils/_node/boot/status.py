# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The state of the boot phase, and what keeps slurmd from starting, from the steps' records and from systemd."""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..health.check import BOOT_STEP, COUNTS, FAIL, PASS, SKIP, UNKNOWN
from ..machine.root import Root
from ..machine.run import Run
from . import record
from .catalog import WITHOUT_UNIT
from .step import Step

RUNNING, WAITING, NOT_RUN = record.RUNNING, "waiting", "not run"
"""States instead of a verdict: the step is running, is in systemd's queue, or was not started."""
READY, BLOCKED, UNFINISHED = "ready", "blocked", "unfinished"
"""slurmd may start, or is running; slurmd must not start; not all steps have finished."""
SLURMD = "slurmd.service"
_PROPERTIES = ("Id", "LoadState", "ActiveState", "Result", "Job")


@dataclass(frozen=True)
class StepStatus:
    """The state of a step.

    :ivar verdict: the verdict of its last run in this boot, or RUNNING, WAITING or NOT_RUN.
    :ivar seconds: how long it took, or has been running; None if that is not known.
    :ivar unit: the ActiveState of its unit; None if there is no systemd or no unit.
    """

    step: Step
    verdict: str
    summary: str = ""
    action: str = ""
    seconds: float | None = None
    changes: tuple[str, ...] = ()
    unit: str | None = None

    @property
    def blocks(self) -> bool:
        """Whether it keeps slurmd from starting."""
        return self.step.blocking and self.verdict in COUNTS[BOOT_STEP]

    @property
    def unfinished(self) -> bool:
        """Whether slurmd has to wait for it."""
        if self.step.name in WITHOUT_UNIT:
            return False
        return self.verdict in (RUNNING, WAITING) or (self.step.blocking and self.verdict == NOT_RUN)


@dataclass(frozen=True)
class Status:
    """The state of all steps.

    :ivar slurmd: the ActiveState of slurmd's unit; None if there is no such unit.
    """

    lines: tuple[StepStatus, ...]
    slurmd: str | None

    @property
    def state(self) -> str:
        """READY, BLOCKED or UNFINISHED."""
        if any(line.blocks for line in self.lines):
            return BLOCKED
        return UNFINISHED if any(line.unfinished for line in self.lines) else READY


def unit_of(step: Step) -> str:
    """Return the name of a step's unit."""
    return f"hpcai-{step.name}.service"


def read_status(root: Root, run: Run, steps: Sequence[Step]) -> Status:
    """Return the state of these steps."""
    units = _units(root, run, steps)
    lines = tuple(_line(root, step, units.get(unit_of(step), {})) for step in steps)
    slurmd = units.get(SLURMD, {})
    return Status(lines, slurmd.get("ActiveState") if slurmd.get("LoadState") == "loaded" else None)


def _units(root: Root, run: Run, steps: Iterable[Step]) -> dict[str, dict[str, str]]:
    """Return systemd's properties of the units, by name; empty if systemd does not run or does not answer."""
    if not root.is_this_machine or not root.exists("/run/systemd/system"):
        return {}
    names = [*(unit_of(step) for step in steps if step.name not in WITHOUT_UNIT), SLURMD]
    shown = run(["systemctl", "show", f"--property={','.join(_PROPERTIES)}", "--", *names])
    units = {}
    for block in shown.stdout.split("\n\n"):
        facts = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        units[facts.get("Id", "")] = facts
    return units


def _line(root: Root, step: Step, unit: Mapping[str, str]) -> StepStatus:
    known = record.read(root, step.name)
    line = StepStatus(step, NOT_RUN, "not run in this boot", unit=unit.get("ActiveState"))
    if known is not None:
        line = replace(
            line,
            verdict=known.verdict,
            summary=known.summary,
            action=known.action,
            seconds=_running_for(known) if known.verdict == RUNNING else known.seconds,
            changes=known.changes,
        )
    if unit.get("LoadState") == "masked" and step.blocking:
        # This holds even if somebody ran the step by hand: systemd starts nothing that requires a masked unit.
        action = f"Run 'systemctl unmask {unit_of(step)}'. To skip the step, use boot_skip in /etc/hpcai/node.json"
        return replace(line, verdict=FAIL, summary=f"{unit_of(step)} is masked, but slurmd requires it", action=action)
    if line.verdict == RUNNING or not unit:
        return line
    if known is not None and unit.get("ActiveState") == "activating" and record.is_alive(root, known):
        # The step has written its record, and its process is about to exit.
        return line
    if unit.get("ActiveState") == "activating":
        return replace(line, verdict=RUNNING, summary="systemd has started it", action="", seconds=None, changes=())
    if unit.get("Job", "0") not in ("", "0") and unit.get("ActiveState") != "active":
        return replace(line, verdict=WAITING, summary="waiting for earlier steps", action="")
    if known is None:
        return _by_unit(line, step, unit)
    if known.verdict == UNKNOWN and unit.get("Result") == "timeout":
        return replace(line, summary=f"systemd stopped it, because it did not finish within {step.limit_s:g} s")
    return line


def _by_unit(line: StepStatus, step: Step, unit: Mapping[str, str]) -> StepStatus:
    """Return the state of a step without a record, as systemd reports it."""
    name = unit_of(step)
    if unit.get("LoadState") == "masked":
        return replace(line, verdict=SKIP, summary=f"{name} is masked")
    if unit.get("LoadState") == "not-found":
        return replace(line, summary=f"{name} is not installed", action="Run the role hpcai.azure.node_tools")
    if unit.get("ActiveState") == "failed":
        summary = f"it left no record, but systemd reports that it failed ({unit.get('Result', '?')})"
        return replace(line, verdict=FAIL, summary=summary, action=f"See 'journalctl -b -u {name}'")
    if unit.get("ActiveState") == "active":
        return replace(line, verdict=PASS, summary="it left no record, but systemd reports that it succeeded")
    return line


def _running_for(known: record.Record) -> float | None:
    try:
        began = time.strptime(known.started, "%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        return None
    return max(0.0, round(time.time() - calendar.timegm(began), 1))


def as_dict(status: Status) -> dict[str, Any]:
    """Return it as plain values."""
    return {
        "state": status.state,
        "blocking": [line.step.name for line in status.lines if line.blocks],
        "slurmd": status.slurmd,
        "steps": [
            {
                "name": line.step.name,
                "blocking": line.step.blocking,
                "verdict": line.verdict,
                "summary": line.summary,
                "action": line.action,
                "seconds": line.seconds,
                "changes": list(line.changes),
                "unit": line.unit,
            }
            for line in status.lines
        ],
    }
