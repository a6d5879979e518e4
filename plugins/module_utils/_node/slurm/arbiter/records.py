# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The arbiter's records of machines from earlier passes. A machine is identified by its vmId: node names are reused."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ...machine.atomic import write_file
from ...machine.root import Root
from .report import Report
from .settings import WINDOW_S

SCHEMA = 1
_FORGOTTEN_S = 30 * 24 * 3600.0
"""Records of machines that did not report for this long are deleted."""
SEEN_STEP_S = 3600.0
"""Resolution of the time of a machine's last report, so that the file is not written for each report."""


@dataclass(frozen=True)
class Drain:
    """A machine was drained.

    :ivar time: when, in seconds since the epoch.
    :ivar check: for which check.
    """

    time: float
    check: str


@dataclass(frozen=True)
class Restart:
    """A machine was asked to restart.

    :ivar boot: the boot that the restart should end, as in its reports.
    """

    time: float
    boot: str


@dataclass(frozen=True)
class Drained:
    """A machine was drained by the arbiter.

    :ivar since: only a newer report can resume it. The time of the report for which it was drained or, if that is not
        known, of the drain.
    :ivar checks: all checks that failed since; each must pass before it is resumed.
    """

    since: float
    checks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Marked:
    """A machine is marked for replacement.

    :ivar host: its physical host at that time: on another host, the machine counts as a new one.
    """

    time: float
    reason: str
    host: str = ""
    action: str = ""


@dataclass(frozen=True)
class Machine:
    """The record of a machine.

    :ivar key: its vmId, or ``node NAME`` if that is not known.
    :ivar name: name of its node.
    :ivar seen: when it reported last, to the hour.
    :ivar came_back: when it was found in scheduling again; earlier reports are ignored.
    """

    key: str
    name: str = ""
    host: str = ""
    seen: float = 0.0
    drains: tuple[Drain, ...] = ()
    restarts: tuple[Restart, ...] = ()
    out: Drained | None = None
    came_back: float = 0.0
    marked: Marked | None = None

    @property
    def has_history(self) -> bool:
        """Whether there is anything to remember."""
        return bool(self.drains or self.restarts or self.out or self.marked)

    def drains_lately(self, now: float, check: str | None = None) -> int:
        """Return how often it was drained in the last 24 h, for one check or for any."""
        return sum(now - one.time < WINDOW_S and check in (None, one.check) for one in self.drains)

    def last_restart(self, now: float) -> Restart | None:
        """Return the last restart that was requested in the last 24 h."""
        lately = [one for one in self.restarts if now - one.time < WINDOW_S]
        return lately[-1] if lately else None

    def drained(self, now: float, check: str, reported_at: float) -> Machine:
        """Return the record after a drain.

        :param reported_at: when the report for which it is drained was written. Between that and the drain, the node
            may have reported that it is healthy again, and it does not repeat that report.
        """
        drains = tuple(one for one in self.drains if now - one.time < WINDOW_S)
        return replace(self, drains=(*drains, Drain(now, check)), out=Drained(reported_at, (check,)))

    def returned(self, now: float) -> Machine:
        """Return the record after it was resumed."""
        return replace(self, out=None, marked=None, came_back=now)


Machines = Mapping[str, Machine]
"""By key."""


def key_of(name: str, report: Report) -> str:
    """Return the key of a machine's record."""
    return report.vm_id or f"node {name}"


@dataclass(frozen=True)
class Records:
    """The records of all machines.

    :ivar problem: which records were lost, and why; empty if none.
    """

    machines: Machines = field(default_factory=dict)
    problem: str = ""


def read(root: Root, path: str) -> Records:
    """Return the records. An unreadable file is kept next to the new one."""
    text, aside = root.text(path), f"{path}.unreadable"
    try:
        found = parse(text)
    except ValueError as error:
        os.replace(root.at(path), root.at(aside))
        words = f"{path} cannot be read ({error}). Earlier drains are forgotten; the file was moved to {aside}"
        return Records({}, words)
    if found.problem:
        write_file(root.at(aside), text or "", mode=0o600)
        return replace(found, problem=f"{path}: {found.problem}; a copy of the file is {aside}")
    return found


def parse(text: str | None) -> Records:
    """Return the records in the file's text; none without a file.

    Records are independent: an invalid one is reported, and the others are kept.

    :raises ValueError: the complete text is invalid.
    """
    if text is None:
        return Records()
    try:
        held = json.loads(text)
        if held["schema"] != SCHEMA:
            raise ValueError(f"it has schema {held['schema']}, but this hpcnode reads schema {SCHEMA}")
        given = dict(held["machines"])
    except (LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"it is damaged: {error!r}") from None
    found, lost = {}, []
    for key, value in given.items():
        try:
            found[key] = _machine(key, value)
        except (LookupError, TypeError, AttributeError, ValueError, OverflowError):
            lost.append(key)
    return Records(found, f"the records of these machines were damaged and deleted: {', '.join(lost)}" if lost else "")


def _machine(key: str, held: Mapping[str, Any]) -> Machine:
    out, marked = held["out"], held["marked"]
    return Machine(
        **{
            **held,
            "key": key,
            "seen": _time(held["seen"]),
            "came_back": _time(held["came_back"]),
            "drains": tuple(Drain(_time(one["time"]), one["check"]) for one in held["drains"]),
            "restarts": tuple(Restart(_time(one["time"]), one["boot"]) for one in held["restarts"]),
            "out": Drained(_time(out["since"]), tuple(out["checks"])) if out else None,
            "marked": Marked(**{**marked, "time": _time(marked["time"])}) if marked else None,
        }
    )


def _time(given: Any) -> float:
    """Return the time, if it can be compared with a clock."""
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not math.isfinite(given):
        raise ValueError(f"{str(given)[:20]} is not a time")
    return given


def write(root: Root, path: str, machines: Machines, now: float) -> None:
    """Write the records, if they changed.

    :raises OSError: they cannot be written.
    """
    kept = {key: _as_stored(one) for key, one in machines.items() if one.has_history and now - one.seen < _FORGOTTEN_S}
    text = json.dumps({"schema": SCHEMA, "machines": kept}, indent=1, sort_keys=True) + "\n"
    if (root.text(path) or "") != text.strip():
        write_file(root.at(path), text, mode=0o600)


def _as_stored(machine: Machine) -> dict[str, Any]:
    held = asdict(machine)
    del held["key"]
    return held
