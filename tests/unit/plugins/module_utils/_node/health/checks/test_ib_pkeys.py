# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Partition keys: the scale set's on all ports, none, two, another's, not to be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from stand_ins.infiniband import put_ports_of

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.ib_pkeys import CHECK

from ..playing import ND_A100, context


def put_keys(root: Path, device: str, *keys: str) -> None:
    """The table of a port: these keys, then empty places."""
    folder = root / f"sys/class/infiniband/{device}/ports/1/pkeys"
    folder.mkdir(exist_ok=True)
    for index, key in enumerate([*keys, "0x0000", "0x8000"]):
        (folder / str(index)).write_text(f"{key}\n", encoding="ascii")


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A machine whose ports are in a partition as Azure has it."""
    put_ports_of(tmp_path, ND_A100)
    for number in range(8):
        put_keys(tmp_path, f"mlx5_ib{number}", "0x800b", "0x7fff")
    return tmp_path


@pytest.mark.parametrize("keys", [("0x800b", "0x7fff"), ("0xffff", "0x800b"), ("0x800b",)])
def test_passes_with_one_key_of_the_set(node: Path, keys: tuple[str, ...]) -> None:
    put_keys(node, "mlx5_ib1", *keys)
    answer = CHECK.measure(context(root=node))
    assert (answer.findings, answer.good) == ((), "8 InfiniBand ports are in partition 0x800b")
    assert {one.value for one in answer.readings} == {"0x800b"}


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (("0x7fff",), "mlx5_ib1 has no partition key besides the default one, and not one: none"),
        (("0x800b", "0x800c"), "mlx5_ib1 has 2 partition keys besides the default one, and not one: 0x800b 0x800c"),
        (("0x000b", "0x7fff"), "mlx5_ib1 is a limited member of its partition (0x000b), and can reach full members"),
        (("0x800c", "0x7fff"), "InfiniBand ports are in different partitions: mlx5_ib1 0x000c, the others 0x000b"),
    ],
)
def test_fails_with_another_key_or_none(node: Path, keys: tuple[str, ...], words: str) -> None:
    put_keys(node, "mlx5_ib1", *keys)
    (found,) = CHECK.measure(context(root=node)).findings
    assert found.verdict == "fail"
    assert found.summary.startswith(words)


def test_cannot_measure_without_tables(tmp_path: Path) -> None:
    assert [found.verdict for found in CHECK.measure(context(root=tmp_path)).findings] == ["unknown"]
    put_ports_of(tmp_path, ND_A100)
    assert {found.verdict for found in CHECK.measure(context(root=tmp_path)).findings} == {"unknown"}
