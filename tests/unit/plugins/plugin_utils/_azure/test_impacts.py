# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The impact reports for Azure."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.hardware_faults import Fault, Machine
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.impacts import (
    CATEGORIES,
    Impact,
    category_of,
    impacts_of,
)
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.targets import Target

from .health_results import GPU, TIME

AZURE_ID = "/subscriptions/s1/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/c/virtualMachines/3"
TARGET = Target(AZURE_ID, "6F0C2A6E-3A0E-4F6C-9A1B-2F1F0A3B4C5D")
MACHINE = Machine("compute-3", TARGET.vm_id, "GGBB90904476", TIME)
MISSING = Fault("gpu_count", "NHC2009", "7 of 8 GPUs", GPU, TIME, {"serial": "12345", "model": "NVIDIA A100"})


def one(*faults: Fault, machine: Machine = MACHINE, target: Target = TARGET) -> Impact:
    """The only report of these faults."""
    (impact,) = impacts_of(target, machine, faults)
    return impact


def test_the_report_has_the_fields_that_azure_requires() -> None:
    assert one(MISSING).body == {
        "properties": {
            "startDateTime": TIME,
            "impactedResourceId": AZURE_ID,
            "impactCategory": "Resource.Hpc.Unhealthy.HpcMissingGpu",
            "impactDescription": "gpu_count: 7 of 8 GPUs [NHC2009]",
            "additionalProperties": {
                "PhysicalHostName": "GGBB90904476",
                "VmUniqueId": TARGET.vm_id,
                "Manufacturer": "Nvidia",
                "SerialNumber": "12345",
                "ModelNumber": "NVIDIA A100",
                "Location": GPU,
            },
        }
    }
    assert one(MISSING).lacks == ""


def test_unknown_fields_are_omitted() -> None:
    more = one(replace(MISSING, facts={})).body["properties"]["additionalProperties"]
    assert set(more) == {"PhysicalHostName", "VmUniqueId", "Location"}


@pytest.mark.parametrize(
    ("check", "code", "category"),
    [
        ("ib_ports", "NHC2004", "IBPortDown"),
        ("gpu_xid", "NHC2013", "XID79FallenOffBus"),
        ("gpu_xid", "NHC2001", "GpuXIDError"),
        ("gpu_xid", "", "GpuXIDError"),
        ("nvme_count", "NHC2023", "HpcGenericFailure"),
        ("cpu_stream", "NHC2001", "HpcGenericFailure"),
        ("nvme_count", "", "HpcGenericFailure"),
    ],
)
def test_the_category_follows_the_fault_code(check: str, code: str, category: str) -> None:
    assert category_of(Fault(check, code, "x", "", TIME)) == f"Resource.Hpc.Unhealthy.{category}"


def test_every_known_fault_code_has_a_category() -> None:
    assert sorted(CATEGORIES) == [f"NHC{number}" for number in range(2001, 2023)]


def test_the_same_fault_has_the_same_report_name() -> None:
    later = replace(MISSING, time="2026-11-23T08:00:00Z", summary="6 of 8 GPUs")
    assert one(MISSING).name == one(later).name


def test_another_fault_machine_host_or_gpu_has_another_name() -> None:
    names = [
        one(MISSING).name,
        one(replace(MISSING, code="NHC2013")).name,
        one(replace(MISSING, device="0004:00:00.0")).name,
        one(MISSING, machine=replace(MACHINE, host="GGBB90904477")).name,
        one(MISSING, target=replace(TARGET, vm_id="6f0c2a6e-3a0e-4f6c-9a1b-2f1f0a3b4c5e")).name,
    ]
    assert len(set(names)) == len(names)


def test_the_report_name_matches_azures_pattern() -> None:
    assert re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9-:]*[a-zA-Z0-9]{3,120}", one(MISSING).name)


def test_each_gpu_has_a_report_and_other_faults_share_one() -> None:
    gpus = impacts_of(TARGET, MACHINE, [MISSING, replace(MISSING, device="0004:00:00.0")])
    assert len({impact.name for impact in gpus}) == 2
    ports = [Fault("ib_ports", "NHC2004", f"port {n} is down", f"mlx5_ib{n}", TIME) for n in (0, 1)]
    (both,) = impacts_of(TARGET, MACHINE, ports)
    words = both.body["properties"]["impactDescription"]
    assert words == "ib_ports: port 0 is down [NHC2004]; ib_ports: port 1 is down [NHC2004]"
    assert "Location" not in both.body["properties"]["additionalProperties"]


@pytest.mark.parametrize("host", ["", "not known", "host_1"])
def test_a_report_without_a_physical_host_is_incomplete(host: str) -> None:
    assert "physical host is unknown" in one(MISSING, machine=replace(MACHINE, host=host)).lacks


def test_a_long_description_is_shortened() -> None:
    assert len(one(replace(MISSING, summary="x" * 5000)).body["properties"]["impactDescription"]) == 1000


def test_a_machine_without_faults_has_no_report() -> None:
    assert impacts_of(TARGET, MACHINE, []) == []


def test_a_prepared_report_contains_the_request_to_send() -> None:
    prepared = one(MISSING).prepared()
    path = "/subscriptions/s1/providers/Microsoft.Impact/workloadImpacts"
    assert prepared["request"] == f"PUT {path}/{prepared['name']}?api-version=2025-01-01-preview"
