# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The file and the socket between the root service that queries scheduled events and the users who wait for them."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Sequence
from dataclasses import replace

from ...machine.atomic import write_file
from ...machine.imds import ScheduledEvent
from ...machine.root import Root

FOLDER = "/run/hpcai/events"
FILE = f"{FOLDER}/events.json"
READY = f"{FOLDER}/ready"
"""A datagram socket: a user sends the id of an event that may start now."""
SCHEMA = 1
STALE_S = 20.0
"""An older file is ignored: the service writes it every 2 s, and waits at most 1.5 s for an answer."""
_SERVICE = "see 'systemctl status hpcai-events'"
_OTHER = "another machine"


class EventsUnknown(RuntimeError):
    """The events are unknown, or cannot be started; the message says why."""


def write_events(root: Root, machine: str, events: Sequence[ScheduledEvent], problem: str = "") -> None:
    """Write the events that affect this machine. Of other affected machines, only the number is written.

    :param problem: why the events are unknown; empty if they are known.
    :raises OSError: it cannot be written.
    """
    listed = [
        {
            "id": event.id,
            "kind": event.kind,
            "status": event.status,
            "not_before": event.not_before,
            "duration_s": event.duration_s,
            "other_machines": len(event.resources) - 1,
        }
        for event in events
    ]
    # The monotonic clock is never set. It restarts at a boot, but then /run is empty.
    document = {"schema": SCHEMA, "machine": machine, "written": time.monotonic(), "problem": problem, "events": listed}
    write_file(root.at(FILE), json.dumps(document) + "\n")


def read_events_file(root: Root) -> list[ScheduledEvent]:
    """Return the events that affect this machine, the next one first.

    :raises EventsUnknown: the service does not write the file, or gets no answer.
    """
    text = root.text(FILE)
    if text is None:
        raise EventsUnknown(f"{root.at(FILE)} is missing: {_SERVICE}")
    try:
        document = json.loads(text)
        if document["schema"] != SCHEMA:
            raise EventsUnknown(f"{root.at(FILE)} has schema {document['schema']}; this hpcnode supports {SCHEMA}.")
        age, problem, machine = (
            time.monotonic() - float(document["written"]),
            str(document["problem"]),
            str(document["machine"]),
        )
        events = [_event(given, machine) for given in document["events"]]
    except (ValueError, LookupError, TypeError):
        raise EventsUnknown(f"{root.at(FILE)} is invalid: {_SERVICE}") from None
    if not 0 <= age <= STALE_S:
        raise EventsUnknown(f"{root.at(FILE)} has not been updated for {age:.0f} s: {_SERVICE}")
    if problem:
        raise EventsUnknown(problem)
    return events


def send_ready(root: Root, event_id: str) -> None:
    """Tell the service that this user is ready for the event.

    :raises EventsUnknown: the service does not listen.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
        try:
            sender.sendto(event_id.encode(), root.at(READY))
        except OSError as error:
            raise EventsUnknown(f"cannot send to {root.at(READY)} ({error.strerror}): {_SERVICE}") from None


def _event(given: dict[str, object], machine: str) -> ScheduledEvent:
    others = given["other_machines"]
    not_before, duration = given["not_before"], given["duration_s"]
    if not isinstance(others, int) or not isinstance(duration, int):
        raise TypeError
    event = ScheduledEvent(str(given["id"]), str(given["kind"]), (machine,), str(given["status"]), None, duration)
    return replace(
        event,
        resources=(machine, *([_OTHER] * others)),
        not_before=float(not_before) if isinstance(not_before, (int, float)) else None,
    )
