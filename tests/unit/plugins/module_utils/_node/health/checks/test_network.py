# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The network, and accelerated networking."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from stand_ins.infiniband import put_port, put_ports_of
from stand_ins.machine_tree import MachineTree

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import Answer
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.network import ACCELERATED_NIC, NETWORK

from ..playing import ND_A100, context

HEADER = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
SUBNET = "eth0\t0000000A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n"


def route(interface: str, metric: int = 100, flags: str = "0003") -> str:
    """Return the line of a default route."""
    return f"{interface}\t00000000\t0100000A\t{flags}\t0\t0\t{metric}\t00000000\t0\t0\t0\n"


@pytest.fixture
def tree(tmp_path: Path) -> MachineTree:
    """A machine with its front-end network and IP over InfiniBand."""
    made = MachineTree(tmp_path)
    put_ports_of(tmp_path, ND_A100)
    made.write("/proc/net/route", HEADER + route("eth0") + SUBNET)
    made.write("/sys/class/net/eth0/operstate", "up\n")
    made.write("/sys/class/net/lo/operstate", "unknown\n")
    for number in range(8):
        made.write(f"/sys/bus/pci/devices/{0x101 + number:04x}:00:00.0/net/ib{number}/operstate", "up\n")
    return made


def measure(tree: MachineTree) -> Answer:
    """Check the interfaces."""
    return NETWORK.measure(context(root=tree))


def test_network_passes_if_all_interfaces_are_up(tree: MachineTree) -> None:
    answer = measure(tree)
    assert (answer.findings, answer.good) == ((), "eth0 is up, there are 2 interfaces")
    assert [(one.device, one.value) for one in answer.readings] == [("eth0", "up"), ("lo", "unknown")]


def test_network_an_unknown_state_with_a_carrier_is_up(tree: MachineTree) -> None:
    tree.write("/sys/class/net/eth0/operstate", "unknown\n")
    assert [found.verdict for found in measure(tree).findings] == ["fail"]
    tree.write("/sys/class/net/eth0/carrier", "1\n")
    assert measure(tree).findings == ()
    tree.write("/sys/class/net/eth0/operstate", "down\n")
    assert [found.verdict for found in measure(tree).findings] == ["fail"]


def test_network_the_route_with_the_smallest_metric_counts(tree: MachineTree) -> None:
    tree.write("/proc/net/route", HEADER + route("eth1", 50) + route("eth0") + route("eth2", 10, "0002"))
    (found,) = measure(tree).findings
    assert found.summary == "network interface eth1 of the default route is missing"


def test_network_fails_if_the_interface_is_down(tree: MachineTree) -> None:
    tree.write("/sys/class/net/eth0/operstate", "lowerlayerdown\n")
    (found,) = measure(tree).findings
    assert (found.verdict, found.device) == ("fail", "eth0")
    assert found.summary == "network interface eth0 of the default route is lowerlayerdown"


@pytest.mark.parametrize("text", ["", HEADER, HEADER + SUBNET, HEADER + "eth0 00000000 0 0003 0 0 0\n"])
def test_network_fails_without_a_default_route(tree: MachineTree, text: str) -> None:
    tree.write("/proc/net/route", text)
    (found,) = measure(tree).findings
    assert found.verdict == "fail"
    assert found.summary.startswith("there is no default route")


def test_network_warns_of_an_adapter_without_an_interface(tree: MachineTree) -> None:
    put_port(tree.path, "mlx5_ib9", "0199:00:00.0")
    put_port(tree.path, "mlx5_ib10", "0198:00:00.0", state="DOWN")
    (found,) = measure(tree).findings
    assert (found.verdict, found.summary) == ("warn", "mlx5_ib9 (0199:00:00.0) has no network interface")


def test_network_cannot_measure_without_sysfs(tmp_path: Path) -> None:
    assert [found.verdict for found in NETWORK.measure(context(root=tmp_path)).findings] == ["unknown"]


H200 = "Standard_ND96isr_H200_v5"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A machine with its ports."""
    put_ports_of(tmp_path, H200)
    return tmp_path


def test_accelerated_nic_passes_at_its_rate(node: Path) -> None:
    answer = ACCELERATED_NIC.measure(context(root=node, size=H200))
    assert (answer.findings, answer.good) == ((), "mlx5_an0 is active at 100 Gb/s")
    assert [(one.device, one.value, one.limit) for one in answer.readings] == [("mlx5_an0", 100, 100)]


def test_accelerated_nic_fails_to_pass_if_it_is_slow_down_or_missing(node: Path) -> None:
    rate = node / "sys/class/infiniband/mlx5_an0/ports/1/rate"
    rate.write_text("40 Gb/sec (4X QDR)\n", encoding="ascii")
    (found,) = ACCELERATED_NIC.measure(context(root=node, size=H200)).findings
    assert (found.verdict, found.summary) == (
        "warn",
        "mlx5_an0 of accelerated networking runs at 40 Gb/s instead of 100",
    )
    put_port(node, "mlx5_an0", state="DOWN", physical="3: Disabled", gbps=100, link_layer="Ethernet")
    (found,) = ACCELERATED_NIC.measure(context(root=node, size=H200)).findings
    assert (found.verdict, found.summary) == ("warn", "mlx5_an0 of accelerated networking is DOWN (Disabled)")
    shutil.rmtree(node / "sys/class/infiniband/mlx5_an0")
    (found,) = ACCELERATED_NIC.measure(context(root=node, size=H200)).findings
    assert (found.verdict, found.summary) == ("warn", "accelerated networking has no RDMA device (mlx5_an0)")


def test_accelerated_nic_cannot_measure_without_a_driver_or_a_rate(node: Path) -> None:
    (node / "sys/class/infiniband/mlx5_an0/ports/1/rate").write_text("\n", encoding="ascii")
    assert [found.verdict for found in ACCELERATED_NIC.measure(context(root=node, size=H200)).findings] == ["unknown"]
    shutil.rmtree(node / "sys/class/infiniband")
    assert [found.verdict for found in ACCELERATED_NIC.measure(context(root=node, size=H200)).findings] == ["unknown"]
