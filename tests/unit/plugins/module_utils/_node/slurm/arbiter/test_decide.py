# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the arbiter decides about one node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.actions import (
    DRAIN,
    HELD,
    RESTART,
    RETURN,
    REWRITE,
    SILENT,
    STALE,
    STUCK,
    UNREADABLE,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.decide import (
    NodeDecision,
    decide_node,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.observed import ObservedNode
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.records import (
    Drain,
    Machine,
    Marked,
    Out,
    Restart,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.report import Fault
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.settings import Settings

from .playing import FULL, HUNG, LOST, NOW, RESET, again, drained, node, observe, report

HOUR = 3600.0
SETTINGS = Settings(escalate=True)


def failing(fault: Fault, drains: int = 1, restarts: tuple[Restart, ...] = (), escalate: bool = True) -> NodeDecision:
    """What is done about a node that is out for a fault and still has it."""
    times = tuple(Drain(NOW - (n + 1) * HOUR, fault.check) for n in range(drains))
    machine = Machine("vm-0", "compute-0", "host-a", drains=times, restarts=restarts, out=Out(NOW - HOUR))
    one = observe(drained(f"hpcai: health: {fault.check}: {fault.summary}"), report(fault))
    return decide_node(one, {"vm-0": machine}, replace(SETTINGS, escalate=escalate), NOW)


def kind(done: NodeDecision) -> str:
    """What it does, in a word."""
    return done.action.kind if done.action else "nothing"


@pytest.mark.parametrize("fault", [LOST, HUNG, RESET])
def test_nothing_of_it_is_done_unasked(fault: Fault) -> None:
    assert kind(failing(fault, drains=2, escalate=False)) == "nothing"


def test_what_a_restart_mends_is_restarted() -> None:
    done = failing(HUNG)
    assert done.action
    assert done.action.kind == RESTART
    assert done.action.reason == "hpcai: health: reboot: gpu_xid: XID 79 of 0001:00:00.0: fallen off the bus"
    assert done.action.machine.restarts == (Restart(NOW, "b007b007"),)


def test_a_gpu_that_needs_a_reset_is_restarted_the_second_time() -> None:
    assert kind(failing(RESET, drains=1)) == "nothing"
    assert kind(failing(RESET, drains=2)) == RESTART


def test_what_a_restart_did_not_mend_is_marked_for_replacement() -> None:
    done = failing(HUNG, drains=2, restarts=(Restart(NOW - HOUR, "an older"),))
    assert done.action
    assert done.action.kind == REWRITE
    assert done.action.reason.startswith("hpcai: health: replace: gpu_xid: ")
    assert done.action.machine.marked
    assert (done.action.machine.marked.host, done.action.machine.marked.action) == ("host-a", "reboot")


def test_a_restart_that_somebody_called_off_is_not_asked_for_again() -> None:
    assert kind(failing(HUNG, restarts=(Restart(NOW - HOUR, "b007b007"),))) == "nothing"


def test_a_restart_of_the_day_before_counts_no_more() -> None:
    assert kind(failing(HUNG, restarts=(Restart(NOW - 25 * HOUR, "an older"),))) == RESTART


def test_a_hardware_fault_is_marked_at_once() -> None:
    done = failing(LOST)
    assert done.action
    assert done.action.machine.marked
    assert done.action.reason == "hpcai: health: replace: gpu_count: 7 of 8 GPUs: 0003:00:00.0 is not there"
    # And once.
    one = observe(drained(done.action.reason), report(LOST))
    assert kind(decide_node(one, {"vm-0": done.action.machine}, SETTINGS, NOW)) == "nothing"


def test_three_drains_in_a_day_are_marked_whatever_for() -> None:
    assert kind(failing(FULL, drains=2)) == "nothing"
    done = failing(FULL, drains=3)
    assert done.action
    assert done.action.machine.marked


def test_a_node_in_scheduling_is_drained_before_anything_else() -> None:
    done = decide_node(observe(node(), report(HUNG)), {}, SETTINGS, NOW)
    assert kind(done) == "drain"


def test_another_ones_node_is_not_restarted() -> None:
    assert kind(decide_node(observe(drained("ticket 4711"), report(HUNG)), {}, SETTINGS, NOW)) == "nothing"


def test_a_restart_that_does_not_end_is_told() -> None:
    one = observe(node(states=("IDLE", "DRAIN", "REBOOT_REQUESTED"), reason="hpcai: health: reboot: x"), report(HUNG))
    machine = Machine("vm-0", "compute-0", restarts=(Restart(NOW - 3601, "b007b007"),))
    done = decide_node(one, {"vm-0": machine}, SETTINGS, NOW)
    assert done.alert
    assert (done.alert.kind, kind(done)) == (STUCK, "nothing")
    young = replace(machine, restarts=(Restart(NOW - 3599, "b007b007"),))
    assert decide_node(one, {"vm-0": young}, SETTINGS, NOW).alert is None


OURS = "hpcai: health: gpu_count: 7 of 8 GPUs: 0003:00:00.0 is not there"


def judged(one: ObservedNode, machine: Machine | None = None, **settings: object) -> NodeDecision:
    """What is done, with a machine of which something is known."""
    known = {machine.key: machine} if machine else {}
    return decide_node(one, known, replace(Settings(), **settings), NOW)  # type: ignore[arg-type]


def out(age: float = HOUR, drains: int = 1, **more: object) -> Machine:
    """A machine that was drained an hour ago for its GPUs."""
    times = tuple(Drain(NOW - age - n * HOUR, "gpu_count") for n in range(drains))
    made = Machine("vm-0", "compute-0", "host-a", drains=times, out=Out(NOW - age, ("gpu_count",)))
    return replace(made, **more)  # type: ignore[arg-type]


def test_a_node_that_fails_is_drained_with_check_and_summary() -> None:
    done = judged(observe(node(), report(LOST, FULL)))
    assert done.action
    assert (done.action.kind, done.action.reason) == (DRAIN, f"{OURS} (and 1 more)")
    assert done.action.machine.drains == (Drain(NOW, "gpu_count"),)
    # When the report was written, not when the node was drained: what it has told since then counts.
    assert done.action.machine.out == Out(NOW - 60, ("gpu_count",))


@pytest.mark.parametrize("states", [("ALLOCATED",), ("MIXED", "CLOUD"), ("IDLE",)])
def test_jobs_on_it_are_no_hindrance(states: tuple[str, ...]) -> None:
    assert kind(judged(observe(node(states=states), report(LOST)))) == DRAIN


def test_what_could_not_be_measured_never_drains() -> None:
    assert kind(judged(observe(node(), report(unknown=("gpu_count", "ib_ports"))))) == "nothing"


@pytest.mark.parametrize(
    "reason",
    [
        "bad fan, ticket 4711",
        "",
        "NHC: gpu",
        "hpcai: boot: gpu: 7 of 8",
        "hpcai: hardware: less memory",
        "hpcai: site: could not be configured",
        "hpcai: prolog: 50-mine: exit status 1",
        "Prolog error",
    ],
)
@pytest.mark.parametrize("sent", [report(LOST), report()], ids=["fails", "good"])
def test_another_ones_reason_stays_and_its_node_does_not_return(reason: str, sent: object) -> None:
    assert kind(judged(observe(drained(reason), sent))) == "nothing"  # type: ignore[arg-type]


def test_a_node_that_is_down_is_left_alone() -> None:
    down = node(states=("DOWN",), reason="Node unexpectedly rebooted")
    assert kind(judged(observe(down, report(LOST)))) == "nothing"
    silent = node(states=("IDLE", "NOT_RESPONDING"))
    assert judged(observe(silent, report(LOST, age=9000))) == NodeDecision()


def test_it_returns_when_the_check_passes_after_the_drain() -> None:
    done = judged(observe(drained(OURS), report()), out())
    assert done.action
    assert (done.action.kind, done.action.reason) == (RETURN, "")
    assert (done.action.machine.out, done.action.machine.came_back) == (None, NOW - 60)
    # What it was drained for stays known.
    assert done.action.machine.drains == out().drains


def test_a_report_from_before_the_drain_brings_nothing_back() -> None:
    assert kind(judged(observe(drained(OURS), report(age=61)), out(age=60))) == "nothing"


def test_it_does_not_return_while_its_check_cannot_tell() -> None:
    assert kind(judged(observe(drained(OURS), report(unknown=("gpu_count",))), out())) == "nothing"
    assert kind(judged(observe(drained(OURS), report(unknown=("*",))), out())) == "nothing"
    # Another check's trouble is no hindrance.
    assert kind(judged(observe(drained(OURS), report(unknown=("ib_rate",))), out())) == RETURN


def test_each_check_that_failed_while_it_was_out_must_pass() -> None:
    while_out = judged(observe(drained(OURS), report(LOST, FULL)), out()).machine
    assert while_out
    assert while_out.out == Out(NOW - HOUR, ("free_space", "gpu_count"))
    assert kind(judged(observe(drained(OURS), report(unknown=("free_space",))), while_out)) == "nothing"


def test_its_reason_follows_the_check_and_not_each_figure() -> None:
    done = judged(observe(drained(OURS), report(FULL)), out())
    assert done.action
    assert (done.action.kind, done.action.reason) == (REWRITE, "hpcai: health: free_space: / is full")
    other_figure = replace(LOST, summary="6 of 8 GPUs")
    assert kind(judged(observe(drained(OURS), report(other_figure)), out())) == "nothing"


def test_a_drain_by_our_prolog_becomes_the_arbiters() -> None:
    slurms = drained("hpcai: prolog: 30-health: gpu_count: 7 of 8 (job 17)")
    done = judged(observe(slurms, report(LOST), reason_since=NOW - 90))
    assert done.action
    assert (done.action.kind, done.action.reason) == (REWRITE, OURS)
    assert done.action.machine.drains == (Drain(NOW - 90, "gpu_count"),)
    good = judged(observe(slurms, report(), reason_since=NOW - 90))
    assert kind(good) == RETURN
    assert kind(judged(observe(slurms, report(age=100), reason_since=NOW - 90))) == "nothing"


def test_what_it_told_between_the_look_and_the_drain_is_not_lost() -> None:
    """It does not tell the same twice before ten minutes are over."""
    drain = judged(observe(node(), report(LOST, age=20)))
    assert drain.action
    assert kind(judged(observe(drained(OURS), report(age=20)), drain.action.machine)) == "nothing"
    assert kind(judged(observe(drained(OURS), report(age=10)), drain.action.machine)) == RETURN


def test_what_it_told_between_the_look_and_the_return_is_not_lost() -> None:
    back = judged(observe(drained(OURS), report(age=20)), out())
    assert back.action
    assert back.action.kind == RETURN
    assert kind(judged(observe(node(), report(LOST, age=20)), back.action.machine)) == "nothing"
    assert kind(judged(observe(node(), report(LOST, age=10)), back.action.machine)) == DRAIN


def test_the_third_drain_in_a_day_ends_its_return() -> None:
    assert kind(judged(observe(drained(OURS), report()), out(drains=2))) == RETURN
    done = judged(observe(drained(OURS), report()), out(drains=3))
    assert done.action
    assert (done.action.kind, done.action.reason) == (REWRITE, f"{OURS} (held: 3 drains in 24 h)")
    assert done.alert
    assert done.alert.kind == HELD
    again_observed = judged(observe(drained(done.action.reason), report()), out(drains=3))
    assert (kind(again_observed), again_observed.alert) == ("nothing", done.alert)


def test_drains_of_the_day_before_count_no_more() -> None:
    old = out(drains=1)
    old = replace(old, drains=(Drain(NOW - 25 * HOUR, "x"), Drain(NOW - 24.5 * HOUR, "x"), *old.drains))
    assert kind(judged(observe(drained(OURS), report()), old)) == RETURN


def test_what_an_operator_resumed_waits_for_a_report_from_after_that() -> None:
    resumed = judged(observe(node(), report(LOST)), out())
    assert resumed.machine
    assert (kind(resumed), resumed.machine.out, resumed.machine.came_back) == ("nothing", None, NOW)
    later = replace(resumed.machine, came_back=NOW - 61)
    assert kind(judged(observe(node(), report(LOST)), later)) == DRAIN


def test_what_was_known_of_another_machine_does_not_count() -> None:
    other = replace(out(drains=3), key="vm-before")
    assert kind(judged(observe(drained(OURS), report(), reason_since=NOW - HOUR), other)) == RETURN
    moved = out(drains=3, host="host-b")
    assert kind(judged(observe(drained(OURS), report()), moved)) == RETURN


def test_a_marked_machine_returns_only_from_another_host() -> None:
    mark = Marked(NOW - 60, "hpcai: health: replace: gpu_count: x", "host-a", "replace")
    assert kind(judged(observe(drained(mark.reason), report()), out(marked=mark))) == "nothing"
    moved = report(host="host-b")
    assert kind(judged(observe(drained(mark.reason), moved), out(marked=mark))) == RETURN


def test_a_check_may_have_to_fail_several_times_running() -> None:
    confirm = {"free_space": 3}
    assert kind(judged(observe(node(), report(again(FULL, 2))), confirm=confirm)) == "nothing"
    assert kind(judged(observe(node(), report(again(FULL, 3))), confirm=confirm)) == DRAIN
    # Others need not, and the reason names the one that counts.
    done = judged(observe(node(), report(again(FULL, 1), LOST)), confirm=confirm)
    assert done.action
    assert done.action.reason.startswith("hpcai: health: gpu_count:")


@pytest.mark.parametrize("sent", [report(LOST, age=1801), report(LOST, age=-121)], ids=["old", "of tomorrow"])
@pytest.mark.parametrize("what", [node(), drained(OURS)], ids=["in", "out"])
def test_a_stale_report_does_nothing_but_tell(what: object, sent: object) -> None:
    done = judged(observe(what, sent), out())  # type: ignore[arg-type]
    assert kind(done) == "nothing"
    assert done.alert
    assert done.alert.kind == STALE


def test_a_report_that_is_just_young_enough_counts() -> None:
    assert kind(judged(observe(node(), report(LOST, age=1800)))) == DRAIN


def test_silence_is_told_once_the_node_has_had_its_time() -> None:
    done = judged(observe(node()))
    assert done.alert
    assert (done.alert.kind, kind(done)) == (SILENT, "nothing")
    assert judged(observe(node(), booted=NOW - 900)) == NodeDecision()


def test_an_unreadable_report_is_told() -> None:
    done = judged(observe(node(), problem="its report cannot be read: it has version 2"))
    assert done.alert
    assert done.alert.kind == UNREADABLE


def test_a_report_of_an_earlier_boot_says_nothing_of_this_one() -> None:
    assert judged(observe(node(), report(LOST), booted=NOW - 30)) == NodeDecision()
    assert judged(observe(drained(OURS), report(age=4000), booted=NOW - 30), out()) == NodeDecision()


def test_a_spare_name_and_a_node_that_is_switched_off_are_no_nodes() -> None:
    assert judged(observe(node(states=("DOWN",), reason="hpcai: no such instance"), report(LOST))) == NodeDecision()
    assert judged(observe(node(states=("IDLE", "CLOUD", "POWERED_DOWN")), report(LOST))) == NodeDecision()


SCRIPT = Fault("prolog", "observe", "50-mine: no licence (job 7)", blocks=True)


def test_a_node_whose_prolog_failed_is_drained_in_slurms_place_and_by_no_rule_returned() -> None:
    done = judged(observe(node(), report(SCRIPT, FULL)))
    assert done.action
    assert (done.action.kind, done.action.reason) == (DRAIN, "hpcai: prolog: 50-mine: no licence (job 7)")
    assert kind(judged(observe(drained(done.action.reason), report()), done.action.machine)) == "nothing"


def test_a_prolog_that_fails_on_a_node_that_is_out_changes_nothing() -> None:
    assert kind(judged(observe(drained(OURS), report(SCRIPT, LOST)), out())) == "nothing"
    assert kind(judged(observe(drained(OURS), report(SCRIPT)), out())) == RETURN
