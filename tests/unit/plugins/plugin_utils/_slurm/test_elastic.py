# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Elastic sets in slurm.conf: slots, power saving for them only, fallback, and the settings of the daemon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.azure.plugins.filter.settings import elastic_settings
from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import ConfigError
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.elastic import machines_of, split_names
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


def slurm_conf(release: str = "24.11", hosts: Any = HOSTS, layers: Any = (), **elastic: Any) -> str:
    """The text of slurm.conf."""
    return files_of(hosts, FileOptions(release=release, elastic=elastic, layers=layers))["slurm.conf"]


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
    # Slurm never suspends a node without a request: it would also suspend drained ones.
    assert lines(text, "SuspendTime=") == ["SuspendTime=31536000"]
    assert lines(text, "ResumeTimeout=") == ["ResumeTimeout=4800"]
    assert lines(text, "ResumeProgram=") == ["ResumeProgram=/usr/libexec/hpcai/elastic-resume"]


def test_a_job_may_wait_for_the_boot_as_long_as_slurm_does() -> None:
    # The layer of the job hooks has a limit for the scripts on nodes, which is shorter.
    layers: list[Mapping[str, Any]] = [{}, {"PrologEpilogTimeout": 140}]
    text = slurm_conf(layers=layers, gpu={**GPU, "boot_s": 3000})
    assert lines(text, "PrologEpilogTimeout=") == ["PrologEpilogTimeout=4800"]
    assert lines(text, "PrologSlurmctld=") == ["PrologSlurmctld=/usr/libexec/hpcai/elastic-prolog"]
    longer: list[Mapping[str, Any]] = [{}, {"PrologEpilogTimeout": 7220}]
    assert lines(slurm_conf(layers=longer, gpu=GPU), "PrologEpilogTimeout=") == ["PrologEpilogTimeout=7220"]
    own = FileOptions(release="24.11", elastic={"gpu": GPU}, layers=layers, conf={"PrologEpilogTimeout": 300})
    assert lines(files_of(HOSTS, own)["slurm.conf"], "PrologEpilogTimeout=") == ["PrologEpilogTimeout=300"]
    assert lines(slurm_conf(layers=layers), "PrologEpilogTimeout=") == ["PrologEpilogTimeout=140"]


def test_jobs_can_prefer_or_require_spot_or_regular_nodes() -> None:
    text = slurm_conf(gpu={**GPU, "fallback": ["spot"]}, spot={**GPU, "max": 2, "spot": True})
    features = {
        line.split()[0]: line.partition("Feature=")[2].split()[0].split(",") for line in lines(text, "NodeName=")
    }
    assert features["NodeName=gpu-[0-3]"][-1] == "regular"
    assert features["NodeName=spot-[0-1]"][-1] == "spot"
    # Nobody has said whether the instances of a static set are spot.
    assert not {"spot", "regular"} & set(features["NodeName=old-[5-6]"])


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
    assert hosts["topology.conf"].splitlines() == ["SwitchName=old Nodes=old-[5-6]", "SwitchName=gpu Nodes=gpu-[0-3]"]


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
    budget = {"day": 100, "end_jobs": True}
    made = elastic_settings({"sets": {"gpu": {**GPU, "fallback": ["b"], "min": 1}}, "budget": budget})
    assert made["budget"] == budget
    assert made["schema"] == 1
    assert made["sets"] == {"gpu": {"id": ID, "vm_size": SIZE, "max": 4, "min": 1}}


@pytest.mark.parametrize(
    "wrong", [{"sets": {"gpu": {**GPU, "id": "gpu"}}}, {"sets": {"gpu": GPU}, "budget": {"hour": 1}}, {"sets": 5}]
)
def test_invalid_settings_of_the_daemon_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(AnsibleFilterError):
        elastic_settings(wrong)


def test_names_are_split_into_elastic_and_other_nodes() -> None:
    assert split_names("compute-3,gpu-[0-1]", {"gpu": GPU}) == {"elastic": ["gpu-0", "gpu-1"], "others": ["compute-3"]}
    assert split_names(["gpu-7", "gpu"], {"gpu": GPU}) == {"elastic": ["gpu-7"], "others": ["gpu"]}
    assert split_names(None, {"gpu": GPU}) == {"elastic": [], "others": []}


def test_machines_are_found_by_node_vm_id_and_resource_id() -> None:
    slots = [
        {"slot": "gpu-0", "vm_id": "11111111-2222-4333-8444-555555555555", "instance": "17"},
        {"slot": "gpu-1"},
        {"slot": "gpu-2", "vm_id": "22222222-2222-4333-8444-555555555555", "instance": "18"},
    ]
    status = {"sets": {"gpu": {"slots": slots}}}
    for name in ("gpu-0", "11111111-2222-4333-8444-555555555555", f"{ID.upper()}/virtualMachines/17"):
        assert machines_of(status, [name, "gpu-1"], {"gpu": GPU}) == [{"node": "gpu-0", "vm_id": slots[0]["vm_id"]}]
