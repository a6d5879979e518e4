# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""InfiniBand ports: all active, one down, one gone, none to be seen."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from stand_ins.infiniband import put_port, put_ports_of
from stand_ins.sized_machine import SizedMachine

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import Answer, CannotTell
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.ib_ports import CHECK
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size

from ..playing import ND_A100, context


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A machine with its eight ports."""
    SizedMachine.of_size(tmp_path, ND_A100)
    put_ports_of(tmp_path, ND_A100)
    return tmp_path


def measure(node: Path) -> Answer:
    """Look at the ports."""
    return CHECK.measure(context(root=node))


def test_passes_with_all_ports_and_counts_no_ethernet(node: Path) -> None:
    answer = measure(node)
    assert (answer.findings, answer.good) == ((), "8 InfiniBand ports are active")
    assert (answer.readings[0].value, answer.readings[0].limit) == (8, 8)


@pytest.mark.parametrize(
    ("state", "physical", "action"),
    [
        ("DOWN", "2: Polling", None),
        ("DOWN", "3: Disabled", None),
        ("INIT", "5: LinkUp", "observe"),
        ("ARMED", "5: LinkUp", "observe"),
        ("ACTIVE", "2: Polling", None),
    ],
)
def test_fails_where_a_port_carries_no_data(node: Path, state: str, physical: str, action: str | None) -> None:
    put_port(node, "mlx5_ib3", state=state, physical=physical)
    (found,) = measure(node).findings
    assert (found.verdict, found.device, found.action) == ("fail", "mlx5_ib3", action)
    assert found.summary == f"InfiniBand port mlx5_ib3 (0104:00:00.0) is {state} ({physical[3:]})"


def test_fails_by_address_where_an_adapter_is_gone(node: Path) -> None:
    shutil.rmtree(node / "sys/class/infiniband/mlx5_ib4")
    shutil.rmtree(node / "sys/bus/pci/devices/0105:00:00.0")
    (found,) = measure(node).findings
    assert found.summary == "InfiniBand adapter 0105:00:00.0 is not on the PCI bus"
    assert (CHECK.action, CHECK.fault) == ("replace", "NHC2004")


def test_fails_where_an_adapter_has_no_driver(node: Path) -> None:
    shutil.rmtree(node / "sys/class/infiniband/mlx5_ib4")
    (found,) = measure(node).findings
    assert (found.summary, found.action) == ("InfiniBand adapter 0105:00:00.0 has no RDMA device", "reboot")


def test_fails_where_no_address_is_known(tmp_path: Path) -> None:
    """Of an MI300X nobody says where its adapters are."""
    SizedMachine.of_size(tmp_path, ND_A100).without_devices()
    for number in range(7):
        put_port(tmp_path, f"mlx5_ib{number}", gbps=400)
    (found,) = CHECK.measure(context(root=tmp_path, size="Standard_ND96isr_MI300X_v5")).findings
    assert found.summary == "7 of 8 InfiniBand ports are active, and there are no others"


def test_fails_where_a_port_speaks_ethernet(node: Path) -> None:
    put_port(node, "mlx5_ib7", link_layer="Ethernet")
    assert [found.verdict for found in measure(node).findings] == ["fail"]


def test_cannot_measure_without_sysfs_or_size(tmp_path: Path) -> None:
    (found,) = measure(tmp_path).findings
    assert (found.verdict, found.summary) == ("unknown", "sysfs shows neither PCI nor RDMA devices")
    with pytest.raises(CannotTell, match="VM size"):
        CHECK.measure(context(root=tmp_path, size=None))


def test_applies_where_infiniband_is_promised() -> None:
    assert CHECK.applies(find_size(ND_A100)) == ""
    assert CHECK.applies(None) == ""
    assert CHECK.applies(find_size("Standard_NC96ads_A100_v4")) == "Standard_NC96ads_A100_v4 has no InfiniBand"


def test_a_fabric_that_is_down_keeps_jobs_away() -> None:
    assert (CHECK.blocks_job, CHECK.blocks_boot) == (True, True)
