# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""LID and GID of InfiniBand ports: given, not given, given twice, not to be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from stand_ins.infiniband import put_port, put_ports_of

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.ib_addresses import CHECK

from ..playing import ND_A100, context

PREFIX = "fe80:0000:0000:0000"


def put_address(root: Path, number: int, lid: str | None = None, gid: str | None = None) -> None:
    """Give a port its address."""
    folder = root / f"sys/class/infiniband/mlx5_ib{number}/ports/1"
    (folder / "gids").mkdir(exist_ok=True)
    (folder / "lid").write_text(f"{lid or hex(0x21 + number)}\n", encoding="ascii")
    (folder / "gids/0").write_text(f"{gid or f'{PREFIX}:0015:5dff:fe33:ff0{number}'}\n", encoding="ascii")


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A machine whose ports have their addresses."""
    put_ports_of(tmp_path, ND_A100)
    for number in range(8):
        put_address(tmp_path, number)
    return tmp_path


def test_passes_with_addresses_of_their_own(node: Path) -> None:
    answer = CHECK.measure(context(root=node))
    assert (answer.findings, len(answer.readings)) == ((), 8)


@pytest.mark.parametrize(
    ("lid", "gid", "words"),
    [
        ("0x0", None, "mlx5_ib4 is active, and has no LID"),
        (None, f"{PREFIX}:0000:0000:0000:0000", "mlx5_ib4 is active, and has no GID: "),
        (None, f"{PREFIX}:0015:5dff:fe33:ff01", "mlx5_ib4 has the same GID as mlx5_ib1: "),
    ],
)
def test_fails_without_an_address_of_its_own(node: Path, lid: str | None, gid: str | None, words: str) -> None:
    put_address(node, 4, lid, gid)
    (found,) = CHECK.measure(context(root=node)).findings
    assert (found.verdict, found.device) == ("fail", "mlx5_ib4")
    assert found.summary.startswith(words)


def test_cannot_measure_where_a_port_does_not_tell(node: Path) -> None:
    (node / "sys/class/infiniband/mlx5_ib4/ports/1/lid").unlink()
    (found,) = CHECK.measure(context(root=node)).findings
    assert (found.verdict, found.device) == ("unknown", "mlx5_ib4")


def test_cannot_measure_where_no_port_is_active(tmp_path: Path) -> None:
    put_port(tmp_path, "mlx5_ib0", state="INIT")
    assert [found.verdict for found in CHECK.measure(context(root=tmp_path)).findings] == ["unknown"]
