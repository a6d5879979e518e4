# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the ledger shows: figures by node, set, VM size and fault, jobs of a training, and the recovery's decisions."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger import gather, output
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.checkpoints import Checkpoint
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.decisions import append_decision
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.machines import machines_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku.prices import PriceList, SizePrice

from .playing import END, STEPS, T0, at, database, ledger_of, lines, run_line

# The failure of c-1 lasts from 110 to 300 s. Its job holds it until 120 s, so it is out of service for 180 s.
MTTR_S = 190.0


def test_times_between_failures_are_those_of_each_node_set_size_and_fault() -> None:
    sizes = {"c-0": "Standard_A", "c-1": "Standard_A", "c-2": "Standard_B", "d-7": "Standard_B"}
    found = output.as_data(
        ledger_of(database(), nodes=(*(f"c-{number}" for number in range(6)), "d-7")), output.Rates(sizes=sizes)
    )["reliability"]
    found["by_node"] = {row["node"]: row for row in found["by_node"]}
    # People drained c-3 for 360 s, and c-4 has no machine.
    set_s = 5 * 600 - 180 - 360
    groups = {
        ("by_node", "c-1"): (1, 420.0, MTTR_S),
        ("by_node", "c-3"): (0, None, None),
        ("by_set", "c"): (1, float(set_s), MTTR_S),
        ("by_set", "d"): (0, None, None),
        ("by_size", "Standard_A"): (1, 600.0 + 420.0, MTTR_S),
        ("by_size", "Standard_B"): (0, None, None),
        ("by_fault", "gpu_count"): (1, float(set_s + 600), MTTR_S),
    }
    assert {key: tuple(found[key[0]][key[1]][name] for name in ("failures", "mtbf_s", "mttr_s")) for key in groups} == (
        groups
    )
    assert found["by_node"]["c-3"]["mtbf_low_s"] == pytest.approx(240 / 2.3026, abs=0.1)
    assert sorted(found["by_node"]) == ["c-0", "c-1", "c-2", "c-3", "c-5", "d-7"]
    assert (sorted(found["by_set"]), sorted(found["by_fault"])) == (["c", "d"], ["gpu_count"])


def test_a_replaced_machine_has_its_own_time_between_failures() -> None:
    log = [{"time": T0 - 1e6, "node": "c-1", "vm_id": "vm-old"}, {"time": T0 + 200, "node": "c-1", "vm_id": "vm-new"}]
    data = output.as_data(ledger_of(database(), machines=machines_of(log)), output.Rates())
    found = [row for row in data["reliability"]["by_node"] if row["node"] == "c-1"]
    # The old machine was in service until 120 s, and was replaced at 200 s. The new one was in service from 300 s on.
    assert [(row["vm_id"], row["failures"], row["service_s"], row["mtbf_s"]) for row in found] == [
        ("vm-new", 0, 300, None),
        ("vm-old", 1, 120, 120),
    ]


def test_each_job_of_a_training_has_its_own_ratio() -> None:
    forged = run_line(99, "FAILED", 0, 300, user="bob", comment="hpcai:training=llama")
    second = run_line(20, "COMPLETED", 400, 500, "c-5", comment="hpcai:training=llama")
    # What job 20 made is known: it completed. Job 99 of another user has no checkpoints, so nothing of it is known.
    steps = [*STEPS, Checkpoint("000000000001-20.0-w1", T0 + 450)]
    data = output.as_data(ledger_of(database([forged, second]), steps), output.Rates())
    jobs = {(one["training"], one["user"], one["job"]): one for one in data["jobs"]}
    assert set(jobs) == {("llama", "alice", 10), ("llama", "alice", 20)}
    first = jobs["llama", "alice", 10]
    assert (first["runs"], first["interruptions"], first["nodes"]) == (2, 1, 2)
    assert first["ettr"] == pytest.approx(170 / 350)
    assert jobs["llama", "alice", 20]["ettr"] == 1.0
    # The training has both: 270 s of the 490 s from the first start to the last end.
    assert data["work"][0]["ettr"] == pytest.approx(270 / 490)
    assert "  job 20 of alice: ETTR 100.0%, 1 runs, 0 interruptions, 1 nodes" in output.text(data)


def test_the_costliest_nodes_are_the_ten_that_cost_the_most() -> None:
    events = [f"n-{minutes}|{at(0)}|{at(60 * minutes)}|DOWN|root||Not responding" for minutes in range(1, 13)]
    ledger = ledger_of(lines([], events), (), nodes=[f"n-{number}" for number in range(20)], until=T0 + 3600)
    rows = output.as_data(ledger, output.Rates())["costliest_nodes"]
    assert [(row["node"], row["out_seconds"]) for row in rows] == [
        (f"n-{minutes}", 60.0 * minutes) for minutes in range(12, 2, -1)
    ]


def test_the_costliest_nodes_are_compared_by_money_if_all_prices_are_known() -> None:
    events = [
        f"{node}|{at(0)}|{at(seconds)}|DOWN|root||Not responding" for node, seconds in (("a-1", 600), ("b-1", 90))
    ]
    ledger = ledger_of(lines([], events), (), nodes=("a-1", "b-1"))
    sizes = {"a-1": "Standard_D2", "b-1": "Standard_ND"}
    prices = PriceList(
        "USD",
        "2026-01-01",
        sizes={("eu", "Standard_D2"): SizePrice(0.6), ("eu", "Standard_ND"): SizePrice(80.0)},
    )

    def shown(known: dict[str, str]) -> list[tuple[str, float | None]]:
        rows = output.costliest(ledger, output.Rates(prices, "eu", known))
        return [(row["node"], row["money"]) for row in rows]

    assert shown(sizes) == [("b-1", 2.0), ("a-1", 0.1)]
    # Without the price of one of them, only the times can be compared.
    assert shown({"b-1": "Standard_ND"}) == [("a-1", None), ("b-1", 2.0)]


def test_decisions_of_the_recovery_are_in_the_values_the_text_and_the_page(tmp_path: pathlib.Path) -> None:
    root = Root(str(tmp_path))
    for when, reason in ((T0 - 60, "before"), (T0 + 130, "c-1 failed <b>"), (END + 60, "after")):
        decision = {"action": "requeue", "reason": reason, "wait_s": 0, "leave_out": ["c-1"]}
        append_decision(root, when, 10, 1, decision)

    def away(words: Sequence[str]) -> Result:
        return Result(tuple(words), 1, "", "Unable to contact slurm controller")

    ledger, rates = gather.gather(root, away, gather.Settings(), gather.LedgerScope(T0, END), database())
    data = output.as_data(ledger, rates)
    (decision,) = data["decisions"]
    assert (decision["job"], decision["action"], decision["leave_out"]) == (10, "requeue", ["c-1"])
    assert "recovery of job 10 at 2026-01-01T00:02:10Z: requeue: c-1 failed <b>" in output.text(data).splitlines()
    page = output.page(data)
    assert "<td>2026-01-01T00:02:10Z</td>" in page.replace(' class="number"', "")
    assert "c-1 failed &lt;b&gt;" in page
