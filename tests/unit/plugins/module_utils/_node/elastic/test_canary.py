# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The first machine with a new image: which one it is, what makes it pass, and what stops a rollout."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic import spool
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.canary import (
    CHECK,
    MAKE_ROOM,
    POWER_UP,
    STOP,
    WAIT,
    Canary,
    next_step,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.daemon import CONTROLS
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.status import STATUS_FILE
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

OFF = {"state": "off", "slurm": "CLOUD+IDLE+POWERED_DOWN", "note": ""}
OLD = {"state": "joined", "slurm": "CLOUD+IDLE", "note": "", "vm_id": "old"}
BUSY = {**OLD, "slurm": "ALLOCATED+CLOUD", "vm_id": "busy"}
NEW = {**OLD, "vm_id": "new"}


def shown(*slots: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A set in the daemon's status."""
    named = [{"slot": f"gpu-{position}", **one} for position, one in enumerate(slots)]
    return {"slots": named, "paused": False, "closed": None, "strangers": [], **more}


@pytest.mark.parametrize(
    ("one", "asked", "kind", "slot"),
    [
        (shown(OLD, OFF), "", POWER_UP, "gpu-1"),
        (shown(OLD, {**OFF, "slurm": "CLOUD+DOWN+POWERED_DOWN"}, OFF), "", POWER_UP, "gpu-2"),
        (shown(BUSY, OLD), "", MAKE_ROOM, "gpu-1"),
        (shown(BUSY), "", MAKE_ROOM, "gpu-0"),
        (shown(OLD, {**OLD, "state": "leaving"}), "", WAIT, ""),
        (shown(OLD, {**OFF, "slurm": "CLOUD+IDLE+POWERING_DOWN"}), "", WAIT, ""),
        (shown(OLD, {**OFF, "state": "ordered", "slurm": "IDLE+POWERING_UP"}), "gpu-1", WAIT, "gpu-1"),
        (shown(OLD, {**NEW, "state": "leased", "slurm": "IDLE+POWERING_UP"}), "", WAIT, ""),
        (shown(OLD, NEW), "gpu-1", CHECK, "gpu-1"),
        # A machine that a job ordered after the image was set.
        (shown(NEW, OLD), "", CHECK, "gpu-0"),
        (shown(OLD, {**NEW, "slurm": "DRAIN+IDLE", "note": "kept by hpcai: health: gpu_count"}), "", STOP, "gpu-1"),
        (shown(OLD, {**OFF, "state": "failed", "note": "NeverJoined: ..."}), "gpu-1", STOP, "gpu-1"),
        # Another node's failure says nothing about the image.
        (shown(OLD, {**OFF, "state": "failed"}, OFF), "", POWER_UP, "gpu-2"),
        (shown(OLD, OFF, closed={"code": "QuotaExceeded", "words": "no", "until": 0}), "", STOP, ""),
        (shown(OLD, OFF, paused=True), "", STOP, ""),
    ],
)
def test_the_next_step(one: dict[str, Any], asked: str, kind: str, slot: str) -> None:
    step = next_step("gpu", one, {"old", "busy"}, asked)
    assert (step.kind, step.slot) == (kind, slot)
    assert bool(step.words) == (kind == STOP)


class Controller:
    """A controller whose daemon shows these states of the set, one after the other."""

    def __init__(self, folder: Path, states: Sequence[dict[str, Any]], job: str) -> None:
        self.root, self.states, self.job, self.now = Root(str(folder)), list(states), job, 1000.0
        self.commands: list[str] = []
        for path in (spool.CONTROL, STATUS_FILE.rpartition("/")[0]):
            (folder / path.lstrip("/")).mkdir(parents=True)
        self.sleep(0)

    def sleep(self, seconds: float) -> None:
        """Time passes, and the daemon makes a pass."""
        self.now += seconds
        one = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        Path(self.root.at(STATUS_FILE)).write_text(json.dumps({"schema": 1, "sets": {"gpu": one}}), encoding="utf-8")

    def run(self, command: Sequence[str]) -> Result:
        """Run a command of Slurm."""
        self.commands.append(" ".join(command))
        slot = next((word.partition("=")[2] for word in command if word.startswith("--nodes=gpu")), "")
        # As sinfo 24.11.5 prints it: also partitions without the node.
        answers = {
            "sinfo": f" compute\n{slot} gpu\n gpu-spot\n",
            "sbatch": "7\n",
            "squeue": f"{self.job}\n",
        }
        return Result(tuple(command), 0, answers.get(command[0], ""), "")

    def watch(self) -> tuple[bool, str]:
        """Wait for the canary."""
        return Canary(self.root, "gpu", {"old"}, self.run, lambda: self.now, self.sleep).watch(600)

    @property
    def requests(self) -> list[tuple[str, tuple[str, ...]]]:
        """What the daemon was asked for."""
        return [(one.kind, one.names) for one in spool.take(self.root, spool.CONTROL, CONTROLS)]


def test_a_canary_is_powered_up_kept_and_checked(tmp_path: Path) -> None:
    coming = {**OFF, "state": "ordered", "slurm": "IDLE+POWERING_UP"}
    states = [shown(OLD, OFF), shown(OLD, OFF), shown(OLD, coming), shown(OLD, NEW)]
    controller = Controller(tmp_path, states, "COMPLETED")
    passed, words = controller.watch()
    assert passed, words
    updates = [one for one in controller.commands if one.startswith("scontrol update")]
    assert updates == ["scontrol update NodeName=gpu-1 State=POWER_UP"]
    job = next(one for one in controller.commands if one.startswith("sbatch"))
    assert "--partition=gpu --nodes=1 --nodelist=gpu-1" in job
    # Both tiers run, and the job fails if a check of either does.
    assert job.partition("--wrap=")[2].replace("/usr/bin/hpcnode health run", "run") == (
        "{ run boot || [ $? = 2 ]; } && { run deep || [ $? = 2 ]; }"
    )
    # Kept while it waits for its check, and no longer after it.
    assert controller.requests == [("keep", ("gpu-1",)), ("keep", ("gpu-1",))]


@pytest.mark.parametrize(
    ("job", "passes"),
    [
        ("COMPLETED", True),
        ("FAILED", False),
        ("TIMEOUT", False),
        ("NODE_FAIL", False),
        # slurmctld has forgotten it.
        ("", False),
        ("PENDING", False),
    ],
)
def test_only_a_check_that_ended_well_passes(tmp_path: Path, job: str, passes: bool) -> None:
    controller = Controller(tmp_path, [shown(OLD, NEW)], job)
    assert controller.watch()[0] is passes
    assert ("scancel 7" in controller.commands) == ("PENDING" in job)


def test_a_full_set_gives_up_one_machine_for_the_canary(tmp_path: Path) -> None:
    gone = {**OFF, "slurm": "CLOUD+IDLE+POWERING_DOWN"}
    states = [shown(OLD), shown(OLD), shown(gone), shown(OFF), shown(NEW)]
    controller = Controller(tmp_path, states, "COMPLETED")
    assert controller.watch()[0]
    assert controller.requests[:2] == [("retire", ("old",)), ("keep", ("gpu-0",))]


@pytest.mark.parametrize("last", [{**OFF, "state": "failed", "note": "AllocationFailed"}, OFF])
def test_a_node_that_does_not_become_the_canary_is_not_kept(tmp_path: Path, last: dict[str, Any]) -> None:
    controller = Controller(tmp_path, [shown(OLD, OFF), shown(OLD, last)], "")
    assert not controller.watch()[0]
    kept = [one for one in spool.take(controller.root, spool.CONTROL, CONTROLS) if one.kind == "keep"]
    assert [one.names for one in kept] == [("gpu-1",)] * len(kept)
    assert kept[-1].until == 0
    # A process that is killed leaves it idle for some minutes only, so it is kept again and again.
    assert all(0 < one.until - one.time <= 900 for one in kept[:-1])
    assert (len(kept) > 2) == (last is OFF)


def test_a_node_that_an_administrator_keeps_stays_kept(tmp_path: Path) -> None:
    controller = Controller(tmp_path, [shown(OLD, NEW)], "COMPLETED")
    assert controller.watch()[0]
    assert not controller.requests


def test_a_machine_that_never_joins_stops_it(tmp_path: Path) -> None:
    failed = {**OFF, "state": "failed", "note": "NeverJoined: it did not join within 1200 s"}
    controller = Controller(tmp_path, [shown(OLD, OFF), shown(OLD, OFF), shown(OLD, failed)], "")
    passed, words = controller.watch()
    assert not passed
    assert words == "gpu-1 did not come: NeverJoined: it did not join within 1200 s"
    assert not any(one.startswith("sbatch") for one in controller.commands)
