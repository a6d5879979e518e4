# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hardware faults, and the record of physical hosts with faults."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.hardware_faults import (
    Fault,
    Machine,
    MachineFaults,
    faults_of,
    machine_of,
    read_record,
    record_text,
    suspects,
    update_record,
    with_first_time,
)

from .health_results import GPU, TIME, check, document


def finding(**changes: Any) -> dict[str, Any]:
    """A failed check with changes in its finding."""
    found = check()
    found["findings"][0].update(changes)
    return found


def test_a_failed_check_with_action_replace_is_a_fault() -> None:
    (fault,) = faults_of(document(check()))
    assert (fault.check, fault.code, fault.summary, fault.device, fault.time) == (
        "gpu_count",
        "NHC2009",
        "7 of 8 GPUs",
        GPU,
        TIME,
    )


def test_the_finding_overrides_its_check() -> None:
    assert [fault.code for fault in faults_of(document(finding(fault="NHC2013")))] == ["NHC2013"]
    assert [fault.code for fault in faults_of(document(finding(fault="")))] == [""]
    assert faults_of(document(finding(action="reboot"))) == []
    reboot = check(action="reboot")
    reboot["findings"][0]["action"] = "replace"
    assert len(faults_of(document(reboot))) == 1


def test_a_failed_check_without_findings_is_a_fault_itself() -> None:
    (fault,) = faults_of(document(check(findings=[])))
    assert (fault.code, fault.summary, fault.device) == ("NHC2009", "7 of 8 GPUs", "")


@pytest.mark.parametrize(
    "harmless",
    [
        check(verdict="warn"),
        check(verdict="unknown"),
        check(verdict="pass", findings=[]),
        check(action="reboot"),
        check(action="reset_gpu"),
        check(action="observe"),
        finding(cause="user"),
        finding(verdict="warn"),
        finding(verdict="unknown"),
        check(findings=[], cause="user"),
    ],
)
def test_other_verdicts_actions_and_causes_are_not_faults(harmless: dict[str, Any]) -> None:
    assert faults_of(document(harmless)) == []


def test_a_device_is_listed_once_per_check() -> None:
    twice = check()
    twice["findings"] *= 2
    assert len(faults_of(document(twice))) == 1


def test_the_gpus_serial_and_model_come_from_any_checks_readings() -> None:
    readings = [
        {"name": "gpu_serial", "value": "1234", "device": GPU},
        {"name": "gpu_model", "value": "NVIDIA A100", "device": GPU},
        {"name": "gpu_serial", "value": "9", "device": "0001:00:00.0"},
        {"name": "gpu_temperature", "value": 40, "device": GPU},
    ]
    (fault,) = faults_of(document(check(), check("gpu_identity", verdict="pass", findings=[], readings=readings)))
    assert fault.facts == {"serial": "1234", "model": "NVIDIA A100"}


def test_control_characters_in_a_nodes_text_are_replaced() -> None:
    (fault,) = faults_of(document(finding(summary="7 of\n8\x1b[2J GPUs")))
    assert fault.summary == "7 of 8?[2J GPUs"


def test_the_physical_host_has_its_short_name_in_capitals() -> None:
    assert machine_of(document(), "x").host == "LVL09PRDAPP12"
    assert machine_of(document(host=""), "x").host == ""


def test_a_node_without_a_name_gets_that_of_the_inventory() -> None:
    assert machine_of(document(name=""), "compute000003").name == "compute000003"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"command": "boot"}, "not a result of 'hpcnode health run'"),
        ({"node": None}, "not a result of 'hpcnode health run'"),
        ({"schema": 2}, "has schema 2, this collection reads 1"),
        ({"time": "yesterday"}, r"has an invalid time \(yesterday\)"),
    ],
)
def test_refuses_a_document_that_is_not_a_health_result(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InventoryError, match=words):
        machine_of({**document(), **changes}, "compute-3")


