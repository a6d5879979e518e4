# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPUs and adapters: on their NUMA nodes, on others, at other addresses, not to be seen; and NCCL's topology file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stand_ins.sized_machine import GPU_CLASS, NVIDIA, SizedMachine

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import Answer
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.pci_topology import CHECK
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.limits import source_in_words
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl.topology import (
    Topology,
    as_xml,
    topology_of,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size

from ..playing import ND_A100, context


@pytest.fixture
def machine(tmp_path: Path) -> SizedMachine:
    """A machine whose devices are where they should be."""
    return SizedMachine.of_size(tmp_path, ND_A100)


def measure(machine: SizedMachine) -> Answer:
    """Look at the devices."""
    return CHECK.measure(context(root=machine))


def test_passes_where_all_are_on_their_nodes(machine: SizedMachine) -> None:
    answer = measure(machine)
    assert (answer.findings, len(answer.readings)) == ((), 16)
    assert (answer.readings[0].device, answer.readings[0].value) == ("0001:00:00.0", "node1")


@pytest.mark.parametrize(
    ("busid", "words"),
    [("000b:00:00.0", "GPU 000b:00:00.0"), ("0105:00:00.0", "InfiniBand adapter 0105:00:00.0")],
)
def test_fails_where_one_is_on_another_node(machine: SizedMachine, busid: str, words: str) -> None:
    machine.on_numa_node(busid, 2)
    (found,) = measure(machine).findings
    assert (found.verdict, found.device, CHECK.fault) == ("fail", busid, "NHC2010")
    assert found.summary == f"{words} is on NUMA node 2 instead of 3"


def test_one_that_is_gone_is_told_of_by_others(machine: SizedMachine) -> None:
    machine.without("000b:00:00.0")
    answer = measure(machine)
    assert (answer.findings, len(answer.readings)) == ((), 15)


def test_one_at_another_address_is_worth_a_warning(machine: SizedMachine) -> None:
    machine.device("0009:00:00.0", GPU_CLASS, NVIDIA, 0)
    (found,) = measure(machine).findings
    assert (found.verdict, found.device) == ("warn", "0009:00:00.0")


def test_where_only_gpus_are_known_nobody_says_that_an_adapter_is_wrong(tmp_path: Path) -> None:
    size = "Standard_ND96is_H100_v5"
    machine = SizedMachine.of_size(tmp_path, size)
    machine.device("0101:00:00.0", 0x020700, 0x15B3, 0)
    answer = CHECK.measure(context(root=machine, size=size))
    assert (answer.findings, len(answer.readings)) == ((), 8)
    assert answer.limit == f"the NUMA nodes of {size} ({source_in_words(find_size(size).sources['gpus'])})"
    machine.device("0009:00:00.0", GPU_CLASS, NVIDIA, 0)
    assert [found.device for found in CHECK.measure(context(root=machine, size=size)).findings] == ["0009:00:00.0"]


def test_the_topology_file_is_read_where_it_is_asked_for(machine: SizedMachine) -> None:
    topology = topology_of(find_size(ND_A100))
    assert isinstance(topology, Topology)
    machine.write("etc/hpcai/nccl.json", json.dumps({"schema": 1, "topology_path": "/var/lib/hpcai/nccl-topo.xml"}))
    (found,) = measure(machine).findings
    assert (found.verdict, found.fault) == ("warn", "")
    assert found.summary == "NCCL's topology file /var/lib/hpcai/nccl-topo.xml is not there"
    for text in ("no XML at all", as_xml(topology).replace("0001:00:00.0", "0002:00:00.0", 1)):
        machine.write("var/lib/hpcai/nccl-topo.xml", text)
        (found,) = measure(machine).findings
        assert found.verdict == "warn"
        assert found.summary.endswith("is not the one of Standard_ND96asr_v4")
    machine.write("var/lib/hpcai/nccl-topo.xml", as_xml(topology))
    assert measure(machine).findings == ()
    machine.write("etc/hpcai/nccl.json", json.dumps({"schema": 1, "state": "absent"}))
    machine.write("var/lib/hpcai/nccl-topo.xml", "")
    assert measure(machine).findings == ()


def test_cannot_measure_without_devices_or_their_nodes(machine: SizedMachine) -> None:
    machine.on_numa_node("000b:00:00.0", -1)
    assert [(found.verdict, found.device) for found in measure(machine).findings] == [("unknown", "000b:00:00.0")]
    machine.without_devices()
    (found,) = measure(machine).findings
    assert found.verdict == "unknown"
    assert found.summary == "none of the 16 GPUs and adapters of Standard_ND96asr_v4 is on the PCI bus"


def test_applies_where_somebody_says_where_they_are() -> None:
    assert CHECK.applies(find_size(ND_A100)) == ""
    assert CHECK.applies(find_size("Standard_ND96is_H100_v5")) == "", "of one kind is enough"
    assert CHECK.applies(find_size("Standard_ND96isr_MI300X_v5")) != ""
