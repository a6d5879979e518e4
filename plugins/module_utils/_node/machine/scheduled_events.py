# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What Azure is about to do to this machine, out of what the metadata service announces."""

from __future__ import annotations

import calendar
import email.utils
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PREEMPT, TERMINATE, REDEPLOY, REBOOT, FREEZE = "Preempt", "Terminate", "Redeploy", "Reboot", "Freeze"
ENDING = (PREEMPT, TERMINATE, REDEPLOY, REBOOT)
"""What ends the processes of the machine. A freeze only halts them for seconds."""
STARTED = "Started"


@dataclass(frozen=True)
class ScheduledEvent:
    """An announced event.

    :ivar resources: names of the machines that it meets.
    :ivar not_before: when it happens at the earliest, in seconds since 1970; None once it has started.
    """

    id: str
    kind: str
    resources: tuple[str, ...]
    status: str
    not_before: float | None
    duration_s: int

    @property
    def is_ending(self) -> bool:
        """Whether it ends the machine's processes."""
        return self.kind in ENDING

    def meets(self, machine: str) -> bool:
        """Whether it meets a machine. Azure's names know no case."""
        return machine.lower() in (one.lower() for one in self.resources)

    @property
    def is_for_one(self) -> bool:
        """Whether it meets one machine alone: only then may that machine say that it need not wait."""
        return len(self.resources) == 1


def events_of(document: Mapping[str, Any], machine: str) -> list[ScheduledEvent]:
    """Return the events of a document that meet a machine, the next one first."""
    found = [_event(given) for given in document.get("Events") or [] if isinstance(given, Mapping)]
    meeting = [event for event in found if event.meets(machine)]
    return sorted(meeting, key=lambda event: (event.not_before or 0.0, event.id))


def _event(given: Mapping[str, Any]) -> ScheduledEvent:
    resources, duration = given.get("Resources"), given.get("DurationInSeconds")
    return ScheduledEvent(
        id=str(given.get("EventId") or ""),
        kind=str(given.get("EventType") or ""),
        resources=tuple(str(one) for one in resources) if isinstance(resources, list) else (),
        status=str(given.get("EventStatus") or ""),
        not_before=_time(str(given.get("NotBefore") or "")),
        duration_s=duration if isinstance(duration, int) else -1,
    )


def _time(text: str) -> float | None:
    """Seconds since 1970 of a date such as ``Mon, 19 Sep 2016 18:29:47 GMT``; None where there is none."""
    found = email.utils.parsedate_tz(text)
    return float(calendar.timegm((*found[:6], 0, 0, 0)) - (found[9] or 0)) if found else None
