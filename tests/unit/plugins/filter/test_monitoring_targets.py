# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Targets of Prometheus: each machine under the name by which people know it, and with its identity."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.azure.plugins.filter.monitoring_targets import FilterModule, monitoring_targets


def host(name: str, *functions: str, **more: Any) -> dict[str, Any]:
    """The variables of a host."""
    return {"inventory_hostname": name, "group_names": [f"hpcai_{one}" for one in functions], **more}


CONTROLLER = host("ctl", "controller", "login", azure_private_ipv4="10.0.0.4", azure_computer_name="ctl")
NODE = host(
    "compute_3",
    "compute",
    azure_private_ipv4="10.0.0.7",
    azure_vmss="compute",
    azure_instance_id="3",
    azure_orchestration_mode="Uniform",
    azure_vm_id="3f6a0c9e-0000-4000-8000-000000000001",
    azure_vm_size="Standard_ND96isr_H100_v5",
)


def test_a_node_has_its_name_in_slurm_and_its_identity() -> None:
    controller, node = sorted(
        monitoring_targets([NODE, CONTROLLER], 9100), key=lambda one: str(one["labels"]["function"]), reverse=True
    )
    labels = {"instance": "ctl", "function": "controller", "__controller": "true"}
    assert controller == {"targets": ["10.0.0.4:9100"], "labels": labels}
    assert node["labels"] == {
        "instance": "compute-3",
        "node": "compute-3",
        "function": "compute",
        "set": "compute",
        "vm_id": "3f6a0c9e-0000-4000-8000-000000000001",
        "vm_size": "Standard_ND96isr_H100_v5",
    }


def test_only_hosts_of_the_cluster_with_a_wanted_function_are_targets() -> None:
    hosts = [NODE, CONTROLLER, host("other"), host("m", "monitor", ansible_host="fd00::1")]
    found = {one["labels"]["instance"]: one["targets"] for one in monitoring_targets(hosts, 1)}
    assert found == {"compute-3": ["10.0.0.7:1"], "ctl": ["10.0.0.4:1"], "m": ["[fd00::1]:1"]}
    assert [one["labels"]["node"] for one in monitoring_targets(hosts, 9400, ["compute"])] == ["compute-3"]


@pytest.mark.parametrize(
    ("functions", "label"),
    [
        (("compute", "login"), "compute"),
        (("compute", "monitor"), "monitor"),
        (("compute", "controller"), "controller"),
        (("login", "monitor"), "monitor"),
        (("controller", "login", "monitor"), "controller"),
    ],
    ids=lambda value: value if isinstance(value, str) else "+".join(value),
)
def test_the_disk_of_a_monitor_is_watched_whatever_else_the_machine_does(
    functions: tuple[str, ...], label: str
) -> None:
    """HpcaiMonitorDiskFull selects the functions controller and monitor; ``node`` marks compute nodes."""
    more = {name: value for name, value in NODE.items() if name.startswith("azure_")}
    (target,) = monitoring_targets([host("compute_3", *functions, **more)], 9100)
    assert target["labels"]["function"] == label
    assert ("node" in target["labels"]) is ("compute" in functions)


def test_two_machines_with_one_name_are_refused() -> None:
    with pytest.raises(AnsibleFilterError, match=r"10.0.0.4:1 and 10.0.0.9 both have the name ctl"):
        monitoring_targets([CONTROLLER, {**CONTROLLER, "azure_private_ipv4": "10.0.0.9"}], 1)


def test_the_filter_is_registered() -> None:
    assert FilterModule().filters() == {"monitoring_targets": monitoring_targets}
