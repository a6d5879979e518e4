# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the arbiter decides about all nodes together: the drain limit, and the order."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.actions import (
    CAP,
    DRAIN,
    RETURN,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.decide import (
    Decision,
    decide,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.observed import ObservedNode
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.report import Fault, Report
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.settings import Settings

from .playing import FULL, HUNG, LOST, NOW, drained, node, observe, report

OURS = "hpcai: health: gpu_count: x"
BY_PROLOG = "hpcai: prolog: 30-health: gpu_count: x (job 4)"


def report_of(number: int, *faults: Fault, **more: object) -> Report:
    """The report of the node with this number."""
    return report(*faults, vm_id=f"vm-{number}", **more)  # type: ignore[arg-type]


def cluster(count: int, *faults: Fault) -> list[ObservedNode]:
    """This number of nodes with the same faults."""
    return [observe(node(f"compute-{n:02}"), report_of(n, *faults)) for n in range(count)]


def drains(decision: Decision) -> list[str]:
    """The nodes that are drained."""
    return [action.node for action in decision.actions if action.kind == DRAIN]


@pytest.mark.parametrize(
    ("max_out", "count", "allowed"),
    [("10%", 20, 2), ("10%", 21, 3), ("10%", 3, 1), ("5", 20, 5), ("0", 20, 0), ("0%", 20, 0), ("100%", 20, 20)],
)
def test_the_drain_limit_holds_if_all_nodes_fail_at_once(max_out: str, count: int, allowed: int) -> None:
    decision = decide(cluster(count, LOST), {}, Settings(max_out=max_out), NOW)
    assert len(drains(decision)) == decision.allowed == allowed
    assert len(decision.refused) == count - allowed
    alerts = [alert for alert in decision.alerts if alert.kind == CAP]
    assert bool(alerts) is (allowed < count)


def test_at_the_drain_limit_an_alert_names_the_nodes_that_stay() -> None:
    decision = decide(cluster(3, LOST), {}, Settings(max_out="1"), NOW)
    assert decision.alerts[0].words == (
        "1 nodes are drained and the drain limit is 1 (max_out 1), so compute-01 and 1 more stays in scheduling: "
        "hpcai: health: gpu_count: 7 of 8 GPUs: 0003:00:00.0 is not there. Look for a common cause, "
        "or raise health_checks_arbiter.max_out"
    )
    assert set(decision.refused) == {"compute-01", "compute-02"}


@pytest.mark.parametrize(
    "reason",
    [
        OURS,
        BY_PROLOG,
        "hpcai: health: reboot: gpu_xid: x",
        "hpcai: prolog: 50-mine: x",
        "hpcai: epilog: 50-mine: x",
    ],
)
def test_nodes_that_we_drained_count_towards_the_limit(reason: str) -> None:
    nodes = [observe(drained(reason, "compute-90"), report_of(90, LOST)), *cluster(2, LOST)]
    decision = decide(nodes, {}, Settings(max_out="2"), NOW)
    assert decision.out == ("compute-90",)
    assert drains(decision) == ["compute-00"]


@pytest.mark.parametrize("reason", ["ticket 4711", "hpcai: boot: gpu: x"])
def test_nodes_that_others_drained_do_not_count(reason: str) -> None:
    nodes = [observe(drained(reason, "compute-90"), report_of(90, LOST)), *cluster(2, LOST)]
    assert len(drains(decide(nodes, {}, Settings(max_out="2"), NOW))) == 2


def test_above_the_limit_nothing_is_drained_and_nodes_are_still_resumed() -> None:
    """As after the limit was lowered."""
    nodes = [observe(drained(OURS, f"compute-9{n}"), report_of(90 + n), reason_since=NOW - 600) for n in range(3)]
    decision = decide([*nodes, *cluster(1, LOST)], {}, Settings(max_out="1"), NOW)
    assert drains(decision) == []
    assert [action.kind for action in decision.actions] == [RETURN] * 3


def test_faults_that_block_jobs_are_drained_first_then_the_worst() -> None:
    nodes = [
        observe(node("a"), report_of(1, FULL)),
        observe(node("b"), report_of(2, HUNG)),
        observe(node("c"), report_of(3, LOST)),
        observe(node("d"), report_of(4, FULL)),
    ]
    assert drains(decide(nodes, {}, Settings(max_out="3"), NOW)) == ["c", "b", "a"]


def test_spare_names_do_not_raise_the_limit() -> None:
    spares = [observe(node(f"spare-{n}", ("DOWN",), "hpcai: no such instance")) for n in range(90)]
    decision = decide([*cluster(10, LOST), *spares], {}, Settings(max_out="10%"), NOW)
    assert (decision.nodes, decision.allowed, len(drains(decision))) == (10, 1, 1)


def test_good_nodes_are_left_alone() -> None:
    decision = decide(cluster(3), {}, Settings(), NOW)
    assert (decision.actions, decision.alerts, decision.out) == ((), (), ())
