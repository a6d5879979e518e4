# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rate of InfiniBand ports: as promised, less, not to be told."""

from __future__ import annotations

from pathlib import Path

import pytest
from stand_ins.infiniband import put_port, put_ports_of

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.ib_rate import CHECK

from ..playing import ND_A100, context


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A machine with its eight ports."""
    put_ports_of(tmp_path, ND_A100)
    return tmp_path


def test_passes_at_the_promised_rate_and_above(node: Path) -> None:
    put_port(node, "mlx5_ib2", gbps=400)
    answer = CHECK.measure(context(root=node))
    assert (answer.findings, answer.good) == ((), "8 InfiniBand ports run at 200 Gb/s")
    assert [(one.device, one.value) for one in answer.readings][2] == ("mlx5_ib2", 400)
    assert answer.limit == "at least 200 Gb/s (azurehpc-health-checks, conf/<size>.conf)"


def test_fails_below_the_promised_rate_and_blocks_no_job(node: Path) -> None:
    put_port(node, "mlx5_ib2", gbps=100)
    (found,) = CHECK.measure(context(root=node)).findings
    assert found.verdict == "fail"
    assert found.summary == "mlx5_ib2 (0103:00:00.0) runs at 100 Gb/s instead of 200"
    assert not CHECK.blocks_job
    assert not CHECK.blocks_boot


def test_cannot_measure_a_port_that_does_not_tell(node: Path) -> None:
    (node / "sys/class/infiniband/mlx5_ib2/ports/1/rate").write_text("", encoding="ascii")
    answer = CHECK.measure(context(root=node))
    assert [found.verdict for found in answer.findings] == ["unknown"]
    assert len(answer.readings) == 7


def test_cannot_measure_where_no_port_is_active(tmp_path: Path) -> None:
    put_port(tmp_path, "mlx5_ib0", state="DOWN")
    assert [found.verdict for found in CHECK.measure(context(root=tmp_path)).findings] == ["unknown"]
