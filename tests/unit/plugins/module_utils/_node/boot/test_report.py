# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The drain reason that a node gets in Slurm when its boot phase fails."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot import record
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.report import report
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.step import Context, Outcome, Step
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, PASS, SKIP, UNKNOWN, WARN
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.node_queries import NoController
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.nodes import LONGEST_REASON, as_reason
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.slurmd_env import ENV_FILE, slurmd_env

BOOT_ID = "/proc/sys/kernel/random/boot_id"
REASON = "hpcai: boot: gpu: 7 of 8 GPUs answer"


def nothing(_context: Context) -> Outcome:
    """Fail: no step may run."""
    raise AssertionError


STEPS = tuple(
    Step(name, name, blocking, 5, nothing)
    for name, blocking in (("key", True), ("gpu", True), ("scratch", True), ("clocks", False), ("join", True))
)


class Node:
    """A machine with records of steps, and a slurmctld that shows the machine's node as ``shown``."""

    def __init__(self, path: pathlib.Path, shown: str = "State=IDLE", **verdicts: str) -> None:
        self.root = Root(str(path))
        self.shown = shown
        self.rc = 0
        self.updates: list[list[str]] = []
        self.write(BOOT_ID, "one\n")
        self.write(ENV_FILE, slurmd_env("compute-17", ["10.0.0.4"]))
        for name, verdict in (verdicts or {"key": PASS, "gpu": FAIL, "scratch": UNKNOWN}).items():
            step = next(step for step in STEPS if step.name == name)
            summary = "7 of 8 GPUs answer" if name == "gpu" else "it is bad"
            record.write(self.root, record.ended(record.begun(self.root, step), Outcome(verdict, summary), 1.0))

    def write(self, path: str, text: str) -> None:
        """Write a file of the machine."""
        file = pathlib.Path(self.root.at(path))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def run(self, command: Sequence[str]) -> Result:
        """Stand in for scontrol."""
        words = list(command[command.index("scontrol") + 1 :])
        if "show" in words:
            if not self.shown:
                return Result(tuple(command), 1, "Node compute-17 not found\n", "")
            return Result(tuple(command), 0, f"NodeName=compute-17 NodeAddr=10.0.0.9 {self.shown} \n", "")
        self.updates.append(words)
        return Result(tuple(command), self.rc, "", "slurm_update error: Invalid node name specified\n" * self.rc)

    def report(self) -> Outcome:
        """Report to Slurm."""
        return report(self.root, self.run, STEPS, lambda _controllers: "10.0.0.9")


@pytest.mark.parametrize(
    "shown",
    [
        "State=IDLE",
        "State=MIXED",
        "State=DOWN+CLOUD Reason=hpcai: no such instance [root@2026-11-21T18:16:10]",
        "State=DOWN+NOT_RESPONDING Reason=Not responding [slurm@2026-11-21T18:16:10]",
        "State=DOWN+DRAIN Reason=hpcai: boot: key: it is bad [root@2026-11-21T18:16:10]",
        # It still has the reason, but is no longer drained.
        f"State=IDLE Reason={REASON} [root@2026-11-21T18:16:10]",
        "",
    ],
)
def test_first_failed_blocking_step_becomes_the_drain_reason(tmp_path: pathlib.Path, shown: str) -> None:
    node = Node(tmp_path, shown)
    assert node.report().verdict == PASS
    assert node.updates == [["update", "NodeName=compute-17", "State=DRAIN", f"Reason={REASON}"]]


@pytest.mark.parametrize(
    "shown",
    [
        "State=IDLE+DRAIN Reason=bad fan, ticket 4711 [op@2026-11-21T18:16:10]",
        "State=DOWN Reason=disk broken [op@2026-11-21T18:16:10]",
        "State=DOWN+DRAIN Reason=hpcai: site: could not be configured [root@2026-11-21T18:16:10]",
    ],
)
def test_foreign_drain_reason_stays(tmp_path: pathlib.Path, shown: str) -> None:
    node = Node(tmp_path, shown)
    done = node.report()
    assert (done.verdict, node.updates) == (SKIP, [])
    assert "keeps its reason" in done.summary


def test_same_drain_reason_is_not_set_again(tmp_path: pathlib.Path) -> None:
    node = Node(tmp_path, f"State=IDLE+DRAIN Reason={REASON} [root@2026-11-21T18:16:10]")
    assert (node.report().verdict, node.updates) == (PASS, [])


@pytest.mark.parametrize(
    "verdicts", [{"key": PASS, "gpu": SKIP}, {"gpu": WARN}, {"clocks": FAIL}, {"join": FAIL}, {"gpu": PASS}]
)
def test_is_skipped_if_no_step_before_join_blocks(tmp_path: pathlib.Path, verdicts: dict[str, str]) -> None:
    node = Node(tmp_path, **verdicts)
    assert (node.report().verdict, node.updates) == (SKIP, [])


def test_unknown_step_becomes_the_drain_reason(tmp_path: pathlib.Path) -> None:
    node = Node(tmp_path, scratch=UNKNOWN)
    assert node.report().verdict == PASS
    assert node.updates[0][-1] == "Reason=hpcai: boot: scratch: it is bad"


def test_records_of_an_earlier_boot_are_ignored(tmp_path: pathlib.Path) -> None:
    node = Node(tmp_path)
    node.write(BOOT_ID, "two\n")
    assert (node.report().verdict, node.updates) == (SKIP, [])


def test_machine_without_slurmd_env_is_skipped(tmp_path: pathlib.Path) -> None:
    node = Node(tmp_path)
    pathlib.Path(node.root.at(ENV_FILE)).unlink()
    assert (node.report().verdict, node.updates) == (SKIP, [])


def test_failure_to_report_is_unknown_and_not_raised(tmp_path: pathlib.Path) -> None:
    node = Node(tmp_path)

    def away(_controllers: Sequence[str]) -> str:
        raise NoController("10.0.0.4:6817: timed out")

    def no_munge(command: Sequence[str]) -> Result:
        return Result(tuple(command), 1, "", "scontrol: error: Munge encode failed\n")

    for outcome, words in (
        (report(node.root, node.run, STEPS, away), "10.0.0.4:6817: timed out"),
        (report(node.root, no_munge, STEPS, lambda _controllers: "10.0.0.9"), "Munge encode failed"),
    ):
        assert outcome.verdict == UNKNOWN
        assert words in outcome.summary
    node.rc, node.shown = 1, ""
    assert "knows no node compute-17" in node.report().summary
    node.write(ENV_FILE, "")
    assert node.report().verdict == UNKNOWN


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a  b\n c\t\r d", "a b c d"),
        ('said "no"', "said 'no'"),
        ("Gerät fehlt", "Ger?t fehlt"),
    ],
)
def test_reason_is_one_plain_line(text: str, reason: str) -> None:
    assert as_reason(text) == reason


def test_long_reason_is_cut() -> None:
    assert as_reason("x" * LONGEST_REASON) == "x" * LONGEST_REASON
    cut = as_reason("word " * 100)
    assert len(cut) <= LONGEST_REASON
    assert cut.endswith(" wo...")
