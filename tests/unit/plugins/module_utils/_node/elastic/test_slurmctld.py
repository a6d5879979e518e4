# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""slurmctld's answers as they were recorded with Slurm 22.05.8, and the commands that change slots."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.slurmctld import Slurmctld, find_lease
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.turn import (
    BLANK,
    DOWN,
    RESET,
    Change,
    NotifyJob,
    Publish,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, Result

VM = "11111111-2222-4333-8444-555555555555"
TAIL = "Partitions=gpu,all BootTime=None LastBusyTime=2026-11-26T10:00:00 CfgTRES=cpu=96"
NODES = "\n".join(
    f"NodeName={name} Arch=x86_64 NodeAddr={address} NodeHostName={name} State={state} {TAIL} {texts} "
    for name, address, state, texts in [
        ("gpu-0", "10.0.0.4", "ALLOCATED+CLOUD", f"Comment=hpcai-lease/1/{VM} Extra=hpcai1/x"),
        ("gpu-1", "127.0.0.1", "IDLE+CLOUD+POWERED_DOWN", ""),
        ("gpu-2", "127.0.0.1", "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP", ""),
        ("gpu-3", "10.0.0.7", "IDLE+CLOUD+DRAIN", "Reason=bad State=IDLE fan [op@2026-11-26T10:00:00]"),
        ("gpu-4", "127.0.0.1", "DOWN+CLOUD+POWERED_DOWN", "Reason=ResumeTimeout reached [slurm@2026-11-26T10:00:00]"),
        ("gpu-5", "10.0.0.9", "IDLE+CLOUD+POWERING_DOWN", ""),
    ]
)
JOBS = "12_3|ann|RUNNING|gpu|gpu-0\n13|bob|CONFIGURING|all|gpu-[2,5]\n"


class Commands:
    """Stands in for Slurm's commands."""

    def __init__(self, **answers: str) -> None:
        self.answers = answers
        self.ran: list[str] = []

    def run(self, command: Sequence[str]) -> Result:
        """Answer by the first two words."""
        words = " ".join(command)
        self.ran.append(words)
        for start, answer in self.answers.items():
            if f"{start} " in f"{words} ":
                return Result(tuple(command), 0, answer, "")
        return Result(tuple(command), 0, "", "")


def test_states_jobs_and_leases_are_read() -> None:
    view = Slurmctld(Commands(scontrol=NODES, squeue=JOBS).run, "Comment").view()
    nodes = view.nodes
    assert nodes["gpu-0"].lease == VM
    assert nodes["gpu-0"].joined
    assert nodes["gpu-0"].last_busy == 1795687200.0
    assert nodes["gpu-0"].partitions == ("gpu", "all")
    assert nodes["gpu-1"].free
    assert nodes["gpu-2"].coming
    assert not nodes["gpu-2"].joined
    assert nodes["gpu-3"].is_kept_by_people
    assert not nodes["gpu-3"].idle
    assert nodes["gpu-4"].down
    assert not nodes["gpu-4"].is_kept_by_people
    assert nodes["gpu-5"].away
    assert [(job.id, job.state, job.nodes) for job in view.jobs] == [
        ("12_3", "RUNNING", ("gpu-0",)),
        ("13", "CONFIGURING", ("gpu-2", "gpu-5")),
    ]


@pytest.mark.parametrize(("nodes", "jobs"), [("", JOBS), (NODES, "13|bob|gpu-2\n"), (NODES, "1|a|RUNNING|p|gpu-[x]\n")])
def test_an_answer_that_is_not_complete_is_an_error(nodes: str, jobs: str) -> None:
    with pytest.raises(CommandFailed):
        Slurmctld(Commands(scontrol=nodes, squeue=jobs).run, "Comment").view()


def test_a_node_whose_record_may_be_forged_counts_as_drained_by_a_person() -> None:
    forged = f"{NODES}\nNodeName=gpu-0 NodeAddr=10.0.0.66 State=IDLE+CLOUD+POWERED_DOWN {TAIL} "
    node = Slurmctld(Commands(scontrol=forged, squeue="").run, "Comment").view().nodes["gpu-0"]
    assert node.is_kept_by_people
    assert not node.lease


def test_a_lease_in_another_field_or_in_the_reason_is_none() -> None:
    shown = f"NodeName=gpu-0 State=IDLE {TAIL} Reason=x Comment=hpcai-lease/1/{VM} [u@2026-11-26T10:00:00] Extra=y "
    assert not Slurmctld(Commands(scontrol=shown, squeue="").run, "Comment").view().nodes["gpu-0"].lease


def test_commands_that_change_slots() -> None:
    commands = Commands()
    slurm = Slurmctld(commands.run, "Comment")
    slurm.change(Change(DOWN, ("gpu-1", "gpu-2"), "hpcai: elastic: X: y"))
    slurm.change(Change(RESET, ("gpu-4",)))
    slurm.change(Change(BLANK, ("gpu-4", "gpu-5")))
    slurm.publish(Publish("gpu-2", "10.0.0.5", "gpu00001", VM))
    assert commands.ran == [
        "scontrol update NodeName=gpu-[1-2] State=DOWN Reason=hpcai: elastic: X: y",
        "scontrol update NodeName=gpu-4 State=POWER_DOWN",
        "scontrol update NodeName=gpu-4 State=RESUME",
        "scontrol update NodeName=gpu-[4-5] NodeAddr=127.0.0.1,127.0.0.1 NodeHostName=gpu-[4-5] Comment=",
        f"scontrol update NodeName=gpu-2 NodeAddr=10.0.0.5 NodeHostName=gpu00001 Comment=hpcai-lease/1/{VM}",
    ]


@pytest.mark.parametrize(("partitions", "starts"), [("a,b\n", True), ("a\n", False)])
def test_a_job_starts_at_once_only_if_another_set_can_take_it(partitions: str, starts: bool) -> None:
    commands = Commands(squeue=partitions)
    Slurmctld(commands.run, "Comment").notify_job(NotifyJob("7", "hpcai: elastic: X", frozenset({"b"})))
    assert any("JobId=7 AdminComment=hpcai: elastic: X" in words for words in commands.ran)
    assert any("JobId=7 StartTime=now" in words for words in commands.ran) is starts


def test_a_machine_finds_its_lease_by_its_vm_id_only() -> None:
    commands = Commands(scontrol=NODES)
    found = find_lease(VM, ["10.0.0.1"], commands.run)
    assert found
    assert found.name == "gpu-0"
    assert find_lease(VM[:-1], ["10.0.0.1"], commands.run) is None


def test_a_job_starts_elsewhere_only_after_its_program_has_noticed_the_failure() -> None:
    commands = Commands(squeue="a,b\n")
    slept: list[float] = []
    slurm = Slurmctld(commands.run, "Comment", lambda: 100.0, slept.append)
    slurm.notify_job(NotifyJob("7", "hpcai: elastic: X", frozenset({"b"})))
    slurm.change(Change(DOWN, ("gpu-0",), "hpcai: elastic: X"))
    slurm.notify_job(NotifyJob("7", "hpcai: elastic: X", frozenset({"b"})))
    # Slurm considers a job only when its PrologSlurmctld has ended, which looks every second.
    assert slept == [0.0, 2.0]
    assert "StartTime=now" in commands.ran[-1]
