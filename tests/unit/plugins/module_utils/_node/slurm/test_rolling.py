# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Orders of a rollout: what is still right when they reach slurmctld."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import rolling
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.nodes import NodeState, parse_nodes

STARTED = "2026-11-22T16:40:00"
OURS = "hpcai: roll: new image node/1.2.3"


def state(name: str, states: str = "IDLE", reason: str = "") -> NodeState:
    """A node in slurmctld."""
    return NodeState(name, tuple(states.split("+")), reason, slurmd_started=STARTED)


KNOWN = {
    item.name: item
    for item in (
        state("idle"),
        state("persons", "IDLE+DRAIN", "bad fan"),
        state("down", "DOWN", "bad fan"),
        state("ours", "IDLE+DRAIN", OURS),
        state("busy", "ALLOCATED+DRAIN", OURS),
        state("taken", "IDLE+DRAIN", "mine now, was hpcai: roll: x"),
    )
}
ALL = [*KNOWN, "unknown"]


def plan(drain: Sequence[str] = (), mark: Sequence[str] = (), resume: Sequence[str] = ()) -> rolling.Orders:
    """The orders that remain for these nodes."""
    return rolling.plan(KNOWN, {"busy": ["7 (alice, running)"]}, "node/1.2.3", drain=drain, mark=mark, resume=resume)


def test_only_nodes_in_service_are_drained() -> None:
    assert plan(drain=ALL).drain == ("idle",)


def test_only_nodes_that_a_rollout_drained_and_without_jobs_are_marked() -> None:
    assert plan(mark=ALL).mark == {"ours": f"{OURS}, reimaged, slurmd was of {STARTED}"}


def test_a_node_whose_reason_a_person_changed_is_not_resumed() -> None:
    assert plan(resume=ALL).resume == ("ours", "busy")


def test_the_mark_survives_what_slurmctld_appends() -> None:
    reason = rolling.marked_reason_of("node/1.2.3", STARTED)

    assert rolling.mark_of(f"{reason} : Not responding") == STARTED
    assert rolling.mark_of(OURS) == ""


def test_an_unknown_start_of_slurmd_is_no_new_start() -> None:
    node = NodeState("a", ("IDLE", "DRAIN"), rolling.marked_reason_of("node/1.2.3", ""))

    facts = rolling.facts_of({"a": node}, {}, ["a"])["a"]
    assert facts["mark"] == facts["slurmd_started"] == "unknown"


def test_a_long_image_name_does_not_cut_the_mark() -> None:
    reason = rolling.marked_reason_of("x" * 300, STARTED)

    assert len(reason) <= 200
    assert rolling.mark_of(reason) == STARTED


def test_the_start_of_slurmd_is_read_from_the_record() -> None:
    shown = f"NodeName=a State=IDLE BootTime=2026-11-01T00:00:00 SlurmdStartTime={STARTED} Reason=x SlurmdStartTime=y\n"

    assert parse_nodes(shown)["a"].slurmd_started == STARTED


def test_the_orders_become_commands_and_nodes_are_resumed_before_others_are_drained() -> None:
    commands: list[tuple[str, ...]] = []

    def run(command: Sequence[str]) -> Result:
        commands.append(tuple(command))
        return Result(tuple(command), 0, "", "")

    rolling.apply(rolling.Orders(("a-0", "a-1"), {"a-2": "why"}, ("a-3",)), "node/1.2.3", run)

    assert commands == [
        ("scontrol", "update", "NodeName=a-3", "State=RESUME"),
        ("scontrol", "update", "NodeName=a-2", "State=DRAIN", "Reason=why"),
        ("scontrol", "update", "NodeName=a-[0-1]", "State=DRAIN", f"Reason={OURS}"),
    ]


def test_the_facts_say_what_a_rollout_needs() -> None:
    facts = rolling.facts_of(KNOWN, {"busy": ["7"]}, ALL)

    assert set(facts) == set(KNOWN)
    assert (facts["busy"]["jobs"], facts["idle"]["jobs"]) == (["7"], None)
    assert [name for name, found in facts.items() if found["ours"]] == ["ours", "busy"]
    assert [name for name, found in facts.items() if found["out"]] == ["persons", "down", "ours", "busy", "taken"]
    invalid = {"x": state("x", "IDLE+INVALID_REG")}
    assert rolling.facts_of(invalid, {}, ["x"])["x"]["answers"] is False
