# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a job that ended is requeued or held: each rule, with the case beside it that the rule must not catch."""

from __future__ import annotations

import itertools

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job import recovery
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.recovery import (
    CANCELLED,
    EXIT,
    HANG,
    HOLD,
    LEAVE,
    NODE,
    PREEMPTED,
    PREFLIGHT,
    REQUEUE,
    TIME_LIMIT,
    Decision,
    JobRun,
    Limits,
)

LIMITS = Limits(requeues=3, without_progress=2, first_wait_s=60, longest_wait_s=150)
NODES = ("c-0", "c-1", "c-2", "c-3")


def run(start: int | None, kept: int | None, status: int = 1, failed: str = "", cause: str = EXIT) -> JobRun:
    return JobRun(NODES, cause, status if cause == EXIT else None, (failed,) if failed else (), start, kept)


def decide(*runs: JobRun, limits: Limits = LIMITS, **known_bad: str) -> Decision:
    return recovery.decide(runs, limits, {name.replace("_", "-"): why for name, why in known_bad.items()})


def test_a_job_that_finished_or_was_cancelled_is_left_alone() -> None:
    assert decide(run(0, 100, status=0)).action == LEAVE
    assert decide(run(0, 0, cause=CANCELLED)).action == LEAVE


def test_a_job_that_advanced_is_requeued_at_once() -> None:
    decision = decide(run(0, 100, status=137, failed="c-2"))
    assert (decision.action, decision.wait_s, decision.leave_out) == (REQUEUE, 0, ())
    assert decision.reason == "the program ended with signal 9 on c-2; it advanced from step 0 to 100. Requeued."


def test_the_first_run_without_progress_is_requeued_after_a_wait_and_the_second_is_held() -> None:
    first = decide(run(100, 100, status=139, failed="c-1"))
    assert (first.action, first.wait_s) == (REQUEUE, 60)
    second = decide(run(100, 100, status=139, failed="c-1"), run(100, 100, status=139, failed="c-2"))
    assert second.action == HOLD
    assert "2 runs in a row made no progress (it did not advance beyond step 100)" in second.reason


def test_progress_between_two_failures_resets_the_count() -> None:
    runs = (run(0, 0, 139), run(0, 50, 139), run(50, 50, 139))
    assert decide(*runs).action == REQUEUE


def test_unknown_progress_counts_as_none() -> None:
    assert decide(run(None, None, 139)).action == REQUEUE
    held = decide(run(None, None, 139), run(None, None, 139))
    assert held.action == HOLD
    assert "its progress is unknown" in held.reason


def test_waits_grow_up_to_the_maximum() -> None:
    limits = Limits(requeues=9, without_progress=9, first_wait_s=60, longest_wait_s=150)
    runs = [run(0, 0, 139) for _turn in range(4)]
    waits = [decide(*runs[:count], limits=limits).wait_s for count in range(1, 5)]
    assert waits == [60, 120, 150, 150]


def test_the_number_of_requeues_is_bounded_even_with_progress() -> None:
    runs = [run(step, step + 10, 137) for step in range(0, 40, 10)]
    assert decide(*runs[:3]).action == REQUEUE
    held = decide(*runs)
    assert held.action == HOLD
    assert "already requeued after 3 failures" in held.reason


@pytest.mark.parametrize("cause", [TIME_LIMIT, PREEMPTED])
def test_time_limits_and_evictions_do_not_use_up_the_requeues_if_the_job_advanced(cause: str) -> None:
    runs = [run(step, step + 10, cause=cause) for step in range(0, 200, 10)]
    assert decide(*runs).action == REQUEUE
    assert decide(*runs, run(200, 210, 137)).action == REQUEUE


@pytest.mark.parametrize("cause", [TIME_LIMIT, PREEMPTED])
def test_without_progress_they_do(cause: str) -> None:
    assert decide(*[run(0, 0, cause=cause) for _turn in range(4)]).action == HOLD


def test_an_eviction_before_the_first_checkpoint_is_not_a_run_without_progress() -> None:
    decision = decide(run(0, 0, cause=PREEMPTED, failed="c-1"), run(0, 0, 139, failed="c-2"))
    assert (decision.action, decision.wait_s) == (REQUEUE, 60)


@pytest.mark.parametrize("status", sorted(recovery.USELESS))
def test_an_exit_status_that_a_restart_repeats_is_held_at_once(status: int) -> None:
    held = decide(run(0, 100, status))
    assert held.action == HOLD
    assert recovery.USELESS[status] in held.reason


@pytest.mark.parametrize("status", [1, 3, 75, 137, 143])
def test_another_exit_status_is_not(status: int) -> None:
    assert decide(run(0, 100, status)).action == REQUEUE


