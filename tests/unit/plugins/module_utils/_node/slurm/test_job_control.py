# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which nodes are drained before they are removed, which cannot be removed yet, and how new jobs are held."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import job_control
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.hostlist import HostlistError
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.nodes import NodeState


def known(**states: str) -> dict[str, NodeState]:
    """Nodes n1, n2 ... by "STATE+FLAG reason"."""
    found = {}
    for name, shown in states.items():
        state, _blank, reason = shown.partition(" ")
        found[name] = NodeState(name, tuple(state.split("+")), reason)
    return found


def test_nodes_that_take_jobs_or_are_only_silent_are_drained() -> None:
    made = job_control.plan_drain(known(n1="IDLE", n2="MIXED", n3="DOWN Not responding"), ["n1", "n2", "n3"])
    assert made.drain == ("n1", "n2", "n3")


def test_the_reason_of_a_drained_node_is_kept() -> None:
    made = job_control.plan_drain(known(n1="IDLE+DRAIN bad fan"), ["n1"])
    assert (made.drain, dict(made.drain_as_it_is)) == ((), {})


def test_a_node_that_somebody_set_down_is_drained_with_its_own_reason() -> None:
    made = job_control.plan_drain(known(n1="DOWN bad fan"), ["n1"])
    assert (made.drain, dict(made.drain_as_it_is)) == ((), {"n1": "bad fan"})


def test_an_unknown_node_is_named_once() -> None:
    assert job_control.plan_drain(known(n1="IDLE"), ["n2", "n2"]).unknown == ("n2",)


def test_jobs_are_read_by_one_command_and_suspended_ones_count() -> None:
    asked = []

    def run(command: object) -> Result:
        asked.append(command)
        return Result((), 0, "4711|alice|RUNNING|n-[1-2]\n12|bob|SUSPENDED|n-3\n", "")

    jobs = job_control.jobs_on(["n-1", "n-2", "n-3"], run)
    assert [(str(job), job.nodes) for job in jobs] == [
        ("4711 (alice, running)", ("n-1", "n-2")),
        ("12 (bob, suspended)", ("n-3",)),
    ]
    (command,) = asked
    assert "--nodelist=n-[1-3]" in command  # type: ignore[operator]
    assert "SUSPENDED" in str(command)


def test_an_unreadable_queue_does_not_count_as_empty() -> None:
    with pytest.raises(HostlistError, match="which is not a job"):
        job_control.parse_jobs("slurm_load_jobs error\n")
    with pytest.raises(CommandFailed):
        job_control.jobs_on(["n1"], lambda command: Result(tuple(command), 1, "", "Unable to contact slurm controller"))


def test_a_node_is_busy_by_its_jobs_or_by_its_state() -> None:
    nodes = known(n1="IDLE+DRAIN", n2="ALLOCATED+DRAIN", n3="IDLE+COMPLETING+DRAIN", n4="DOWN+DRAIN")
    jobs = [job_control.Job("7", "alice", "SUSPENDED", ("n1",)), job_control.Job("8", "bob", "RUNNING", ("other",))]
    assert job_control.busy(nodes, ["n1", "n2", "n3", "n4"], jobs) == {
        "n1": ["7 (alice, suspended)"],
        "n2": [],
        "n3": [],
    }


HELD = "ReservationName=hpcai-new-nodes StartTime=2026-11-24T11:11:15\n"


class Reservations:
    """A fake slurmctld that shows this reservation, and records and perhaps refuses what changes it."""

    def __init__(self, shown: str = "", rc: int = 0) -> None:
        self.shown, self.rc = shown, rc
        self.commands: list[str] = []

    def __call__(self, command: Sequence[str]) -> Result:
        if "show" in command:
            return Result(tuple(command), 0 if self.shown else 1, self.shown, "")
        self.commands.append(" ".join(command))
        return Result(tuple(command), self.rc, "", "Access/permission denied\n")


def test_new_jobs_are_held_by_a_reservation_of_all_nodes_that_ends_by_itself() -> None:
    slurmctld = Reservations()
    job_control.hold_new_jobs(slurmctld)
    assert slurmctld.commands == [
        "scontrol create reservation ReservationName=hpcai-new-nodes Duration=5 StartTime=now Nodes=ALL Users=root "
        "Flags=MAINT,IGNORE_JOBS"
    ]


def test_a_reservation_that_an_interrupted_run_left_is_extended() -> None:
    slurmctld = Reservations(HELD)
    job_control.hold_new_jobs(slurmctld)
    assert slurmctld.commands == ["scontrol update ReservationName=hpcai-new-nodes EndTime=now+5minutes"]


def test_jobs_are_released_by_deleting_the_reservation() -> None:
    slurmctld = Reservations(HELD)
    job_control.release_new_jobs(slurmctld)
    assert slurmctld.commands == ["scontrol delete ReservationName=hpcai-new-nodes"]


@pytest.mark.parametrize("shown", ["", HELD])
def test_a_refusal_to_hold_or_release_jobs_is_reported(shown: str) -> None:
    for act in (job_control.hold_new_jobs, job_control.release_new_jobs):
        with pytest.raises(CommandFailed, match="Access/permission denied"):
            act(Reservations(shown, rc=1))


def run_checks(codes: dict[str, int], fails: bool) -> tuple[bool, list[str]]:
    """Whether the job of the checks ends well if its tiers end so, and which tiers ran."""
    *_words, last = job_control.health_check_job("gpu-1", "gpu", "check", tiers=list(codes), fails=fails)
    script = last.replace("--wrap=", "", 1)
    for tier, code in codes.items():
        script = script.replace(f"/usr/bin/hpcnode health run {tier}", f"(echo {tier}; exit {code})")
    ended = subprocess.run(["sh", "-c", script], check=False, capture_output=True, text=True)
    return ended.returncode == 0, ended.stdout.split()


@pytest.mark.parametrize(("code", "passes"), [(0, True), (1, False), (2, True), (124, False)])
def test_a_check_job_fails_if_a_check_does_and_not_if_nothing_could_be_measured(code: int, passes: bool) -> None:
    assert run_checks({"deep": code}, fails=True) == (passes, ["deep"])
    assert run_checks({"boot": 2, "deep": code}, fails=True) == (passes, ["boot", "deep"])
    assert run_checks({"boot": code, "deep": 0}, fails=True) == (passes, ["boot", "deep"] if passes else ["boot"])


def test_a_check_job_ends_well_if_nobody_waits_for_its_result() -> None:
    assert run_checks({"boot": 1, "deep": 1}, fails=False) == (True, ["boot", "deep"])


def test_a_check_job_runs_only_the_deep_checks_by_default() -> None:
    *_words, last = job_control.health_check_job("gpu-1", "gpu", "check")
    assert last.count("hpcnode health run") == last.count("hpcnode health run deep") == 1
