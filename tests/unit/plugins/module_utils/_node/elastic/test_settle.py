# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a rollout waits for before it deletes further machines, and what stops it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic import settle
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.status import STATUS_FILE
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

BEGAN = 1000.0
OFF = {"state": "off", "slurm": "CLOUD+IDLE+POWERED_DOWN", "note": ""}
POWERED_UP = {**OFF, "slurm": "CLOUD+IDLE+POWERING_UP"}
WANTED = {**POWERED_UP, "state": "wanted"}
ORDERED = {**POWERED_UP, "state": "ordered"}
LEASED = {**POWERED_UP, "state": "leased", "vm_id": "new"}
JOINED = {"state": "joined", "slurm": "CLOUD+IDLE", "note": "", "vm_id": "new"}
DRAINED = {**JOINED, "slurm": "CLOUD+DRAIN+IDLE", "note": "kept by hpcai: health: gpu_count"}
FAILED = {**OFF, "state": "failed", "note": "NeverJoined: it did not join within 1200 s"}
CLOSED = {"code": "AllocationFailed", "words": "no capacity", "until": 5000.0}


def shown(*slots: dict[str, Any], failed: float = 0.0, **more: Any) -> dict[str, Any]:
    """The set in the daemon's status."""
    named = [{"slot": f"gpu-{position}", **one} for position, one in enumerate(slots)]
    boot = {"time": failed, "words": "gpu-0: it did not join within 1200 s"}
    return {"slots": named, "paused": False, "closed": None, "boot_failed": boot, **more}


class Daemon:
    """A daemon that shows these states of the set, one at each look, and then the last one for ever."""

    def __init__(self, folder: Path, states: Sequence[dict[str, Any]], late_s: float = 0.0) -> None:
        self.root, self.states, self.now, self.late_s = Root(str(folder)), list(states), BEGAN, late_s
        (folder / STATUS_FILE.lstrip("/")).parent.mkdir(parents=True)
        self.write()

    def write(self) -> None:
        """The result of a pass."""
        document = {"schema": 1, "time": int(self.now - self.late_s), "sets": {"gpu": self.states[0]}}
        Path(self.root.at(STATUS_FILE)).write_text(json.dumps(document), encoding="utf-8")

    def sleep(self, seconds: float) -> None:
        """Time passes, and the daemon makes a pass."""
        self.now += seconds
        self.states = self.states[1:] or self.states
        self.write()

    def wait(self, since: int = 900) -> tuple[bool, str]:
        """Wait until the machines have joined."""
        return settle.wait(self.root, "gpu", since, 600, lambda: self.now, self.sleep)


@pytest.mark.parametrize("state", [POWERED_UP, WANTED, ORDERED, LEASED])
def test_a_machine_on_its_way_is_waited_for(tmp_path: Path, state: dict[str, Any]) -> None:
    daemon = Daemon(tmp_path, [*[shown(JOINED, state)] * 60, shown(JOINED, JOINED)])
    assert daemon.wait() == (True, "gpu: gpu-1 joined")
    assert daemon.now == BEGAN + 60 * settle.LOOK_S


def test_a_node_that_slurm_orders_again_after_a_moment_is_waited_for(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, [shown(OFF), shown(OFF), *[shown(LEASED)] * 20, shown(JOINED)])
    assert daemon.wait() == (True, "gpu: gpu-0 joined")


def test_a_set_that_needs_no_machine_is_not_waited_for_long(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, [shown(JOINED, OFF)])
    assert daemon.wait() == (True, "gpu: no machine is on its way")
    assert daemon.now <= BEGAN + settle.GRACE_S + settle.LOOK_S


def test_machines_that_a_busy_set_orders_later_are_not_waited_for(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, [*[shown(LEASED, OFF)] * 10, shown(JOINED, LEASED)])
    assert daemon.wait() == (True, "gpu: gpu-0 joined")


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ([shown(LEASED), shown(FAILED, failed=1005.0)], "gpu-0: it did not join within 1200 s"),
        # Slurm uses the slot again after some minutes. The machine still did not join.
        ([shown(OFF, failed=950.0)], "gpu-0: it did not join within 1200 s"),
        ([shown(LEASED), shown(DRAINED)], "gpu-0 joined, but gets no jobs: kept by hpcai: health: gpu_count"),
        ([shown(LEASED, closed=CLOSED)], "gpu orders nothing: AllocationFailed: no capacity"),
        ([shown(LEASED, paused=True)], "gpu is paused: 'hpcnode elastic resume gpu' ends that"),
    ],
)
def test_a_machine_that_does_not_join_stops_the_rollout(
    tmp_path: Path, states: list[dict[str, Any]], words: str
) -> None:
    assert Daemon(tmp_path, states).wait() == (False, words)


@pytest.mark.parametrize("failed", [0.0, 900.0, 900.9])
def test_a_failure_from_before_the_rollout_says_nothing_about_the_image(tmp_path: Path, failed: float) -> None:
    # A node that was drained before says nothing either.
    assert Daemon(tmp_path, [shown(DRAINED, OFF, failed=failed)]).wait()[0]


@pytest.mark.parametrize(
    ("late_s", "words"),
    [(0.0, "gpu: gpu-0 did not join within 600 s"), (900.0, "gpu: hpcai-elastic made no pass, or its machines did")],
)
def test_a_machine_that_never_comes_and_a_daemon_that_does_not_run_end_the_wait(
    tmp_path: Path, late_s: float, words: str
) -> None:
    joined, line = Daemon(tmp_path, [shown(LEASED)], late_s).wait()
    assert not joined
    assert line.startswith(words)
