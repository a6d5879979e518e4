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
    Drained,
    Machine,
    Marked,
    Restart,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.report import Fault
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.settings import Settings

from .playing import FULL, HUNG, LOST, NOW, RESET, consecutive, drained, node, observe, report

HOUR = 3600.0
SETTINGS = Settings(escalate=True)


def failing(fault: Fault, drains: int = 1, restarts: tuple[Restart, ...] = (), escalate: bool = True) -> NodeDecision:
    """Decide about a node that is drained for a fault and still has it."""
    times = tuple(Drain(NOW - (n + 1) * HOUR, fault.check) for n in range(drains))
    machine = Machine("vm-0", "compute-0", "host-a", drains=times, restarts=restarts, out=Drained(NOW - HOUR))
    one = observe(drained(f"hpcai: health: {fault.check}: {fault.summary}"), report(fault))
    return decide_node(one, {"vm-0": machine}, replace(SETTINGS, escalate=escalate), NOW)


def kind(done: NodeDecision) -> str:
    """The kind of the action, in one word."""
    return done.action.kind if done.action else "nothing"


@pytest.mark.parametrize(("age_s", "expected"), [(60.0, "nothing"), (399.0, "nothing"), (401.0, RESTART)])
def test_a_node_keeps_its_state_while_it_collects_diagnostics(age_s: float, expected: str) -> None:
    machine = Machine("vm-0", "compute-0", "host-a", drains=(Drain(NOW - age_s, HUNG.check),), out=Drained(NOW - age_s))
    one = observe(drained(f"hpcai: health: {HUNG.check}: {HUNG.summary}"), report(HUNG))
    done = decide_node(one, {"vm-0": machine}, replace(SETTINGS, capture_s=400.0), NOW)
    assert kind(done) == expected


@pytest.mark.parametrize("fault", [LOST, HUNG, RESET])
def test_without_escalate_nothing_is_escalated(fault: Fault) -> None:
    assert kind(failing(fault, drains=2, escalate=False)) == "nothing"


def test_a_fault_that_a_restart_can_fix_gets_a_restart() -> None:
    done = failing(HUNG)
    assert done.action
    assert done.action.kind == RESTART
    assert done.action.reason == "hpcai: health: reboot: gpu_xid: XID 79 of 0001:00:00.0: fallen off the bus"
    assert done.action.machine.restarts == (Restart(NOW, "b007b007"),)


def test_a_gpu_that_needs_a_reset_gets_a_restart_at_the_second_drain() -> None:
    assert kind(failing(RESET, drains=1)) == "nothing"
    assert kind(failing(RESET, drains=2)) == RESTART


def test_a_fault_that_a_restart_did_not_fix_is_marked_for_replacement() -> None:
    done = failing(HUNG, drains=2, restarts=(Restart(NOW - HOUR, "an older"),))
    assert done.action
    assert done.action.kind == REWRITE
    assert done.action.reason.startswith("hpcai: health: replace: gpu_xid: ")
    assert done.action.machine.marked
    assert (done.action.machine.marked.host, done.action.machine.marked.action) == ("host-a", "reboot")


def test_a_cancelled_restart_is_not_requested_again() -> None:
    assert kind(failing(HUNG, restarts=(Restart(NOW - HOUR, "b007b007"),))) == "nothing"


def test_a_restart_more_than_24_hours_ago_does_not_count() -> None:
    assert kind(failing(HUNG, restarts=(Restart(NOW - 25 * HOUR, "an older"),))) == RESTART


def test_a_hardware_fault_is_marked_for_replacement_at_once() -> None:
    done = failing(LOST)
    assert done.action
    assert done.action.machine.marked
    assert done.action.reason == "hpcai: health: replace: gpu_count: 7 of 8 GPUs: 0003:00:00.0 is not there"
    # And only once.
    one = observe(drained(done.action.reason), report(LOST))
    assert kind(decide_node(one, {"vm-0": done.action.machine}, SETTINGS, NOW)) == "nothing"


def test_three_drains_in_a_day_are_marked_whatever_the_fault() -> None:
    assert kind(failing(FULL, drains=2)) == "nothing"
    done = failing(FULL, drains=3)
    assert done.action
    assert done.action.machine.marked


