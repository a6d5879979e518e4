# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NUMA nodes, and on which of them devices are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stand_ins.machine_tree import MachineTree, nd_a100_v4
from stand_ins.sized_machine import GPU_CLASS, NVIDIA, SizedMachine

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import Answer
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.topology import NUMA, PCI_TOPOLOGY
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.settings import source_in_words
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl.topology import Topology, as_xml, topology_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size

from ..playing import ND_A100, context


@pytest.fixture
def tree(tmp_path: Path) -> MachineTree:
    """An ND A100 v4."""
    return nd_a100_v4(tmp_path)


def measure_numa(tree: MachineTree) -> Answer:
    """Check the NUMA nodes."""
    return NUMA.measure(context(root=tree))


def test_numa_passes_with_the_nodes_of_the_size(tree: MachineTree) -> None:
    answer = measure_numa(tree)
    assert (answer.findings, answer.good) == ((), "4 NUMA nodes have their CPUs and memory")
    assert [one.value for one in answer.readings] == [4, 232186, 232186, 232186, 232186]
    assert answer.readings[0].limit == 4


def test_numa_a_node_with_memory_only_does_not_count(tree: MachineTree) -> None:
    tree.node(4, "", 81920)
    assert measure_numa(tree).findings == ()


def test_numa_fails_with_other_cpus(tree: MachineTree) -> None:
    tree.node(1, "24-46").node(2, "47-71")
    findings = measure_numa(tree).findings
    assert [found.verdict for found in findings] == ["fail", "fail"]
    assert findings[0].summary == "NUMA node 1 has CPUs 24-46 instead of 24-47"


def test_numa_fails_with_missing_or_additional_nodes(tmp_path: Path) -> None:
    two = MachineTree(tmp_path).cpus("0-95").node(0, "0-47").node(5, "48-95")
    assert {found.verdict for found in measure_numa(two).findings} == {"fail"}
    assert [found.summary for found in measure_numa(two).findings] == [
        "NUMA node 0 has CPUs 0-47 instead of 0-23",
        "NUMA node 1 of Standard_ND96asr_v4 is missing",
        "NUMA node 2 of Standard_ND96asr_v4 is missing",
        "NUMA node 3 of Standard_ND96asr_v4 is missing",
        "there is a NUMA node 5, but Standard_ND96asr_v4 has none",
    ]


def test_numa_offline_cpus_are_left_to_another_check(tree: MachineTree) -> None:
    tree.cpus("0-71").node(3, "")
    tree.write("/sys/devices/system/cpu/present", "0-95\n")
    assert measure_numa(tree).findings == ()


def test_numa_warns_of_a_node_without_memory(tree: MachineTree) -> None:
    tree.node(2, "48-71", 0)
    assert [(found.verdict, found.summary) for found in measure_numa(tree).findings] == [
        ("warn", "NUMA node 2 has CPUs but no memory")
    ]


def test_numa_cannot_measure_without_sysfs(tmp_path: Path) -> None:
    assert [found.verdict for found in NUMA.measure(context(root=tmp_path)).findings] == ["unknown"]


@pytest.fixture
def machine(tmp_path: Path) -> SizedMachine:
    """A machine whose devices are where they should be."""
    return SizedMachine.of_size(tmp_path, ND_A100)


def measure_pci_topology(machine: SizedMachine) -> Answer:
    """Check the devices."""
    return PCI_TOPOLOGY.measure(context(root=machine))


def test_pci_topology_passes_if_all_are_on_their_nodes(machine: SizedMachine) -> None:
    answer = measure_pci_topology(machine)
    assert (answer.findings, len(answer.readings)) == ((), 16)
    assert (answer.readings[0].device, answer.readings[0].value) == ("0001:00:00.0", "node1")


