# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""hpcnode elastic: what an administrator asks for reaches the daemon, and what its status says."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import elastic
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.command import BAD, GOOD, UNKNOWN, USAGE
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main import main
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic import settle, spool, status
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.daemon import Daemon
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.settings import FORM
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.turn import POWER_UP, Change
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import as_config
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

from ..elastic.world import ID, Azure, World


class Machine(Root):
    """A controller in a folder."""

    is_this_machine = True

    def at(self, path: str) -> str:
        return os.path.join(self.path, path.lstrip("/"))


class Controller:
    """A controller with its daemon, over models of Slurm and Azure; all clocks show the simulated time."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.world, self.root, self._capsys = World(), Machine(str(folder)), capsys
        self.ran: list[str] = []
        for path in (spool.SPOOL, spool.CONTROL, "/etc/hpcai"):
            os.makedirs(self.root.at(path))
        given = {"sets": {"gpu": {"id": f"{ID}gpu", "max": 6}}, "metrics": ""}
        Path(self.root.at("/etc/hpcai/elastic.json")).write_text(as_config(given), encoding="utf-8")
        self.daemon = Daemon(self.root, self.run, FORM("", given), self.world.slurm, Azure(self.world.arms))
        monkeypatch.setattr(elastic, "Root", lambda _path: self.root)
        monkeypatch.setattr(elastic, "run", self.run)
        monkeypatch.setattr(elastic.time, "time", lambda: self.world.now)

    def run(self, command: Sequence[str]) -> Result:
        self.ran.append(" ".join(command))
        return Result(tuple(command), 0, "", "")

    def passes(self, count: int = 1) -> list[str]:
        """The daemon makes passes, and returns its lines."""
        lines: list[str] = []
        for _number in range(count):
            self.world.tick(15)
            lines += self.daemon.one_pass(self.world.now, self.world.now)[1]
        return lines

    def runs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """From now on, the daemon makes a pass in each second that a command waits."""

        def sleep(seconds: float) -> None:
            self.world.tick(seconds)
            self.daemon.one_pass(self.world.now, self.world.now)

        again = functools.partial(status.read_again, clock=lambda: self.world.now, sleep=sleep)
        monkeypatch.setattr(status, "read_again", again)

    def call(self, *words: str) -> tuple[int, str]:
        """Run a command, and return its exit status and what it prints."""
        code = main(["elastic", *words])
        shown = self._capsys.readouterr()
        return code, shown.out + shown.err


@pytest.fixture
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Controller:
    """A controller whose daemon has made a pass."""
    made = Controller(tmp_path, monkeypatch, capsys)
    made.passes()
    return made


@pytest.mark.parametrize(("given", "seconds"), [("30s", 30), ("90m", 5400), ("8h", 28800), ("2d", 172800)])
def test_keep_keeps_nodes_for_a_time_and_0_ends_it(controller: Controller, given: str, seconds: int) -> None:
    end = controller.world.now + seconds
    assert controller.call("keep", "gpu-[0-1]", "--for", given) == (GOOD, f"keeps gpu-[0-1] for {given}\n")
    assert any(f"keeps gpu-0, gpu-1 for {seconds} s" in line for line in controller.passes())
    assert controller.daemon._reconciler.book.keep == {"gpu-0": end, "gpu-1": end}
    assert "kept until 2023-11-" in controller.call("status")[1]
    assert controller.call("keep", "gpu-0", "--for", "0") == (GOOD, "no longer keeps gpu-0\n")
    controller.passes()
    assert controller.daemon._reconciler.book.keep.keys() == ({"gpu-1"} if seconds > 30 else set())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["keep", "gpu-0", "--for", "8"], "give a number with s, m, h or d"),
        (["keep", "gpu-0", "--for", "1w"], "give a number with s, m, h or d"),
        (["keep", "gpu-0", "--for=-1h"], "give a number with s, m, h or d"),
        (["keep", "gpu-9", "--for", "8h"], "gpu-9: not a node of an elastic set"),
        (["keep", "gpu-[", "--for", "8h"], "gpu-["),
        (["pause", "cpu"], "cpu: the elastic sets are gpu"),
        (["resume", "cpu"], "cpu: the elastic sets are gpu"),
        (["adopt", "cpu"], "cpu: the elastic sets are gpu"),
    ],
)
def test_wrong_usage_leaves_no_request(controller: Controller, words: list[str], message: str) -> None:
    code, shown = controller.call(*words)
    assert code == USAGE
    assert message in shown
    assert not controller.root.entries(spool.CONTROL)


def test_pause_stops_all_changes_until_resume(controller: Controller) -> None:
    assert controller.call("pause") == (GOOD, "pauses gpu\n")
    job = controller.world.slurm.submit(1, 600)
    assert any("gpu: paused by an administrator" in line for line in controller.passes())
    controller.passes(20)
    assert controller.world.arm.changes == 0
    assert "(paused)" in controller.call("status")[1]
    assert controller.call("resume", "gpu") == (GOOD, "opens gpu\n")
    controller.passes(20)
    assert job.state == "RUNNING"
    assert "(paused)" not in controller.call("status")[1]


def test_without_the_daemon_a_request_is_left_and_the_command_says_so(controller: Controller) -> None:
    controller.world.now += 700
    assert controller.call("pause") == (UNKNOWN, "pauses gpu, as soon as hpcai-elastic.service runs\n")
    assert len(controller.root.entries(spool.CONTROL)) == 1
    code, shown = controller.call("status")
    assert code == UNKNOWN
    assert shown.startswith("the daemon last ran 700 s ago")


def test_adopt_reads_the_set_and_powers_up_a_slot_for_each_instance_without_a_lease(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller.runs(monkeypatch)
    assert controller.call("adopt", "gpu") == (GOOD, "gpu has no instance without a lease\n")
    controller.world.arm.person_grows(2)
    # The daemon reads a set without nodes every 5 minutes.
    began = controller.world.now
    assert controller.call("adopt", "gpu") == (GOOD, "gpu-0, gpu-1 get the instances without a lease\n")
    assert controller.world.now - began <= 5
    assert controller.ran == ["scontrol update NodeName=gpu-[0-1] State=POWER_UP"]
    assert "2 instances without a lease" in controller.call("status")[1]
    controller.world.slurm.change(Change(POWER_UP, ("gpu-0", "gpu-1")))
    controller.passes(10)
    assert controller.call("status")[1].startswith("gpu: 4 off, 2 joined\n")
    assert (controller.world.arm.created, controller.world.arm.changes) == (2, 0)


def test_adopt_without_a_free_slot_changes_nothing(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    controller.world.slurm.submit(6, 1e9)
    controller.passes(20)
    controller.world.arm.person_grows(1)
    controller.runs(monkeypatch)
    assert controller.call("adopt", "gpu") == (BAD, "gpu has no free slot\n")
    assert not controller.ran


def test_adopt_does_not_use_a_slot_that_a_person_has_drained(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller.world.slurm.drain("gpu-0", "bad slot in the rack")
    controller.world.arm.person_grows(1)
    controller.runs(monkeypatch)
    assert controller.call("adopt", "gpu") == (GOOD, "gpu-1 get the instances without a lease\n")


def test_adopt_says_that_azure_does_not_answer(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    controller.world.arm.person_grows(1)
    controller.world.arm.list_faults = ["failed"] * 9
    controller.runs(monkeypatch)
    code, shown = controller.call("adopt", "gpu")
    assert (code, controller.ran) == (UNKNOWN, [])
    assert "gpu has no known instance without a lease, but: gpu: " in shown


def test_adopt_names_a_set_that_the_daemon_does_not_know_yet(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "read_again", lambda _root, _name: {"sets": {}, "problems": []})
    code, shown = controller.call("adopt", "gpu")
    assert code == UNKNOWN
    assert "the daemon does not know gpu yet: run 'systemctl restart hpcai-elastic'" in shown


def test_adopt_does_not_wait_for_ever_for_a_daemon_that_does_not_run(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = functools.partial(status.read_again, clock=lambda: controller.world.now, sleep=controller.world.tick)
    monkeypatch.setattr(status, "read_again", again)
    began = controller.world.now
    code, shown = controller.call("adopt", "gpu")
    assert (code, controller.world.now - began) == (UNKNOWN, 60)
    assert shown == "the daemon has not read the set in time: see 'systemctl status hpcai-elastic'\n"


@pytest.mark.parametrize(("boots", "code"), [([], GOOD), (["never"] * 9, BAD)])
def test_settle_waits_for_the_machines_that_jobs_have_ordered(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, boots: list[str], code: int
) -> None:
    def sleep(_seconds: float) -> None:
        controller.passes()

    at_this_clock = functools.partial(settle.wait, clock=lambda: controller.world.now, sleep=sleep)
    monkeypatch.setattr(settle, "wait", at_this_clock)
    controller.passes()
    since = int(controller.world.now)
    controller.world.arm.next_boot = boots
    controller.world.slurm.submit(2, 1e9)

    answered, words = controller.call("settle", "gpu", "--since", str(since))
    assert answered == code, words
    assert ("gpu-0, gpu-1 joined" if code == GOOD else "it did not join within") in words
    # What failed before does not count, and what runs is not waited for.
    later = str(int(controller.world.now))
    assert controller.call("settle", "gpu", "--since", later) == (GOOD, "gpu: no machine is on its way\n")


def test_status_shows_the_lease_the_order_the_error_and_who_keeps_a_node(controller: Controller) -> None:
    world = controller.world
    world.slurm.submit(1, 60)
    controller.passes(8)
    world.slurm.drain("gpu-0", "fan")
    world.arm.next_order = ["never ends", "quota"]
    world.slurm.submit(1, 1e9)
    controller.passes(2)
    code, shown = controller.call("status")
    lines = shown.splitlines()
    assert (code, lines[0]) == (GOOD, "gpu: 4 off, 1 ordered, 1 joined")
    assert lines[1].startswith("  gpu-0 joined since 2023-11-14T22:1")
    assert lines[1].endswith("Z vm-1 (instance 0): kept by fan")
    assert lines[2].startswith("  gpu-1 ordered since 2023-11-14T22:1")
    assert lines[2].endswith("Z: order-2")
    assert len(lines) == 3
    assert controller.call("status", "--all")[1].splitlines()[3:] == [f"  gpu-{number} off" for number in range(2, 6)]
    world.slurm.submit(2, 1e9)
    controller.passes(2)
    code, shown = controller.call("status")
    assert code == BAD
    assert (
        "orders nothing until an administrator opens it: OperationNotAllowed: simulated quota: raise the quota" in shown
    )
    assert "gpu-2 failed since 2023-11-14T22:1" in shown
    assert "Z: OperationNotAllowed: simulated quota" in shown


def test_status_before_the_first_pass_says_where_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    controller = Controller(tmp_path, monkeypatch, capsys)
    for words in (["status"], ["adopt", "gpu"]):
        code, shown = controller.call(*words)
        assert code == UNKNOWN
        assert "the daemon has not run yet: see 'systemctl status hpcai-elastic'" in shown
