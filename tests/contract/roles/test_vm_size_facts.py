# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the roles gpu, nccl and scratch do by default with the VM size that an inventory gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Evaluate = Callable[..., dict[str, dict[str, Any]]]
DESCRIBED = {"mine": {"vcpus": 2, "gpu_count": 1, "nvme_count": 2}, "Standard_Bare": {"vcpus": 2}}
HOSTS: dict[str, dict[str, Any]] = {
    "unstated": {},
    "empty": {"azure_vm_size": ""},
    "in_the_table": {"azure_vm_size": "standard_nd96ASR_v4"},
    "described": {"azure_vm_size": "Standard_MINE"},
    "described_without_disks": {"azure_vm_size": "bare"},
    "unknown": {"azure_vm_size": "Standard_X1"},
}
GPUS = {
    "unstated": True,
    "empty": False,
    "in_the_table": True,
    "described": True,
    "described_without_disks": False,
    "unknown": False,
}
DISKS = {
    "unstated": None,
    "empty": None,
    "in_the_table": 8,
    "described": 2,
    "described_without_disks": None,
    "unknown": None,
}


def evaluated(evaluate: Evaluate, role: str, variable: str, **variables: Any) -> dict[str, Any]:
    """The value of a variable on each host."""
    found = evaluate(
        f"hpcai.azure.{role}",
        {"all": {"hosts": HOSTS}},
        {"value": f"{{{{ {variable} }}}}"},
        hpcai_vm_sizes=DESCRIBED,
        **variables,
    )
    return {host: values["value"] for host, values in found.items()}


@pytest.mark.parametrize("role", ["gpu", "nccl"])
def test_a_machine_has_gpus_if_its_size_has_some_or_the_inventory_does_not_say_the_size(
    evaluate: Evaluate, role: str
) -> None:
    assert evaluated(evaluate, role, f"{role}_has_gpus") == GPUS


def test_the_number_of_disks_is_that_of_the_size(evaluate: Evaluate) -> None:
    assert evaluated(evaluate, "scratch", "scratch_nvme_count") == DISKS


def test_only_a_compute_node_with_an_unknown_size_may_have_disks(evaluate: Evaluate) -> None:
    found = evaluated(evaluate, "scratch", "scratch_nvme_count", hpcai_functions=["login"])
    assert found == {**DISKS, "unstated": 0, "empty": 0, "unknown": 0}


def test_options_of_the_scratch_come_before_the_size(evaluate: Evaluate) -> None:
    assert evaluated(evaluate, "scratch", "__scratch_count") == DISKS
    named = evaluated(evaluate, "scratch", "__scratch_count", scratch_devices=["/dev/nvme1n1"])
    assert set(named.values()) == {1}
    stated = evaluated(evaluate, "scratch", "__scratch_has_disks", scratch_expected_count=0)
    assert set(stated.values()) == {False}
