# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What the arbiter knows of each machine from its earlier looks. A machine is its vmId: names of nodes come again."""

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
"""What is known of a machine that nobody has seen for so long is forgotten."""
SEEN_STEP_S = 3600.0
"""How exactly it is known when a machine was seen last: the file is not written for each report."""


@dataclass(frozen=True)
class Drain:
    """A machine was taken out.

    :ivar time: when, in seconds since the epoch.
    :ivar check: for which check.
    """

    time: float
    check: str


@dataclass(frozen=True)
class Restart:
    """A machine was asked to restart.

    :ivar boot: the boot that should end by it, as its reports name it.
    """

    time: float
    boot: str


@dataclass(frozen=True)
class Out:
    """A machine is out by the arbiter's hand.

    :ivar since: a newer report than from then speaks for it: when that was written which it was drained for, or where
        nobody knows that one, when it was drained.
    :ivar checks: all checks that failed since; each must pass before it returns.
    """

    since: float
    checks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Marked:
    """A machine is to be replaced.

    :ivar host: the physical host that it was on: on another one it is as good as another machine.
    """

    time: float
    reason: str
    host: str = ""
    action: str = ""


@dataclass(frozen=True)
class Machine:
    """What is known of a machine.

    :ivar key: its vmId, or ``node NAME`` where that is not known.
    :ivar name: of its node.
    :ivar seen: when it reported last, to the hour.
    :ivar came_back: when it was found in scheduling again; a report from before that is of no use against it.
    """

    key: str
    name: str = ""
    host: str = ""
    seen: float = 0.0
    drains: tuple[Drain, ...] = ()
    restarts: tuple[Restart, ...] = ()
    out: Out | None = None
    came_back: float = 0.0
    marked: Marked | None = None

    @property
    def has_history(self) -> bool:
        """Whether there is anything to remember of it."""
        return bool(self.drains or self.restarts or self.out or self.marked)

    def drains_lately(self, now: float, check: str | None = None) -> int:
        """Return how often it was drained in the last 24 h, for one check or for any."""
        return sum(now - one.time < WINDOW_S and check in (None, one.check) for one in self.drains)

    def last_restart(self, now: float) -> Restart | None:
        """Return the last restart that was asked for in the last 24 h."""
        lately = [one for one in self.restarts if now - one.time < WINDOW_S]
        return lately[-1] if lately else None

    def drained(self, now: float, check: str, reported_at: float) -> Machine:
        """Return it as it is after a drain.

        :param reported_at: when the report was written that it is drained for. Between that and the drain the node
            may have reported that it is good again, and it does not report that twice.
        """
        drains = tuple(one for one in self.drains if now - one.time < WINDOW_S)
        return replace(self, drains=(*drains, Drain(now, check)), out=Out(reported_at, (check,)))

    def returned(self, now: float) -> Machine:
        """Return it as it is in scheduling again."""
        return replace(self, out=None, marked=None, came_back=now)


Machines = Mapping[str, Machine]
"""By key."""


def key_of(name: str, report: Report) -> str:
    """Return under which key a machine is known."""
    return report.vm_id or f"node {name}"


@dataclass(frozen=True)
class Records:
    """What is known of all machines.

    :ivar problem: what of it is lost, and why; empty where nothing is.
    """

    machines: Machines = field(default_factory=dict)
    problem: str = ""


def read(root: Root, path: str) -> Records:
    """Return what is known. A file that cannot be used is kept beside the new one."""
    text, aside = root.text(path), f"{path}.unreadable"
    try:
        found = parse(text)
    except ValueError as error:
        os.replace(root.at(path), root.at(aside))
        words = f"{path} cannot be read ({error}): earlier drains are forgotten, and the file is kept as {aside}"
        return Records({}, words)
    if found.problem:
        write_file(root.at(aside), text or "", mode=0o600)
        return replace(found, problem=f"{path}: {found.problem}; a copy of the file is {aside}")
    return found


def parse(text: str | None) -> Records:
    """Return what the file's text says; nothing is known where there is none.

    The record of each machine stands alone: one that cannot be used is named, and the others stay.

    :raises ValueError: the text as a whole cannot be used.
    """
    if text is None:
        return Records()
    try:
        held = json.loads(text)
        if held["schema"] != SCHEMA:
            raise ValueError(f"it has schema {held['schema']}, and this hpcnode knows {SCHEMA}")
        given = dict(held["machines"])
    except (LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"it is damaged: {error!r}") from None
    found, lost = {}, []
    for key, value in given.items():
        try:
            found[key] = _machine(key, value)
        except (LookupError, TypeError, AttributeError, ValueError, OverflowError):
            lost.append(key)
    return Records(found, f"the records of these machines are damaged and forgotten: {', '.join(lost)}" if lost else "")


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
            "out": Out(_time(out["since"]), tuple(out["checks"])) if out else None,
            "marked": Marked(**{**marked, "time": _time(marked["time"])}) if marked else None,
        }
    )


def _time(given: Any) -> float:
    """Return a time as it is given, if it can be compared with a clock."""
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not math.isfinite(given):
        raise ValueError(f"{str(given)[:20]} is not a time")
    return given


def write(root: Root, path: str, machines: Machines, now: float) -> None:
    """Write down what is known, if it is not written already.

    :raises OSError: it cannot be written.
    """
    kept = {key: _as_stored(one) for key, one in machines.items() if one.has_history and now - one.seen < _FORGOTTEN_S}
    text = json.dumps({"schema": SCHEMA, "machines": kept}, indent=1, sort_keys=True) + "\n"
    if (root.text(path) or "") != text.strip():
        write_file(root.at(path), text, mode=0o600)


def _as_stored(machine: Machine) -> dict[str, Any]:
    held = asdict(machine)
    del held["key"]
    return held