def test_a_node_in_scheduling_is_drained_before_anything_else() -> None:
    done = decide_node(observe(node(), report(HUNG)), {}, SETTINGS, NOW)
    assert kind(done) == "drain"


def test_a_node_that_somebody_else_drained_is_not_restarted() -> None:
    assert kind(decide_node(observe(drained("ticket 4711"), report(HUNG)), {}, SETTINGS, NOW)) == "nothing"


def test_a_restart_that_does_not_end_gives_an_alert() -> None:
    one = observe(node(states=("IDLE", "DRAIN", "REBOOT_REQUESTED"), reason="hpcai: health: reboot: x"), report(HUNG))
    machine = Machine("vm-0", "compute-0", restarts=(Restart(NOW - 3601, "b007b007"),))
    done = decide_node(one, {"vm-0": machine}, SETTINGS, NOW)
    assert done.alert
    assert (done.alert.kind, kind(done)) == (STUCK, "nothing")
    young = replace(machine, restarts=(Restart(NOW - 3599, "b007b007"),))
    assert decide_node(one, {"vm-0": young}, SETTINGS, NOW).alert is None


OURS = "hpcai: health: gpu_count: 7 of 8 GPUs: 0003:00:00.0 is not there"


def judged(one: ObservedNode, machine: Machine | None = None, **settings: object) -> NodeDecision:
    """Decide about a node, with the records of its machine."""
    known = {machine.key: machine} if machine else {}
    return decide_node(one, known, replace(Settings(), **settings), NOW)  # type: ignore[arg-type]


def drained_machine(age: float = HOUR, drains: int = 1, **more: object) -> Machine:
    """A machine that was drained an hour ago for its GPUs."""
    times = tuple(Drain(NOW - age - n * HOUR, "gpu_count") for n in range(drains))
    made = Machine("vm-0", "compute-0", "host-a", drains=times, out=Drained(NOW - age, ("gpu_count",)))
    return replace(made, **more)  # type: ignore[arg-type]


def test_a_node_that_fails_is_drained_with_check_and_summary() -> None:
    done = judged(observe(node(), report(LOST, FULL)))
    assert done.action
    assert (done.action.kind, done.action.reason) == (DRAIN, f"{OURS} (and 1 more)")
    assert done.action.machine.drains == (Drain(NOW, "gpu_count"),)
    # The time of the report, not of the drain: reports since then count.
    assert done.action.machine.out == Drained(NOW - 60, ("gpu_count",))


@pytest.mark.parametrize("states", [("ALLOCATED",), ("MIXED", "CLOUD"), ("IDLE",)])
def test_a_node_with_jobs_is_drained_too(states: tuple[str, ...]) -> None:
    assert kind(judged(observe(node(states=states), report(LOST)))) == DRAIN


def test_a_failed_measurement_never_drains() -> None:
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
def test_a_foreign_reason_is_kept_and_its_node_is_not_resumed(reason: str, sent: object) -> None:
    assert kind(judged(observe(drained(reason), sent))) == "nothing"  # type: ignore[arg-type]


def test_a_node_that_is_down_is_left_alone() -> None:
    down = node(states=("DOWN",), reason="Node unexpectedly rebooted")
    assert kind(judged(observe(down, report(LOST)))) == "nothing"
    silent = node(states=("IDLE", "NOT_RESPONDING"))
    assert judged(observe(silent, report(LOST, age=9000))) == NodeDecision()


def test_a_node_is_resumed_when_its_check_passes_after_the_drain() -> None:
    done = judged(observe(drained(OURS), report()), drained_machine())
    assert done.action
    assert (done.action.kind, done.action.reason) == (RETURN, "")
    assert (done.action.machine.out, done.action.machine.came_back) == (None, NOW - 60)
    # The drain stays on record.
    assert done.action.machine.drains == drained_machine().drains


def test_a_report_from_before_the_drain_resumes_nothing() -> None:
    assert kind(judged(observe(drained(OURS), report(age=61)), drained_machine(age=60))) == "nothing"


def test_a_node_is_not_resumed_while_its_check_is_unknown() -> None:
    assert kind(judged(observe(drained(OURS), report(unknown=("gpu_count",))), drained_machine())) == "nothing"
    assert kind(judged(observe(drained(OURS), report(unknown=("*",))), drained_machine())) == "nothing"
    # An unknown result of another check does not matter.
    assert kind(judged(observe(drained(OURS), report(unknown=("ib_rate",))), drained_machine())) == RETURN