MONDAY, TUESDAY, MAY = "2026-11-23T08:00:00Z", "2026-11-24T08:00:00Z", "2027-05-01T08:00:00Z"
BROKEN = Fault("gpu_count", "NHC2009", "7 of 8 GPUs", "0003:00:00.0", MONDAY)


def machine_with(vm_id: str = "vm-3", host: str = "HOSTA", time: str = MONDAY, *faults: Fault) -> MachineFaults:
    return MachineFaults(Machine(f"node of {vm_id}", vm_id, host, time), faults)


BAD = machine_with("vm-3", "HOSTA", MONDAY, BROKEN)
RECORD = update_record({}, [BAD], 90)


def test_a_fault_is_recorded_with_its_host() -> None:
    (fault,) = RECORD["HOSTA"]
    assert (fault["code"], fault["vm_id"], fault["first"], fault["last"]) == ("NHC2009", "vm-3", MONDAY, MONDAY)


def test_a_lasting_fault_keeps_its_first_time() -> None:
    again = update_record(RECORD, [machine_with("vm-3", "HOSTA", TUESDAY, replace(BROKEN, time=TUESDAY))], 90)
    assert [(fault["first"], fault["last"]) for fault in again["HOSTA"]] == [(MONDAY, TUESDAY)]
    assert with_first_time(again, machine_with(time=TUESDAY).machine, replace(BROKEN, time=TUESDAY)).time == MONDAY


def test_the_same_fault_on_another_machine_has_its_own_first_time() -> None:
    assert with_first_time(RECORD, machine_with("vm-9").machine, replace(BROKEN, time=TUESDAY)).time == TUESDAY


def test_warns_of_a_machine_that_starts_on_a_recorded_host() -> None:
    (suspect,) = suspects(RECORD, [machine_with("vm-9", time=TUESDAY), machine_with("vm-8", "HOSTB", TUESDAY)])
    assert suspect["node"] == "node of vm-9"
    assert suspect["warning"] == (
        f"node of vm-9 came up on the physical host HOSTA, which had a hardware fault on {MONDAY}: gpu_count: "
        "7 of 8 GPUs. Watch it, or replace it."
    )


def test_warns_of_a_machine_that_is_still_on_a_recorded_host() -> None:
    (suspect,) = suspects(RECORD, [machine_with("VM-3", time=TUESDAY)])
    assert "is still on the physical host HOSTA" in suspect["warning"]


def test_does_not_warn_of_a_machine_that_moved_to_another_host() -> None:
    assert suspects(RECORD, [machine_with("vm-3", "HOSTB", TUESDAY)]) == []


def test_does_not_warn_of_a_machine_that_has_the_fault_now() -> None:
    assert suspects(RECORD, [BAD]) == []


def test_ignores_machines_whose_host_is_unknown() -> None:
    record = update_record({}, [machine_with("vm-3", "", MONDAY, BROKEN)], 90)
    assert record == {}
    assert suspects({"": RECORD["HOSTA"]}, [machine_with("vm-9", "HOSTB")]) == []


def test_a_host_is_removed_from_the_record_after_its_days() -> None:
    later = [machine_with("vm-9", "HOSTB", MAY)]
    assert update_record(RECORD, later, 90) == {}
    assert update_record(RECORD, later, 365) == RECORD


def test_a_run_without_machines_keeps_the_record() -> None:
    assert update_record(RECORD, [], 90) == RECORD


def test_the_record_is_read_as_it_was_written() -> None:
    assert read_record(record_text(RECORD), "hosts.json") == RECORD
    assert read_record(None, "hosts.json") == {}


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema": 1}', '{"schema": 1, "hosts": {"A": [{}]}}', "1"])
def test_a_broken_record_is_an_error(text: str) -> None:
    with pytest.raises(InventoryError, match=r"hosts\.json is not a valid record of physical hosts"):
        read_record(text, "hosts.json")


def test_a_record_of_a_newer_schema_is_refused() -> None:
    with pytest.raises(InventoryError, match="has schema 2"):
        read_record(json.dumps({"schema": 2, "hosts": {}}), "hosts.json")
