# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What counts as a hardware fault, and what never does."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.hardware_faults import faults_of, machine_of

from .health_results import GPU, TIME, check, document


def finding(**changes: Any) -> dict[str, Any]:
    """A failed check whose finding differs."""
    found = check()
    found["findings"][0].update(changes)
    return found


def test_failed_check_whose_action_is_to_replace_is_one() -> None:
    (fault,) = faults_of(document(check()))
    assert (fault.check, fault.code, fault.summary, fault.device, fault.time) == (
        "gpu_count",
        "NHC2009",
        "7 of 8 GPUs",
        GPU,
        TIME,
    )


def test_finding_wins_over_its_check() -> None:
    assert [fault.code for fault in faults_of(document(finding(fault="NHC2013")))] == ["NHC2013"]
    assert [fault.code for fault in faults_of(document(finding(fault="")))] == [""]
    assert faults_of(document(finding(action="reboot"))) == []
    reboot = check(action="reboot")
    reboot["findings"][0]["action"] = "replace"
    assert len(faults_of(document(reboot))) == 1


def test_check_that_failed_without_a_finding_speaks_itself() -> None:
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
def test_everything_else_is_none(harmless: dict[str, Any]) -> None:
    assert faults_of(document(harmless)) == []


def test_device_of_a_check_counts_once() -> None:
    twice = check()
    twice["findings"] *= 2
    assert len(faults_of(document(twice))) == 1


def test_readings_of_any_check_tell_which_gpu_it_is() -> None:
    readings = [
        {"name": "gpu_serial", "value": "1234", "device": GPU},
        {"name": "gpu_model", "value": "NVIDIA A100", "device": GPU},
        {"name": "gpu_serial", "value": "9", "device": "0001:00:00.0"},
        {"name": "gpu_temperature", "value": 40, "device": GPU},
    ]
    (fault,) = faults_of(document(check(), check("gpu_identity", verdict="pass", findings=[], readings=readings)))
    assert fault.facts == {"serial": "1234", "model": "NVIDIA A100"}


def test_text_of_a_node_commands_no_terminal() -> None:
    (fault,) = faults_of(document(finding(summary="7 of\n8\x1b[2J GPUs")))
    assert fault.summary == "7 of 8?[2J GPUs"


def test_host_goes_by_its_bare_name() -> None:
    assert machine_of(document(), "x").host == "LVL09PRDAPP12"
    assert machine_of(document(host=""), "x").host == ""


def test_node_without_a_name_goes_by_the_inventorys() -> None:
    assert machine_of(document(name=""), "compute000003").name == "compute000003"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"command": "boot"}, "no result of 'hpcnode health run'"),
        ({"node": None}, "no result of 'hpcnode health run'"),
        ({"schema": 2}, "has schema 2, this collection reads 1"),
        ({"time": "yesterday"}, r"is of no time \(yesterday\)"),
    ],
)
def test_what_is_no_health_result_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InventoryError, match=words):
        machine_of({**document(), **changes}, "compute-3")
