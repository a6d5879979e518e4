# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Replacing Slurm's own drain reason with the cause, and no other reason."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.hooks import failures
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.hooks.failures import (
    DONE,
    LEAVE,
    LIMIT_S,
    REWRITE,
    WAIT,
    Failure,
    Reported,
    plan,
    report_all,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.node_queries import NoController
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.nodes import LONGEST_REASON, parse_nodes
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.slurmd_env import ENV_FILE, slurmd_env

from .conftest import Node

FAILURE = Failure("prolog", "17", "one", "50-gpu", "exit status 1", "GPU 3 is missing", time="2026-11-22T08:00:00Z")
REASON = "hpcai: prolog: 50-gpu: GPU 3 is missing (job 17)"
SLURMS = "State=IDLE+DRAIN Reason=Prolog error [slurm@2026-11-22T08:00:01]"


@pytest.mark.parametrize(
    ("shown", "planned"),
    [
        (SLURMS, REWRITE),
        ("State=MIXED+DRAIN Reason=Prolog error [slurm@2026-11-22T08:00:01]", REWRITE),
        ("State=IDLE", WAIT),
        ("State=ALLOCATED", WAIT),
        # It was resumed: no reason is set before it is drained again.
        ("State=IDLE Reason=Prolog error [slurm@2026-11-22T08:00:01]", WAIT),
        ("State=DOWN+NOT_RESPONDING Reason=Not responding [slurm@2026-11-22T08:00:01]", WAIT),
        ("State=IDLE+DRAIN Reason=Epilog error [slurm@2026-11-22T08:00:01]", LEAVE),
        ("State=IDLE+DRAIN Reason=Prolog error, ticket 12 [op@2026-11-22T08:00:01]", LEAVE),
        ("State=IDLE+DRAIN Reason=bad fan [op@2026-11-22T08:00:01]", LEAVE),
        ("State=IDLE+DRAIN Reason=hpcai: boot: gpu: 7 of 8 GPUs answer [root@2026-11-22T08:00:01]", LEAVE),
        (f"State=IDLE+DRAIN Reason={REASON} [root@2026-11-22T08:00:01]", DONE),
    ],
)
def test_only_slurms_own_drain_reason_is_replaced(shown: str, planned: str) -> None:
    node = parse_nodes(f"NodeName=compute-17 NodeAddr=10.0.0.9 {shown} \n")["compute-17"]
    assert plan(node, FAILURE) == planned
    assert plan(None, FAILURE) == WAIT


def test_an_epilog_replaces_its_own_drain_reason_only() -> None:
    node = parse_nodes("NodeName=n State=IDLE+DRAIN Reason=Epilog error [slurm@2026-11-22T08:00:01]\n")["n"]
    assert plan(node, replace(FAILURE, kind="epilog")) == REWRITE
    assert plan(node, replace(FAILURE, kind="health")) == LEAVE


class Slurm:
    """A slurmctld that answers with the next item of ``shown``, and a clock that advances only in ``pause``."""

    def __init__(self, node: Node, *shown: str) -> None:
        self.node = node
        self.shown = list(shown)
        self.updates: list[list[str]] = []
        self.now = 0.0
        self.away = 0
        node.file(ENV_FILE, slurmd_env("compute-17", ["10.0.0.4"]))

    def run(self, command: Sequence[str]) -> Result:
        """Stand in for scontrol."""
        words = list(command[command.index("scontrol") + 1 :])
        if "show" in words:
            shown = self.shown.pop(0) if len(self.shown) > 1 else self.shown[0]
            return Result(tuple(command), 0, f"NodeName=compute-17 NodeAddr=10.0.0.9 {shown} \n", "")
        self.updates.append(words)
        return Result(tuple(command), 0, "", "")

    def find_own_address(self, _controllers: Sequence[str]) -> str:
        """Stand in for the connection."""
        if self.away > 0:
            self.away -= 1
            raise NoController("10.0.0.4:6817: Connection refused")
        return "10.0.0.9"

    def pause(self, seconds: float) -> None:
        """Advance the clock."""
        self.now += seconds

    def report(self) -> list[Reported]:
        """Report the recorded failures."""
        return report_all(self.node.root, self.run, self.find_own_address, lambda: self.now, self.pause)


def test_the_cause_is_reported_once_after_slurm_drained_the_node(node: Node) -> None:
    failures.record_failure(node.root, FAILURE, True)
    slurm = Slurm(node, "State=ALLOCATED", "State=ALLOCATED", SLURMS)
    slurm.away = 2
    [reported] = slurm.report()
    assert reported.known
    assert slurm.updates == [["update", "NodeName=compute-17", f"Reason={REASON}"]]
    assert node.waiting() == []
    assert slurm.report() == []
    assert node.failure() == FAILURE


def test_an_operators_reason_stays(node: Node) -> None:
    failures.record_failure(node.root, FAILURE, True)
    slurm = Slurm(node, "State=IDLE+DRAIN Reason=bad fan [op@2026-11-22T08:00:01]")
    [reported] = slurm.report()
    assert (reported.known, slurm.updates, node.waiting()) == (True, [], [])
    assert "bad fan" in reported.summary


def test_reporting_gives_up_after_a_limited_time_and_number_of_queries(node: Node) -> None:
    failures.record_failure(node.root, FAILURE, True)
    slurm = Slurm(node, "State=IDLE")
    asked: list[str] = []
    run = slurm.run
    slurm.run = lambda command: asked.append("") or run(command)  # type: ignore[method-assign,func-returns-value]
    [reported] = slurm.report()
    assert not reported.known
    assert LIMIT_S <= slurm.now < LIMIT_S + 20
    assert len(asked) < 40
    # No record is left that would start the unit again and again.
    assert node.waiting() == []


def test_a_record_of_an_earlier_boot_is_removed(node: Node) -> None:
    failures.record_failure(node.root, FAILURE, True)
    node.file("/proc/sys/kernel/random/boot_id", "two\n")
    slurm = Slurm(node, SLURMS)
    assert (slurm.report(), slurm.updates, node.failure()) == ([], [], None)
    assert list(node.path(failures.TO_REPORT).iterdir()) == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 2}', json.dumps({"schema": 1, "kind": "prolog"})])
def test_an_invalid_record_is_removed(node: Node, text: str) -> None:
    path = node.file(f"{failures.TO_REPORT}/prolog.json", text)
    assert Slurm(node, SLURMS).report() == []
    assert not path.exists()


def test_removing_a_record_keeps_a_newer_one(node: Node) -> None:
    failures.record_failure(node.root, FAILURE, True)
    failures.record_failure(node.root, replace(FAILURE, job="18"), True)
    failures.forget(node.root, FAILURE)
    assert node.waiting() == ["prolog"]


def test_a_machine_without_a_name_in_slurm_reports_nothing(node: Node) -> None:
    failures.record_failure(node.root, FAILURE, True)
    slurm = Slurm(node, SLURMS)
    node.path(ENV_FILE).unlink()
    [reported] = slurm.report()
    assert (reported.known, slurm.updates) == (True, [])


def test_a_long_reason_is_shortened_but_keeps_the_job() -> None:
    long = replace(FAILURE, last_line="word " * 200)
    assert len(long.reason) <= LONGEST_REASON
    assert long.reason.endswith("... (job 17)")


def test_a_reason_is_one_line_of_plain_characters() -> None:
    odd = replace(FAILURE, last_line='GPU "3"\x1b[31m is gone\tnow \u2026')
    assert odd.reason == "hpcai: prolog: 50-gpu: GPU '3'?[31m is gone now ? (job 17)"
