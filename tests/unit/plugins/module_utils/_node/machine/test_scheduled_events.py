# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Scheduled events: which meet this machine, and what is posted to let one start."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from stand_ins.http_service import Service

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.imds import ImdsError, read_events, start_event
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.scheduled_events import events_of

DOCUMENT = {
    "DocumentIncarnation": 4,
    "Events": [
        {
            "EventId": "A",
            "EventType": "Reboot",
            "ResourceType": "VirtualMachine",
            "Resources": ["set_4", "set_5"],
            "EventStatus": "Scheduled",
            "NotBefore": "Mon, 19 Sep 2016 18:29:47 GMT",
            "Description": "",
            "EventSource": "Platform",
            "DurationInSeconds": -1,
        },
        {"EventId": "B", "EventType": "Preempt", "Resources": ["SET_4"], "EventStatus": "Started", "NotBefore": ""},
        {"EventId": "C", "EventType": "Terminate", "Resources": ["set_40"], "EventStatus": "Scheduled"},
        {"EventId": "D", "EventType": "Freeze", "Resources": ["set_4"], "EventStatus": "Scheduled"},
    ],
}


@pytest.fixture
def service() -> Iterator[Service]:
    """A metadata service with events."""
    made = Service((200, {}, json.dumps(DOCUMENT).encode()))
    yield made
    made.stop()


def test_asks_as_azure_wants(service: Service) -> None:
    assert read_events(endpoint=service.endpoint) == DOCUMENT
    path, headers = service.requests[0]
    assert path == "/metadata/scheduledevents?api-version=2020-07-01"
    assert headers["metadata"] == "true"


def test_what_answers_without_events_is_not_the_service() -> None:
    service = Service((200, {}, b'{"vmSize": "x"}'))
    with pytest.raises(ImdsError, match="no Events"):
        read_events(endpoint=service.endpoint)
    service.stop()


def test_events_of_others_are_left_out() -> None:
    found = events_of(DOCUMENT, "set_4")
    assert [event.id for event in found] == ["B", "D", "A"]
    assert [event.is_ending for event in found] == [True, False, True]
    assert [event.is_for_one for event in found] == [True, True, False]
    assert found[2].not_before == 1474309787.0
    assert found[0].not_before is None
    assert events_of(DOCUMENT, "set") == []


def test_what_makes_no_sense_is_no_event_of_ours() -> None:
    odd = {"Events": [None, {"EventId": 3, "Resources": "set_4"}, {"Resources": ["set_4"], "NotBefore": "soon"}]}
    assert [event.not_before for event in events_of(odd, "set_4")] == [None]


def test_posts_the_start_of_one_event(service: Service) -> None:
    start_event("B", endpoint=service.endpoint)
    assert json.loads(service.posted[0]) == {"StartRequests": [{"EventId": "B"}]}
    assert service.requests[0][1]["metadata"] == "true"


def test_a_start_that_is_refused_is_told() -> None:
    service = Service((400, {}, b""))
    with pytest.raises(ImdsError, match="HTTP status 400"):
        start_event("B", endpoint=service.endpoint)
    service.stop()
