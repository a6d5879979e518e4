# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Accelerated networking: at its rate, slow, gone, not to be seen."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from stand_ins.infiniband import put_port, put_ports_of

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.accelerated_nic import CHECK

from ..playing import context

H200 = "Standard_ND96isr_H200_v5"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A machine with its ports."""
    put_ports_of(tmp_path, H200)
    return tmp_path


def test_passes_at_its_rate(node: Path) -> None:
    answer = CHECK.measure(context(root=node, size=H200))
    assert (answer.findings, answer.good) == ((), "mlx5_an0 is active at 100 Gb/s")
    assert [(one.device, one.value, one.limit) for one in answer.readings] == [("mlx5_an0", 100, 100)]


def test_fails_to_be_good_where_it_is_slow_down_or_gone(node: Path) -> None:
    rate = node / "sys/class/infiniband/mlx5_an0/ports/1/rate"
    rate.write_text("40 Gb/sec (4X QDR)\n", encoding="ascii")
    (found,) = CHECK.measure(context(root=node, size=H200)).findings
    assert (found.verdict, found.summary) == (
        "warn",
        "mlx5_an0 of accelerated networking runs at 40 Gb/s instead of 100",
    )
    put_port(node, "mlx5_an0", state="DOWN", physical="3: Disabled", gbps=100, link_layer="Ethernet")
    (found,) = CHECK.measure(context(root=node, size=H200)).findings
    assert (found.verdict, found.summary) == ("warn", "mlx5_an0 of accelerated networking is DOWN (Disabled)")
    shutil.rmtree(node / "sys/class/infiniband/mlx5_an0")
    (found,) = CHECK.measure(context(root=node, size=H200)).findings
    assert (found.verdict, found.summary) == ("warn", "accelerated networking has no RDMA device (mlx5_an0)")


def test_cannot_measure_without_a_driver_or_a_rate(node: Path) -> None:
    (node / "sys/class/infiniband/mlx5_an0/ports/1/rate").write_text("\n", encoding="ascii")
    assert [found.verdict for found in CHECK.measure(context(root=node, size=H200)).findings] == ["unknown"]
    shutil.rmtree(node / "sys/class/infiniband")
    assert [found.verdict for found in CHECK.measure(context(root=node, size=H200)).findings] == ["unknown"]