def test_each_check_that_failed_during_the_drain_must_pass() -> None:
    while_out = judged(observe(drained(OURS), report(LOST, FULL)), drained_machine()).machine
    assert while_out
    assert while_out.out == Drained(NOW - HOUR, ("free_space", "gpu_count"))
    assert kind(judged(observe(drained(OURS), report(unknown=("free_space",))), while_out)) == "nothing"


def test_the_reason_changes_with_the_check_and_not_with_each_value() -> None:
    done = judged(observe(drained(OURS), report(FULL)), drained_machine())
    assert done.action
    assert (done.action.kind, done.action.reason) == (REWRITE, "hpcai: health: free_space: / is full")
    other_figure = replace(LOST, summary="6 of 8 GPUs")
    assert kind(judged(observe(drained(OURS), report(other_figure)), drained_machine())) == "nothing"


def test_the_arbiter_takes_over_a_drain_by_our_prolog() -> None:
    slurms = drained("hpcai: prolog: 30-health: gpu_count: 7 of 8 (job 17)")
    done = judged(observe(slurms, report(LOST), reason_since=NOW - 90))
    assert done.action
    assert (done.action.kind, done.action.reason) == (REWRITE, OURS)
    assert done.action.machine.drains == (Drain(NOW - 90, "gpu_count"),)
    good = judged(observe(slurms, report(), reason_since=NOW - 90))
    assert kind(good) == RETURN
    assert kind(judged(observe(slurms, report(age=100), reason_since=NOW - 90))) == "nothing"


def test_a_report_between_the_query_and_the_drain_is_not_lost() -> None:
    """A node repeats the same report only after ten minutes."""
    drain = judged(observe(node(), report(LOST, age=20)))
    assert drain.action
    assert kind(judged(observe(drained(OURS), report(age=20)), drain.action.machine)) == "nothing"
    assert kind(judged(observe(drained(OURS), report(age=10)), drain.action.machine)) == RETURN


def test_a_report_between_the_query_and_the_resume_is_not_lost() -> None:
    back = judged(observe(drained(OURS), report(age=20)), drained_machine())
    assert back.action
    assert back.action.kind == RETURN
    assert kind(judged(observe(node(), report(LOST, age=20)), back.action.machine)) == "nothing"
    assert kind(judged(observe(node(), report(LOST, age=10)), back.action.machine)) == DRAIN


def test_after_the_third_drain_in_a_day_a_node_is_not_resumed() -> None:
    assert kind(judged(observe(drained(OURS), report()), drained_machine(drains=2))) == RETURN
    done = judged(observe(drained(OURS), report()), drained_machine(drains=3))
    assert done.action
    assert (done.action.kind, done.action.reason) == (REWRITE, f"{OURS} (held: 3 drains in 24 h)")
    assert done.alert
    assert done.alert.kind == HELD
    again_observed = judged(observe(drained(done.action.reason), report()), drained_machine(drains=3))
    assert (kind(again_observed), again_observed.alert) == ("nothing", done.alert)


def test_a_held_node_stays_held_when_its_drains_are_more_than_24_hours_ago() -> None:
    old = drained_machine(drains=3)
    old = replace(old, drains=tuple(replace(drain, time=drain.time - 30 * HOUR) for drain in old.drains))
    done = judged(observe(drained(f"{OURS} (held: 3 drains in 24 h)"), report()), old)
    assert kind(done) == "nothing"
    assert done.alert
    assert (done.alert.kind, "drained 3 times in 24 h" in done.alert.words) == (HELD, True)


def test_drains_more_than_24_hours_ago_do_not_count() -> None:
    old = drained_machine(drains=1)
    old = replace(old, drains=(Drain(NOW - 25 * HOUR, "x"), Drain(NOW - 24.5 * HOUR, "x"), *old.drains))
    assert kind(judged(observe(drained(OURS), report()), old)) == RETURN


def test_a_node_that_an_operator_resumed_needs_a_newer_report_to_drain() -> None:
    resumed = judged(observe(node(), report(LOST)), drained_machine())
    assert resumed.machine
    assert (kind(resumed), resumed.machine.out, resumed.machine.came_back) == ("nothing", None, NOW)
    later = replace(resumed.machine, came_back=NOW - 61)
    assert kind(judged(observe(node(), report(LOST)), later)) == DRAIN


