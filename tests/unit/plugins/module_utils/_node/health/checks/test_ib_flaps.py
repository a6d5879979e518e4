# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""InfiniBand links that go down: by both counters, by the log before the first look, within a day only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stand_ins.infiniband import put_ports_of

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import Answer
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.ib_flaps import BEARABLE, CHECK, WINDOW_S
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.history import History
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size

from ..playing import ND_A100, NOW, context

LINK_DOWNED, CARRIER = "link_downed", "carrier_down_count"


class Node:
    """A machine with eight ports, their IPoIB interfaces, and what networkd logged of them."""

    def __init__(self, path: Path) -> None:
        self.path, self.history, self.now = path, History(), NOW
        put_ports_of(path, ND_A100)
        for number, hca in enumerate(find_size(ND_A100).hcas or ()):
            folder = path / f"sys/class/net/ib{number}"
            folder.mkdir(parents=True)
            (folder / "device").symlink_to(f"../../../{hca.busid}")
            self.count(number, 1)
        self.log: dict[str, str | tuple[int, str]] = {}

    def count(self, number: int, value: int, *names: str) -> None:
        """Set counters of a port, both where none is named."""
        port, net = self._files(number)
        port.parent.mkdir(exist_ok=True)
        for name in names or (LINK_DOWNED, CARRIER):
            (port if name == LINK_DOWNED else net).write_text(f"{value}\n", encoding="ascii")

    def without_counters(self, number: int) -> None:
        """Take both away."""
        for file in self._files(number):
            file.unlink()

    def logged(self, *lines: tuple[float, str]) -> None:
        """Let networkd have logged lines so many seconds ago."""
        entries = [{"__REALTIME_TIMESTAMP": str(int((self.now - ago) * 1e6)), "MESSAGE": text} for ago, text in lines]
        text = "\n".join(json.dumps(entry) for entry in entries)
        self.log = {"journalctl --boot --unit=systemd-networkd": text}

    def look(self, later_s: float = 300, **also: Any) -> Answer:
        """Look at the links some time later."""
        self.now += later_s
        return CHECK.measure(context(root=self.path, run=self.log, history=self.history, now=self.now, **also))

    def _files(self, number: int) -> tuple[Path, Path]:
        port = self.path / f"sys/class/infiniband/mlx5_ib{number}/ports/1/counters/{LINK_DOWNED}"
        return port, self.path / f"sys/class/net/ib{number}/{CARRIER}"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A machine that was looked at once."""
    made = Node(tmp_path)
    assert made.look().skipped.startswith("the first run in this boot")
    return made


@pytest.mark.parametrize("names", [(), (LINK_DOWNED,), (CARRIER,)])
def test_fails_where_a_link_was_lost_too_often(node: Node, names: tuple[str, ...]) -> None:
    node.count(3, 1 + BEARABLE, *names)
    assert not node.look().findings
    node.count(3, 2 + BEARABLE, *names)
    (found,) = node.look().findings
    assert (found.verdict, found.device) == ("fail", "mlx5_ib3")
    assert found.summary == "mlx5_ib3 lost its link 5 times within 24 hours"
    assert (CHECK.fault, CHECK.action, CHECK.blocks_job) == ("NHC2005", "replace", False)


def test_fails_for_a_day_and_no_longer(node: Node) -> None:
    node.count(3, 6)
    assert node.look().findings
    assert node.look(later_s=WINDOW_S).findings
    assert not node.look(later_s=300).findings


def test_fails_by_what_was_logged_before_the_first_look(tmp_path: Path) -> None:
    node = Node(tmp_path)
    lost = [(3600.0 * number, "ib2: Lost carrier") for number in range(5)]
    node.logged(*lost, (10, "ib4: Lost carrier"), (20, "ib2: Gained carrier"), (30, "eth0: Lost carrier"))
    answer = node.look(later_s=0)
    assert [found.summary for found in answer.findings] == ["mlx5_ib2 lost its link 5 times within 24 hours"]
    # What the log told stays, and the counters go on from there.
    node.log = {}
    node.count(4, 5)
    assert [found.device for found in node.look().findings] == ["mlx5_ib2", "mlx5_ib4"]


def test_passes_where_links_are_steady(node: Node) -> None:
    answer = node.look()
    assert (answer.findings, answer.good) == ((), "8 InfiniBand links are steady")
    assert [(one.name, one.value, one.limit) for one in answer.readings] == [("ib_flaps", 0, BEARABLE)] * 8


def test_passes_what_the_log_tells_of_the_day_before(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.logged(*[(WINDOW_S + 60.0, "ib2: Lost carrier")] * 9, (5, "ib2: Gained carrier"))
    answer = node.look(later_s=0)
    assert (answer.findings, len(answer.readings)) == ((), 8)


def test_passes_a_counter_that_was_reset(node: Node) -> None:
    node.count(3, 200)
    node.history = History()
    node.look()
    node.count(3, 2)
    answer = node.look()
    assert not answer.findings
    assert [one.value for one in answer.readings if one.device == "mlx5_ib3"] == [2]


def test_the_site_may_bear_more(node: Node) -> None:
    node.count(3, 8)
    answer = node.look(limits={"ib_flaps": 7})
    assert not answer.findings
    assert answer.limit.startswith("at most 7 times within 24 hours")
    assert [found.verdict for found in node.look(limits={"ib_flaps": 6}).findings] == ["fail"]


def test_after_the_first_look_no_process_is_started(node: Node) -> None:
    node.log = {}
    assert CHECK.measure(
        context(root=node.path, history=node.history, now=node.now, run=lambda command: pytest.fail(str(command)))
    ).readings


def test_cannot_measure_without_counters_and_log(node: Node) -> None:
    node.without_counters(5)
    answer = node.look()
    assert [(found.verdict, found.device) for found in answer.findings] == [("unknown", "mlx5_ib5")]
    assert len(answer.readings) == 7


def test_a_log_that_holds_nothing_of_the_network_does_not_tell_that_nothing_was_lost(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.logged()
    assert node.look().skipped.startswith("the first run in this boot")


def test_without_counters_the_log_tells(node: Node) -> None:
    node.without_counters(5)
    node.logged(*[(60.0, "ib5: Lost carrier")] * 5)
    assert [(found.verdict, found.device) for found in node.look(0).findings] == [("fail", "mlx5_ib5")]


def test_cannot_measure_without_ports(tmp_path: Path) -> None:
    assert [found.verdict for found in CHECK.measure(context(root=tmp_path)).findings] == ["unknown"]
