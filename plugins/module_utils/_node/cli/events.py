# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode events: this machine's scheduled events, for users who cannot reach the metadata service."""

from __future__ import annotations

import argparse
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict

from ..machine.config import ConfigError
from ..machine.imds import ScheduledEvent
from ..machine.root import Root
from ..machine.run import run
from .command import GOOD, UNKNOWN, Action, Answer, Command, UsageError, no_arguments

_DESCRIPTION = """\
Only root can reach Azure's metadata service. hpcai-events.service queries it for the scheduled events of this machine,
such as a preemption or a redeployment, and writes them to /run/hpcai/events/events.json, which every user may read.
'hpcnode checkpoint watch' reads that file.
"""
_SHOW = """\
Shows the scheduled events of this machine.

Exit status: 0 the events are known, 2 they are not known.
"""
_SERVE = """\
Queries the metadata service every 2 s, until SIGTERM. hpcai-events.service calls it. If all jobs on this node belong to
one user, that user can let an event start early (hpcnode checkpoint watch --acknowledge); serve then starts it. Before
an eviction, serve drains a node of an elastic set, and starts the eviction when no job is left.
"""
_EVERY_S = 2.0


def _execute(args: argparse.Namespace) -> Answer:
    root = Root(args.root)
    if args.action == "show":
        return _show(root)
    if not root.is_this_machine:
        raise UsageError("events serve works on the running machine only: leave out --root")
    return _serve(root)


def _show(root: Root) -> Answer:
    from ..job.events.exchange import EventsUnknown, read_events_file

    try:
        events = read_events_file(root)
    except EventsUnknown as error:
        return Answer(UNKNOWN, f"the scheduled events are not known: {error}", {"events": None, "problem": str(error)})
    lines = [f"{event.kind}, {event.status}, not before {event.not_before or 'now'} ({event.id})" for event in events]
    data = {"events": [asdict(event) for event in events], "problem": ""}
    return Answer(GOOD, "\n".join(lines) or "no event is scheduled for this machine", data)


def _serve(root: Root) -> Answer:
    from ..elastic.eviction import Evictions
    from ..job.events.service import Service

    evictions = Evictions(root, run)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_given: ended.set())

    def notice(events: Sequence[ScheduledEvent]) -> str:
        return evictions.notice(events, time.time()) or service.start_unused(evictions.drained)

    service = Service(root, notice=notice)
    try:
        service.serve(_EVERY_S, ended.is_set)
    except OSError as error:
        raise ConfigError(f"{error.filename or 'the socket'}: {error.strerror}: run as root") from error
    return Answer(GOOD, "")


COMMAND = Command(
    "events",
    "scheduled events of this machine",
    _DESCRIPTION,
    no_arguments,
    _execute,
    actions=(
        Action("show", "show the events", _SHOW),
        Action("serve", "query the events for all users, as a service", _SERVE),
    ),
    default="show",
)