def test_records_of_another_machine_or_host_do_not_count() -> None:
    other = replace(drained_machine(drains=3), key="vm-before")
    assert kind(judged(observe(drained(OURS), report(), reason_since=NOW - HOUR), other)) == RETURN
    moved = drained_machine(drains=3, host="host-b")
    assert kind(judged(observe(drained(OURS), report()), moved)) == RETURN


def test_a_marked_machine_is_resumed_only_on_another_host() -> None:
    mark = Marked(NOW - 60, "hpcai: health: replace: gpu_count: x", "host-a", "replace")
    assert kind(judged(observe(drained(mark.reason), report()), drained_machine(marked=mark))) == "nothing"
    moved = report(host="host-b")
    assert kind(judged(observe(drained(mark.reason), moved), drained_machine(marked=mark))) == RETURN


def test_a_check_may_have_to_fail_in_several_consecutive_runs() -> None:
    confirm = {"free_space": 3}
    assert kind(judged(observe(node(), report(consecutive(FULL, 2))), confirm=confirm)) == "nothing"
    assert kind(judged(observe(node(), report(consecutive(FULL, 3))), confirm=confirm)) == DRAIN
    # Other checks need not, and the reason names the one that counts.
    done = judged(observe(node(), report(consecutive(FULL, 1), LOST)), confirm=confirm)
    assert done.action
    assert done.action.reason.startswith("hpcai: health: gpu_count:")


@pytest.mark.parametrize("sent", [report(LOST, age=1801), report(LOST, age=-121)], ids=["old", "in the future"])
@pytest.mark.parametrize("what", [node(), drained(OURS)], ids=["in scheduling", "drained"])
def test_a_stale_report_only_gives_an_alert(what: object, sent: object) -> None:
    done = judged(observe(what, sent), drained_machine())  # type: ignore[arg-type]
    assert kind(done) == "nothing"
    assert done.alert
    assert done.alert.kind == STALE


def test_a_report_at_the_age_limit_counts() -> None:
    assert kind(judged(observe(node(), report(LOST, age=1800)))) == DRAIN


def test_a_silent_node_gives_an_alert_after_its_grace_period() -> None:
    done = judged(observe(node()))
    assert done.alert
    assert (done.alert.kind, kind(done)) == (SILENT, "nothing")
    assert judged(observe(node(), booted=NOW - 900)) == NodeDecision()


def test_an_unreadable_report_gives_an_alert() -> None:
    done = judged(observe(node(), problem="its report cannot be read: it has version 2"))
    assert done.alert
    assert done.alert.kind == UNREADABLE


def test_a_report_of_an_earlier_boot_is_ignored() -> None:
    assert judged(observe(node(), report(LOST), booted=NOW - 30)) == NodeDecision()
    assert judged(observe(drained(OURS), report(age=4000), booted=NOW - 30), drained_machine()) == NodeDecision()


def test_spare_names_and_powered_down_nodes_are_ignored() -> None:
    assert judged(observe(node(states=("DOWN",), reason="hpcai: no such instance"), report(LOST))) == NodeDecision()
    assert judged(observe(node(states=("IDLE", "CLOUD", "POWERED_DOWN")), report(LOST))) == NodeDecision()
    # The report is of its former machine.
    assert judged(observe(node(states=("IDLE", "CLOUD", "POWERING_UP")), report(LOST))) == NodeDecision()


SCRIPT = Fault("prolog", "observe", "50-mine: no licence (job 7)", blocks=True)


def test_a_node_whose_prolog_failed_is_drained_and_never_resumed() -> None:
    done = judged(observe(node(), report(SCRIPT, FULL)))
    assert done.action
    assert (done.action.kind, done.action.reason) == (DRAIN, "hpcai: prolog: 50-mine: no licence (job 7)")
    assert kind(judged(observe(drained(done.action.reason), report()), done.action.machine)) == "nothing"


def test_a_prolog_that_fails_on_a_drained_node_changes_nothing() -> None:
    assert kind(judged(observe(drained(OURS), report(SCRIPT, LOST)), drained_machine())) == "nothing"
    assert kind(judged(observe(drained(OURS), report(SCRIPT)), drained_machine())) == RETURN
