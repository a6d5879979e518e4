# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Elastic sets in slurm.conf: slots, power saving for them only, fallback, and the settings of the daemon."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.azure.plugins.filter.settings import elastic_settings
from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import ConfigError
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.files import FileOptions, files_of

GROUP = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/hpc"
ID = f"{GROUP}/providers/Microsoft.Compute/virtualMachineScaleSets/gpu"
SIZE = "Standard_ND96asr_v4"
GPU = {"id": ID, "vm_size": SIZE, "max": 4}
HOSTS = [
    {
        "inventory_hostname": f"n{number}",
        "azure_vmss": "old",
        "azure_instance_id": str(number),
        "azure_vm_size": SIZE,
        "azure_private_ipv4": f"10.0.0.{number}",
    }
    for number in (5, 6)
]


def slurm_conf(release: str = "24.11", hosts: Any = HOSTS, **elastic: Any) -> str:
    """The text of slurm.conf."""
    return files_of(hosts, FileOptions(release=release, elastic=elastic))["slurm.conf"]


def lines(text: str, start: str) -> list[str]:
    """The lines that start so."""
    return [line for line in text.splitlines() if line.startswith(start)]


def test_slots_are_cloud_nodes_and_no_instance_changes_the_file() -> None:
    text = slurm_conf(gpu=GPU)
    [slots] = lines(text, "NodeName=gpu")
    assert slots.startswith("NodeName=gpu-[0-3] NodeAddr=127.0.0.1 ")
    assert "State=CLOUD" in slots
    [static] = lines(text, "NodeName=old")
    assert "State=UNKNOWN" in static
    assert lines(text, "PartitionName=gpu")[0].split()[1] == "Nodes=gpu-[0-3]"


@pytest.mark.parametrize(("release", "states"), [("22.05", []), ("24.11", ["DOWN,DRAIN,FAIL,MAINTENANCE,RESERVED"])])
def test_static_nodes_are_excluded_from_power_saving_on_every_release(release: str, states: list[str]) -> None:
    text = slurm_conf(release, gpu={**GPU, "boot_s": 3000})
    assert lines(text, "SuspendExcNodes=") == ["SuspendExcNodes=old-[5-6]"]
    assert [line.partition("=")[2] for line in lines(text, "SuspendExcStates=")] == states
    # Slurm never suspends a node by itself: it would also suspend drained ones.
    assert lines(text, "SuspendTime=") == ["SuspendTime=31536000"]
    assert lines(text, "ResumeTimeout=") == ["ResumeTimeout=4800"]
    assert lines(text, "ResumeProgram=") == ["ResumeProgram=/usr/libexec/hpcai/elastic-resume"]


def test_without_elastic_sets_there_is_no_power_saving() -> None:
    text = slurm_conf()
    assert not [line for line in text.splitlines() if line.startswith(("Suspend", "Resume"))]


def test_a_fallback_set_is_in_the_partition_and_comes_second() -> None:
    text = slurm_conf(gpu={**GPU, "fallback": ["spot", "old"]}, spot={**GPU, "max": 2})
    assert lines(text, "PartitionName=gpu")[0].split()[1] == "Nodes=gpu-[0-3],spot-[0-1],old-[5-6]"
    assert "Weight=10" in lines(text, "NodeName=spot")[0]
    assert "Weight=20" in lines(text, "NodeName=old")[0]
    assert "Weight" not in lines(text, "NodeName=gpu")[0]
    # Each set has its own switch, so no job gets nodes of two sets.
    hosts = files_of(HOSTS, FileOptions(release="24.11", elastic={"gpu": {**GPU, "fallback": ["old"]}}))
    assert hosts["topology.conf"].splitlines() == ["SwitchName=gpu Nodes=gpu-[0-3]", "SwitchName=old Nodes=old-[5-6]"]


@pytest.mark.parametrize(
    ("elastic", "words"),
    [
        ({"gpu": {**GPU, "fallback": ["gone"]}}, "gone: no scale set has this name"),
        ({"gpu": {**GPU, "idle": 5}}, "unknown keys idle"),
        ({"gpu": {"id": ID, "max": 3}}, "lacks vm_size"),
        ({"old": GPU}, "hpcai_role=elastic"),
    ],
)
def test_invalid_sets_are_refused(elastic: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        slurm_conf(**elastic)


def test_the_daemon_gets_checked_settings_without_what_only_slurm_needs() -> None:
    made = elastic_settings({"sets": {"gpu": {**GPU, "fallback": ["b"], "min": 1}}, "budget": {"day": 100}})
    assert made["schema"] == 1
    assert made["sets"] == {"gpu": {"id": ID, "max": 4, "min": 1}}


@pytest.mark.parametrize(
    "wrong", [{"sets": {"gpu": {**GPU, "id": "gpu"}}}, {"sets": {"gpu": GPU}, "budget": {"hour": 1}}, {"sets": 5}]
)
def test_invalid_settings_of_the_daemon_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(AnsibleFilterError):
        elastic_settings(wrong)
