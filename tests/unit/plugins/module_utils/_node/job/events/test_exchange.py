# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file in which root's service reports scheduled events to users, and when it is ignored."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.events import exchange
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.events.exchange import (
    FILE,
    STALE_S,
    EventsUnknown,
    read_events_file,
    send_ready,
    write_events,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.imds import ScheduledEvent
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

REBOOT = ScheduledEvent("A", "Reboot", ("set_4", "set_5", "set_6"), "Scheduled", 1474309787.0, -1)
PREEMPT = ScheduledEvent("B", "Preempt", ("set_4",), "Started", None, 30)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """A machine."""
    return Root(str(tmp_path))


def test_users_read_this_machines_events_without_names_of_others(root: Root) -> None:
    write_events(root, "set_4", [PREEMPT, REBOOT])
    found = read_events_file(root)
    assert [event.id for event in found] == ["B", "A"]
    assert dataclasses.replace(found[1], resources=REBOOT.resources) == REBOOT
    assert [event.is_for_one for event in found] == [True, False]
    assert found[0].meets("set_4")
    text = Path(root.at(FILE)).read_text(encoding="utf-8")
    assert "set_5" not in text
    assert Path(root.at(FILE)).stat().st_mode & 0o777 == 0o644


def test_a_missing_or_outdated_file_is_an_error(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EventsUnknown, match=r"events.json is missing: see 'systemctl status hpcai-events'"):
        read_events_file(root)
    write_events(root, "set_4", [])
    assert read_events_file(root) == []
    began = time.monotonic()
    monkeypatch.setattr(exchange.time, "monotonic", lambda: began + STALE_S + 1)
    with pytest.raises(EventsUnknown, match=r"has not been updated for 2\d s"):
        read_events_file(root)
    # As after a reboot.
    monkeypatch.setattr(exchange.time, "monotonic", lambda: began - 1000)
    with pytest.raises(EventsUnknown, match="has not been updated"):
        read_events_file(root)


def test_a_silent_metadata_service_is_reported(root: Root) -> None:
    write_events(root, "set_4", [], "no route")
    with pytest.raises(EventsUnknown, match="no route"):
        read_events_file(root)


@pytest.mark.parametrize(
    "change",
    [{"schema": 2}, {"written": "x"}, {"events": [{}]}, {"events": None}, {"events": [{"other_machines": "2"}]}],
)
def test_a_malformed_file_is_an_error(root: Root, change: dict[str, object]) -> None:
    write_events(root, "set_4", [])
    path = Path(root.at(FILE))
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(EventsUnknown):
        read_events_file(root)
    path.write_text("[]")
    with pytest.raises(EventsUnknown):
        read_events_file(root)


def test_sending_readiness_without_the_service_is_an_error(root: Root) -> None:
    with pytest.raises(EventsUnknown, match="cannot send to"):
        send_ready(root, "A")
