# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The status of the boot phase, by the steps' records and by systemd."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot import record, status
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.step import Outcome, Step
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, PASS, SKIP, UNKNOWN, WARN
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

UNIT = "hpcai-demo.service"
ENDED = {"LoadState": "loaded", "ActiveState": "inactive", "Result": "success", "Job": "0"}


class Booted(Root):
    """A folder that counts as the running machine's root, so that systemd is asked."""

    is_this_machine = True

    def at(self, path: str) -> str:
        """Return the path below the folder."""
        return os.path.join(self.path, path.lstrip("/"))


class Node:
    """A machine with systemd, whose units a test can set."""

    def __init__(self, machine: Any, make_step: Any) -> None:
        self.machine, self.make_step = machine, make_step
        self.root = Booted(str(machine.folder))
        self.units: dict[str, dict[str, str]] = {}
        (machine.folder / "run/systemd/system").mkdir(parents=True)

    def run(self, command: Sequence[str]) -> Result:
        """Answer as ``systemctl show`` does."""
        assert command[:2] == ["systemctl", "show"]
        names = command[command.index("--") + 1 :]
        blocks = [
            "".join(f"{key}={value}\n" for key, value in {"Id": name, **ENDED, **self.units.get(name, {})}.items())
            for name in names
        ]
        return Result(tuple(command), 0, "\n".join(blocks), "")

    def ended(self, outcome: Outcome, name: str = "demo") -> None:
        """Write the record of a step that has run."""
        begun = record.begun(self.root, self.make_step(outcome, name))
        record.write(self.root, record.ended(begun, outcome, 2.5))

    def look(self, *steps: Step) -> status.Status:
        """Return the status of these steps; by default of one blocking step."""
        return status.read_status(self.root, self.run, steps or (self.make_step(Outcome(PASS, "")),))


@pytest.fixture
def node(machine: Any, make_step: Any) -> Node:
    """A machine with systemd on which no step has run."""
    return Node(machine, make_step)


@pytest.mark.parametrize("verdict", [PASS, WARN, SKIP, FAIL, UNKNOWN])
@pytest.mark.parametrize("blocking", [True, False])
def test_only_a_blocking_step_that_failed_blocks(node: Node, verdict: str, blocking: bool) -> None:
    node.ended(Outcome(verdict, "so it is", "do this"))
    found = node.look(node.make_step(Outcome(PASS, ""), blocking=blocking))
    (line,) = found.lines
    assert (line.verdict, line.summary, line.action, line.seconds) == (verdict, "so it is", "do this", 2.5)
    assert found.state == (status.BLOCKED if blocking and verdict in (FAIL, UNKNOWN) else status.READY)


def test_a_step_that_has_not_run_is_unfinished(node: Node) -> None:
    found = node.look()
    assert (found.lines[0].verdict, found.state) == (status.NOT_RUN, status.UNFINISHED)


def test_a_record_of_an_earlier_boot_is_ignored(node: Node) -> None:
    node.ended(Outcome(PASS, "all is well"))
    node.machine.boot("99999999-2222-3333-4444-555555555555")
    assert node.look().lines[0].verdict == status.NOT_RUN


def test_blocked_wins_over_unfinished(node: Node) -> None:
    node.ended(Outcome(FAIL, "broken"), "first")
    steps = [node.make_step(Outcome(PASS, ""), name) for name in ("first", "second")]
    assert node.look(*steps).state == status.BLOCKED


def test_join_is_not_waited_for_but_blocks_if_it_failed(node: Node) -> None:
    """It runs when slurmd starts, and slurmd does not start on a machine that belongs to no cluster."""
    join = node.make_step(Outcome(PASS, ""), "join")
    assert node.look(join).state == status.READY
    node.ended(Outcome(FAIL, "the controller knows no such node"), "join")
    assert node.look(join).state == status.BLOCKED


def test_a_running_step_is_unfinished(node: Node) -> None:
    record.write(node.root, record.begun(node.root, node.make_step(Outcome(PASS, ""))))
    found = node.look()
    assert (found.lines[0].verdict, found.state) == (status.RUNNING, status.UNFINISHED)
    assert found.lines[0].seconds is not None
    assert found.lines[0].seconds < 60


def test_a_nonblocking_step_is_unfinished_only_while_it_runs(node: Node) -> None:
    step = node.make_step(Outcome(PASS, ""), blocking=False)
    assert node.look(step).state == status.READY
    node.units[UNIT] = {"ActiveState": "activating"}
    assert node.look(step).state == status.UNFINISHED


