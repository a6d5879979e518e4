# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The same bad host coming back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.hardware_faults import Fault, Machine
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.physical_hosts import (
    Seen,
    as_text,
    dated,
    read,
    suspects,
    updated,
)

MONDAY, TUESDAY, MAY = "2026-11-23T08:00:00Z", "2026-11-24T08:00:00Z", "2027-05-01T08:00:00Z"
BROKEN = Fault("gpu_count", "NHC2009", "7 of 8 GPUs", "0003:00:00.0", MONDAY)


def seen(vm_id: str = "vm-3", host: str = "HOSTA", time: str = MONDAY, *faults: Fault) -> Seen:
    return Seen(Machine(f"node of {vm_id}", vm_id, host, time), faults)


BAD = seen("vm-3", "HOSTA", MONDAY, BROKEN)
RECORD = updated({}, [BAD], 90)


def test_fault_is_written_down_with_its_host() -> None:
    (fault,) = RECORD["HOSTA"]
    assert (fault["code"], fault["vm_id"], fault["first"], fault["last"]) == ("NHC2009", "vm-3", MONDAY, MONDAY)


def test_fault_that_lasts_keeps_its_first_time() -> None:
    again = updated(RECORD, [seen("vm-3", "HOSTA", TUESDAY, replace(BROKEN, time=TUESDAY))], 90)
    assert [(fault["first"], fault["last"]) for fault in again["HOSTA"]] == [(MONDAY, TUESDAY)]
    assert dated(again, seen(time=TUESDAY).machine, replace(BROKEN, time=TUESDAY)).time == MONDAY


def test_same_fault_of_another_machine_begins_anew() -> None:
    assert dated(RECORD, seen("vm-9").machine, replace(BROKEN, time=TUESDAY)).time == TUESDAY


def test_machine_that_comes_up_on_such_a_host_is_named() -> None:
    (suspect,) = suspects(RECORD, [seen("vm-9", time=TUESDAY), seen("vm-8", "HOSTB", TUESDAY)])
    assert suspect["node"] == "node of vm-9"
    assert suspect["warning"] == (
        f"node of vm-9 came up on the physical host HOSTA, which had a hardware fault on {MONDAY}: gpu_count: "
        "7 of 8 GPUs. Watch it, or replace it."
    )


def test_machine_that_stayed_there_is_named_too() -> None:
    (suspect,) = suspects(RECORD, [seen("VM-3", time=TUESDAY)])
    assert "is still on the physical host HOSTA" in suspect["warning"]


def test_machine_that_moved_away_is_not() -> None:
    assert suspects(RECORD, [seen("vm-3", "HOSTB", TUESDAY)]) == []


def test_machine_that_has_the_fault_now_needs_no_warning() -> None:
    assert suspects(RECORD, [BAD]) == []


def test_machine_whose_host_is_not_known_is_neither_written_down_nor_named() -> None:
    record = updated({}, [seen("vm-3", "", MONDAY, BROKEN)], 90)
    assert record == {}
    assert suspects({"": RECORD["HOSTA"]}, [seen("vm-9", "HOSTB")]) == []


def test_host_is_forgotten_after_its_days() -> None:
    later = [seen("vm-9", "HOSTB", MAY)]
    assert updated(RECORD, later, 90) == {}
    assert updated(RECORD, later, 365) == RECORD


def test_record_outlives_a_run_that_saw_nobody() -> None:
    assert updated(RECORD, [], 90) == RECORD


def test_record_is_read_as_it_was_written() -> None:
    assert read(as_text(RECORD), "hosts.json") == RECORD
    assert read(None, "hosts.json") == {}


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema": 1}', '{"schema": 1, "hosts": {"A": [{}]}}', "1"])
def test_broken_record_is_not_begun_anew(text: str) -> None:
    with pytest.raises(InventoryError, match=r"hosts\.json is no record of physical hosts"):
        read(text, "hosts.json")


def test_newer_record_is_refused() -> None:
    with pytest.raises(InventoryError, match="has schema 2"):
        read(json.dumps({"schema": 2, "hosts": {}}), "hosts.json")
