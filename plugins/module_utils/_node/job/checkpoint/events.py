# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The scheduled events of this machine, for a watcher. Its name is asked for once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Callable

from ...machine.imds import ENDPOINT, ImdsError, read_compute, read_events, start_event
from ...machine.scheduled_events import ScheduledEvent, events_of

_LIMIT_S = 1.5
"""Less than the time between two looks."""


def events_of_this_machine(
    endpoint: str = ENDPOINT, headers: Mapping[str, str] | None = None
) -> Callable[[], Sequence[ScheduledEvent]]:
    """Return what asks for the events that name this machine; others of its scale set are left out."""
    names: list[str] = []

    def ask() -> Sequence[ScheduledEvent]:
        if not names:
            name = read_compute(_LIMIT_S, endpoint, headers).get("name")
            if not name:
                raise ImdsError("the metadata service does not say what this machine is called.")
            names.append(str(name))
        return events_of(read_events(_LIMIT_S, endpoint, headers), names[0])

    return ask


def start(event_id: str, endpoint: str = ENDPOINT, headers: Mapping[str, str] | None = None) -> None:
    """Say that an event need not wait.

    :raises ImdsError: the service does not take it.
    """
    start_event(event_id, _LIMIT_S, endpoint, headers)