@pytest.mark.parametrize(
    ("unit", "verdict", "words"),
    [
        ({"ActiveState": "activating", "Job": "12"}, status.RUNNING, "systemd has started it"),
        ({"ActiveState": "inactive", "Job": "12"}, status.WAITING, "waiting for earlier steps"),
        ({"ActiveState": "failed", "Result": "timeout"}, FAIL, "systemd reports that it failed (timeout)"),
        ({"ActiveState": "failed", "Result": "exit-code"}, FAIL, "left no record"),
        ({"ActiveState": "active"}, PASS, "systemd reports that it succeeded"),
        ({"LoadState": "not-found"}, status.NOT_RUN, f"{UNIT} is not installed"),
        ({}, status.NOT_RUN, "not run in this boot"),
    ],
)
def test_without_a_record_the_state_of_the_unit_counts(
    node: Node, unit: dict[str, str], verdict: str, words: str
) -> None:
    """There is no record if /run is full, or if an earlier step still hangs."""
    node.units[UNIT] = unit
    (line,) = node.look().lines
    assert line.verdict == verdict
    assert words in line.summary


@pytest.mark.parametrize("ran", [True, False])
def test_a_masked_unit_of_a_blocking_step_blocks(node: Node, ran: bool) -> None:
    """Observed with systemd 252: "Failed to start slurmd.service: Unit hpcai-fabric.service is masked."."""
    if ran:
        node.ended(Outcome(PASS, "all is well"))
    node.units[UNIT] = {"LoadState": "masked"}
    found = node.look()
    assert (found.lines[0].verdict, found.state) == (FAIL, status.BLOCKED)
    assert f"systemctl unmask {UNIT}" in found.lines[0].action


def test_a_masked_unit_of_a_nonblocking_step_is_skipped(node: Node) -> None:
    node.units[UNIT] = {"LoadState": "masked"}
    found = node.look(node.make_step(Outcome(PASS, ""), blocking=False))
    assert (found.lines[0].verdict, found.state) == (SKIP, status.READY)


@pytest.mark.parametrize("how", ["killed", "terminated"])
def test_a_step_that_systemd_stopped_is_unknown(node: Node, how: str) -> None:
    """It hangs in a driver, and hpcnode could not end it at the step's own time limit."""
    begun = record.begun(node.root, node.make_step(Outcome(PASS, "")))
    if how == "killed":
        record.write(node.root, begun)
        (node.machine.folder / f"proc/{os.getpid()}/stat").unlink()
    else:
        record.write(node.root, record.ended(begun, Outcome(UNKNOWN, "it was interrupted"), 50))
    node.units[UNIT] = {"ActiveState": "failed", "Result": "timeout"}
    (line,) = node.look().lines
    assert (line.verdict, line.blocks) == (UNKNOWN, True)
    assert line.summary == "systemd stopped it, because it did not finish within 20 s"


def test_a_step_repaired_by_hand_wins_over_its_failed_unit(node: Node) -> None:
    node.units[UNIT] = {"ActiveState": "failed", "Result": "exit-code"}
    node.ended(Outcome(PASS, "all is well"))
    assert node.look().state == status.READY


def test_a_unit_that_runs_again_wins_over_its_old_record(node: Node) -> None:
    node.ended(Outcome(FAIL, "broken"))
    node.units[UNIT] = {"ActiveState": "activating", "Job": "9"}
    assert node.look().lines[0].verdict == FAIL, "the process of the finished step still exists"
    (node.machine.folder / f"proc/{os.getpid()}/stat").unlink()
    assert node.look().lines[0].verdict == status.RUNNING


@pytest.mark.parametrize(("unit", "state"), [({"ActiveState": "active"}, "active"), ({"LoadState": "not-found"}, None)])
def test_the_state_of_slurmd_is_reported_if_it_is_installed(
    node: Node, unit: dict[str, str], state: str | None
) -> None:
    node.units["slurmd.service"] = unit
    assert node.look().slurmd == state


def test_without_an_answer_from_systemd_the_records_count(node: Node, make_step: Any) -> None:
    node.ended(Outcome(PASS, "all is well"))
    step = make_step(Outcome(PASS, ""))
    silent = Result((), 124, "", "no answer within 120 s")
    found = status.read_status(node.root, lambda _command: silent, [step])
    assert (found.state, found.lines[0].unit) == (status.READY, None)


def test_for_another_root_folder_systemd_is_not_asked(machine: Any, make_step: Any) -> None:
    machine.perform(make_step(Outcome(PASS, "all is well")))
    (machine.folder / "run/systemd/system").mkdir(parents=True)
    found = status.read_status(machine.root, lambda _command: pytest.fail("asked"), [make_step(Outcome(PASS, ""))])
    assert found.state == status.READY