@pytest.mark.parametrize(
    ("busid", "words"),
    [("000b:00:00.0", "GPU 000b:00:00.0"), ("0105:00:00.0", "InfiniBand adapter 0105:00:00.0")],
)
def test_pci_topology_fails_if_a_device_is_on_another_node(machine: SizedMachine, busid: str, words: str) -> None:
    machine.on_numa_node(busid, 2)
    (found,) = measure_pci_topology(machine).findings
    assert (found.verdict, found.device, PCI_TOPOLOGY.fault) == ("fail", busid, "NHC2010")
    assert found.summary == f"{words} is on NUMA node 2 instead of 3"


def test_pci_topology_missing_devices_are_left_to_other_checks(machine: SizedMachine) -> None:
    machine.without("000b:00:00.0")
    answer = measure_pci_topology(machine)
    assert (answer.findings, len(answer.readings)) == ((), 15)


def test_pci_topology_warns_of_a_device_at_another_address(machine: SizedMachine) -> None:
    machine.device("0009:00:00.0", GPU_CLASS, NVIDIA, 0)
    (found,) = measure_pci_topology(machine).findings
    assert (found.verdict, found.device) == ("warn", "0009:00:00.0")


def test_pci_topology_if_only_gpus_are_known_adapters_are_not_judged(tmp_path: Path) -> None:
    size = "Standard_ND96is_H100_v5"
    machine = SizedMachine.of_size(tmp_path, size)
    machine.device("0101:00:00.0", 0x020700, 0x15B3, 0)
    answer = PCI_TOPOLOGY.measure(context(root=machine, size=size))
    assert (answer.findings, len(answer.readings)) == ((), 8)
    assert answer.limit == f"the NUMA nodes of {size} ({source_in_words(find_size(size).sources['gpus'])})"
    machine.device("0009:00:00.0", GPU_CLASS, NVIDIA, 0)
    assert [found.device for found in PCI_TOPOLOGY.measure(context(root=machine, size=size)).findings] == [
        "0009:00:00.0"
    ]


def test_pci_topology_checks_the_topology_file_if_it_is_configured(machine: SizedMachine) -> None:
    topology = topology_of(find_size(ND_A100))
    assert isinstance(topology, Topology)
    machine.write("etc/hpcai/nccl.json", json.dumps({"schema": 1, "topology_path": "/var/lib/hpcai/nccl-topo.xml"}))
    (found,) = measure_pci_topology(machine).findings
    assert (found.verdict, found.fault) == ("warn", "")
    assert found.summary == "NCCL's topology file /var/lib/hpcai/nccl-topo.xml is missing"
    for text in ("no XML at all", as_xml(topology).replace("0001:00:00.0", "0002:00:00.0", 1)):
        machine.write("var/lib/hpcai/nccl-topo.xml", text)
        (found,) = measure_pci_topology(machine).findings
        assert found.verdict == "warn"
        assert found.summary.endswith("is not that of Standard_ND96asr_v4")
    machine.write("var/lib/hpcai/nccl-topo.xml", as_xml(topology))
    assert measure_pci_topology(machine).findings == ()
    machine.write("etc/hpcai/nccl.json", json.dumps({"schema": 1, "state": "absent"}))
    machine.write("var/lib/hpcai/nccl-topo.xml", "")
    assert measure_pci_topology(machine).findings == ()


def test_pci_topology_cannot_measure_without_devices_or_their_nodes(machine: SizedMachine) -> None:
    machine.on_numa_node("000b:00:00.0", -1)
    assert [(found.verdict, found.device) for found in measure_pci_topology(machine).findings] == [
        ("unknown", "000b:00:00.0")
    ]
    machine.without_devices()
    (found,) = measure_pci_topology(machine).findings
    assert found.verdict == "unknown"
    assert found.summary == "none of the 16 GPUs and adapters of Standard_ND96asr_v4 is on the PCI bus"


def test_pci_topology_applies_to_sizes_with_known_addresses() -> None:
    assert PCI_TOPOLOGY.applies(find_size(ND_A100)) == ""
    assert PCI_TOPOLOGY.applies(find_size("Standard_ND96is_H100_v5")) == "", "known addresses of one kind are enough"
    assert PCI_TOPOLOGY.applies(find_size("Standard_ND96isr_MI300X_v5")) != ""