def test_the_same_exit_on_another_node_without_progress_is_the_programs_own_error() -> None:
    limits = Limits(without_progress=9)
    held = decide(run(0, 90, 1, "c-1"), run(90, 90, 1, "c-3"), limits=limits)
    assert held.action == HOLD
    assert "status 1 on c-1 and again on c-3, so the cause is the program" in held.reason


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(run(90, 90, 1, "c-1"), id="the same node"),
        pytest.param(run(90, 90, 4, "c-3"), id="another status"),
        pytest.param(run(90, 120, 1, "c-3"), id="it advanced"),
        pytest.param(run(90, 90, cause=HANG, failed="c-3"), id="a hang"),
    ],
)
def test_anything_else_is_not(second: JobRun) -> None:
    limits = Limits(without_progress=9)
    assert decide(run(0, 90, 1, "c-1"), second, limits=limits).action == REQUEUE


def test_signals_are_not_the_programs_own_error() -> None:
    # Two nodes may run out of memory, or an operator may kill two ranks.
    limits = Limits(without_progress=9)
    assert decide(run(0, 0, 137, "c-1"), run(0, 0, 137, "c-3"), limits=limits).action == REQUEUE


def test_a_known_fault_of_the_node_explains_the_failure_and_the_node_is_left_out() -> None:
    runs = (run(0, 0, 1, "c-1"), run(0, 0, 1, "c-3"))
    decision = decide(*runs, c_3="hpcai: gpu_count")
    assert (decision.action, decision.leave_out) == (REQUEUE, ("c-3",))
    assert decision.reason.endswith("Requeued, without c-3.")


def test_known_faults_of_nodes_that_the_job_did_not_have_are_not_listed() -> None:
    assert decide(run(0, 10, 137), x_9="hpcai: gpu_count").leave_out == ()


@pytest.mark.parametrize("cause", [NODE, PREFLIGHT])
def test_a_node_that_failed_or_was_refused_is_left_out(cause: str) -> None:
    assert decide(run(0, 10, cause=cause, failed="c-2")).leave_out == ("c-2",)


def refused(*failed: str, nodes: tuple[str, ...] = NODES, invalid: str = "") -> JobRun:
    return JobRun(nodes, PREFLIGHT, 1, failed, 0, 0, invalid)


def test_a_refusal_by_all_nodes_is_held_and_blames_none_of_them() -> None:
    held = decide(refused(*NODES))
    assert (held.action, held.leave_out) == (HOLD, ())
    assert held.reason.startswith("Held: the checks before the start refused c-[0-3]. These are all nodes of the job")
    # Also after its user has corrected the cause and released it.
    assert decide(refused(*NODES), run(0, 10, 137)).leave_out == ()


def test_a_refusal_by_some_nodes_or_by_the_only_one_leaves_them_out() -> None:
    some = decide(refused("c-0", "c-2", "c-3"))
    assert (some.action, some.leave_out) == (REQUEUE, ("c-0", "c-2", "c-3"))
    assert some.reason.startswith("the checks before the start refused c-[0,2-3]; ")
    only = decide(refused("c-0", nodes=("c-0",)))
    assert (only.action, only.leave_out) == (REQUEUE, ("c-0",))


def test_a_refusal_by_all_nodes_that_a_known_fault_explains_is_requeued_without_the_faulty_one() -> None:
    decision = decide(refused(*NODES), c_3="hpcai: gpu_count")
    assert (decision.action, decision.leave_out) == (REQUEUE, ("c-3",))


@pytest.mark.parametrize("nodes", [("c-0",), NODES])
def test_a_job_that_no_node_can_run_is_held_with_the_reason(nodes: tuple[str, ...]) -> None:
    held = decide(refused("c-0", nodes=nodes, invalid="it does not fit."), c_0="hpcai: gpu_count")
    assert held.action == HOLD
    assert held.reason.startswith("Held: no node can run this job: it does not fit. Submit a corrected script")
    assert decide(refused("c-0", nodes=nodes, invalid="it does not fit."), run(0, 10, 137)).leave_out == ()


def test_a_node_where_the_program_failed_twice_is_left_out_and_one_where_it_failed_once_is_not() -> None:
    decision = decide(run(0, 10, 137, "c-2"), run(10, 20, 137, "c-1"), run(20, 30, cause=HANG, failed="c-2"))
    assert (decision.action, decision.leave_out) == (REQUEUE, ("c-2",))


def test_no_node_is_blamed_when_several_failed_at_once_or_the_job_had_one_node() -> None:
    many = JobRun(NODES, EXIT, 137, ("c-0", "c-1"), 0, 10)
    one = JobRun(("c-0",), EXIT, 137, ("c-0",), 0, 10)
    assert decide(many, many).leave_out == ()
    assert decide(one, one).leave_out == ()


def test_every_sequence_of_failures_ends_in_a_hold() -> None:
    causes = [EXIT, NODE, HANG, PREFLIGHT, PREEMPTED, TIME_LIMIT]
    for sequence in itertools.product(causes, repeat=4):
        runs = [run(0, 0, 139, f"c-{position}", cause) for position, cause in enumerate(sequence)]
        assert decide(*runs).action == HOLD, sequence


@pytest.mark.parametrize("cause", recovery.CAUSES)
def test_each_cause_has_a_sentence(cause: str) -> None:
    decision = decide(run(0, 10, cause=cause))
    assert decision.reason.endswith(".")
