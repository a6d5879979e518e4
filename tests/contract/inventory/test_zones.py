# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Scale sets in several zones: a partition and a switch each, from the inventory to slurm.conf."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.cluster import spare_names
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.files import FileOptions, files_of

from .clusters import COMPUTE, TAGS
from .reading import Source, facts, members


@pytest.fixture
def source(simulate: Callable[..., Source]) -> Source:
    """A cluster with one scale set in each of three zones, one of them with another VM size."""
    sizes = {"1": "Standard_ND96asr_v4", "2": "Standard_ND96asr_v4", "3": "Standard_ND96isr_H100_v5"}
    sets = [
        {"name": f"gpu{zone}", "capacity": 2, "instance_ids": [0, 1], "zones": [zone], "vm_size": size, "tags": COMPUTE}
        for zone, size in sizes.items()
    ]
    machine = {"name": "ctl", "tags": {**TAGS, "hpcai_role": "controller"}, "zone": "1"}
    return simulate({"virtual_machines": [machine], "scale_sets": sets})


def test_each_zone_is_a_group_of_the_inventory(source: Source) -> None:
    inventory = source.read(include_vms="tagged")

    for zone in "123":
        nodes = {host for host in members(inventory, "hpcai_compute") if host.startswith(f"gpu{zone}")}
        assert len(nodes) == 2
        assert nodes <= members(inventory, f"azure_zone_southcentralus_{zone}")
        assert {facts(inventory, host)["azure_zone"] for host in nodes} == {zone}


def test_each_set_is_a_partition_and_a_switch_and_has_its_own_spare_names(source: Source) -> None:
    inventory = source.read(include_vms="tagged")
    hosts: list[dict[str, Any]] = [
        {**facts(inventory, host), "inventory_hostname": host} for host in sorted(members(inventory, "hpcai_compute"))
    ]

    files = files_of(hosts, FileOptions(release="24.11", spares=spare_names(hosts, 1, {})))

    partitions = [line for line in files["slurm.conf"].splitlines() if line.startswith("PartitionName=")]
    assert [line.split()[:2] for line in partitions] == [
        [f"PartitionName=gpu{zone}", f"Nodes=gpu{zone}-[0-{last}]"] for zone, last in (("1", 2), ("2", 2), ("3", 2))
    ]
    assert ["Default=YES" in line for line in partitions] == [True, False, False]
    switches = files["topology.conf"].splitlines()
    assert [line.split()[0] for line in switches] == ["SwitchName=gpu1", "SwitchName=gpu2", "SwitchName=gpu3"]
    assert all(f"Nodes=gpu{zone}-[0-2]" in line for zone, line in zip("123", switches, strict=True))
