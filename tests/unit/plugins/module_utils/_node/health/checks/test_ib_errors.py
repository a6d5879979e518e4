# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Error counters of InfiniBand ports: standing still, growing, reset, not to be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from stand_ins.infiniband import put_ports_of

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import Answer
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.ib_errors import CHECK, LIMITS
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.history import History

from ..playing import ND_A100, context


class Node:
    """A machine whose counters count."""

    def __init__(self, path: Path) -> None:
        self.path, self.history = path, History()
        put_ports_of(path, ND_A100)
        for number in range(8):
            for name in LIMITS:
                self.count(f"mlx5_ib{number}", name, 3)

    def count(self, device: str, name: str, value: int) -> None:
        """Set a counter."""
        file = self.path / f"sys/class/infiniband/{device}/ports/1/counters/{name}"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{value}\n", encoding="ascii")

    def measure(self) -> Answer:
        """Look at the counters; what is kept is there next time."""
        return CHECK.measure(context(root=self.path, history=self.history))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A machine that was looked at once."""
    made = Node(tmp_path)
    assert made.measure().skipped.startswith("the first run in this boot")
    return made


@pytest.mark.parametrize("name", LIMITS)
def test_passes_up_to_the_limit(node: Node, name: str) -> None:
    node.count("mlx5_ib5", name, 3 + LIMITS[name])
    answer = node.measure()
    assert answer.findings == ()
    assert len(answer.readings) == 8 * len(LIMITS)


@pytest.mark.parametrize("name", LIMITS)
def test_fails_where_too_many_come_twice_running(node: Node, name: str) -> None:
    node.count("mlx5_ib5", name, 3 + LIMITS[name] + 1)
    (first,) = node.measure().findings
    assert (first.verdict, first.device) == ("warn", "mlx5_ib5")
    assert first.summary == f"mlx5_ib5 has 11 new {name} since the last run"
    node.count("mlx5_ib5", name, 100)
    (second,) = node.measure().findings
    assert (second.verdict, second.summary) == (
        "fail",
        f"mlx5_ib5 has 86 new {name} since the last run, and had before",
    )


def test_errors_that_stop_in_between_do_not_fail(node: Node) -> None:
    for value, verdicts in ((50, ["warn"]), (50, []), (90, ["warn"])):
        node.count("mlx5_ib5", "symbol_error", value)
        assert [found.verdict for found in node.measure().findings] == verdicts


def test_a_counter_that_was_reset_begins_anew(node: Node) -> None:
    node.count("mlx5_ib5", "symbol_error", 1000)
    node.measure()
    node.count("mlx5_ib5", "symbol_error", 10)
    assert node.measure().findings == ()
    node.count("mlx5_ib5", "symbol_error", 0)
    assert node.measure().findings == ()


def test_a_port_that_is_new_is_compared_next_time(node: Node) -> None:
    node.count("mlx5_ib5", "symbol_error", 20)
    (node.path / "sys/class/infiniband/mlx5_ib5/ports/1/counters/symbol_error").unlink()
    assert node.measure().findings == ()
    node.count("mlx5_ib5", "symbol_error", 5000)
    answer = node.measure()
    assert (answer.findings, len(answer.readings)) == ((), 8 * len(LIMITS) - 1)


def test_cannot_measure_without_counters(tmp_path: Path) -> None:
    put_ports_of(tmp_path, ND_A100)
    (found,) = CHECK.measure(context(root=tmp_path)).findings
    assert (found.verdict, found.summary) == ("unknown", "no InfiniBand port tells its error counters")


def test_cannot_measure_one_port_without_counters(node: Node) -> None:
    for name in LIMITS:
        (node.path / f"sys/class/infiniband/mlx5_ib5/ports/1/counters/{name}").unlink()
    assert [(found.verdict, found.device) for found in node.measure().findings] == [("unknown", "mlx5_ib5")]
