# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The first machine with a new image: it has to join and to pass its checks before other machines go.

Nothing is kept between two runs: a machine that is not among the old ones is the canary, whoever ordered it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Callable

from ..machine.root import Root
from ..machine.run import Run, must
from ..slurm.job_control import health_check_job
from . import spool, status
from .book import DELETING, JOINED, LEAVING

WAIT, POWER_UP, MAKE_ROOM, CHECK, STOP = "wait", "power up", "make room", "check", "stop"
JOB_NAME = "hpcai-canary"
TIERS = ("boot", "deep")
"""The health checks that it has to pass. At boot, most checks of the tier boot do not keep slurmd from starting."""
LOOK_S = 5.0
KEEP_S = 900.0
"""The canary's node is kept for so long, again and again: if this process is killed, the node is idle no longer."""
_NOT_ENDED = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED")


@dataclass(frozen=True)
class Step:
    """What comes next.

    :ivar kind: one of the kinds above.
    :ivar slot: the node that it is about; empty if none.
    :ivar words: for STOP, why.
    """

    kind: str
    slot: str = ""
    words: str = ""


def next_step(name: str, shown: Mapping[str, Any], old: Collection[str], asked: str) -> Step:
    """Return what comes next. Pure.

    :param shown: the set in the daemon's status.
    :param old: vmIds of the machines with another image.
    :param asked: the node that was powered up, or whose machine was retired, for the canary; empty if none was.
    """
    if shown["paused"]:
        return Step(STOP, words=status.why_no_orders(name, shown))
    slots = shown["slots"]
    new = [one for one in slots if one.get("vm_id") and one["vm_id"] not in old]
    joined = [one for one in new if one["state"] == JOINED]
    for one in joined:
        if not status.is_out(one):
            return Step(CHECK, one["slot"])
    if joined:
        return Step(STOP, joined[0]["slot"], status.why_no_jobs(joined[0]))
    failed = next((one for one in slots if one["slot"] == asked and one["state"] == status.FAILED), None)
    if failed:
        return Step(STOP, asked, f"{asked} did not come: {failed['note']}")
    if shown["closed"]:
        return Step(STOP, words=status.why_no_orders(name, shown))
    leaving = [one for one in slots if one["state"] in (LEAVING, DELETING) or "POWERING_DOWN" in one["slurm"]]
    if [one for one in new if one not in leaving] or (asked and not _is_free(slots, asked)):
        return Step(WAIT, asked)
    free = [one["slot"] for one in slots if status.is_free(one)]
    if asked in free:
        return Step(POWER_UP, asked)
    if free:
        return Step(POWER_UP, free[0])
    held = [one for one in slots if one["state"] == JOINED]
    if leaving or not held:
        return Step(WAIT)
    idle = [one for one in held if "IDLE" in one["slurm"].split("+")]
    return Step(MAKE_ROOM, (idle or held)[0]["slot"])


def _is_free(slots: Collection[Mapping[str, Any]], asked: str) -> bool:
    found = next((one for one in slots if one["slot"] == asked), None)
    return found is not None and found["state"] == status.OFF and "POWERED_DOWN" in found["slurm"]


class Canary:
    """One machine with the new image, on the controller.

    :param old: vmIds of the machines with another image.
    """

    def __init__(
        self,
        root: Root,
        name: str,
        old: Collection[str],
        run: Run,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._root, self._name, self._old, self._run = root, name, frozenset(old), run
        self._clock, self._sleep = clock, sleep
        self._asked = ""
        self._kept: tuple[str, float] | None = None
        self._retired = False

    def watch(self, timeout_s: float) -> tuple[bool, str]:
        """Return whether a machine with the new image passed, and a line about it.

        :param timeout_s: how long to wait for jobs, for Azure, and for the checks.
        :raises CommandFailed: slurmctld does not answer, or refuses.
        :raises OSError: the daemon's folder cannot be written.
        """
        try:
            return self._watch(timeout_s)
        finally:
            self._release()

    def _keep(self, slot: str) -> None:
        """Keep the node that was powered up, for a while from now on."""
        now = self._clock()
        if self._kept and self._kept[0] != slot:
            self._release()
        if not self._kept or now - self._kept[1] > KEEP_S / 3:
            self._kept = (slot, now)
            spool.write(self._root, spool.CONTROL, "keep", [slot], now, now + KEEP_S)

    def _release(self) -> None:
        """No longer keep the node. One that an administrator keeps stays kept."""
        if self._kept:
            spool.write(self._root, spool.CONTROL, "keep", [self._kept[0]], self._clock(), 0.0)
            self._kept = None

    def _watch(self, timeout_s: float) -> tuple[bool, str]:
        deadline = self._clock() + timeout_s
        while self._clock() < deadline:
            found = status.read_status(self._root) or {}
            shown = found.get("sets", {}).get(self._name)
            step = next_step(self._name, shown, self._old, self._asked) if shown else Step(WAIT)
            if step.kind == STOP:
                return False, step.words
            if step.kind == CHECK:
                return self._check(step.slot, deadline)
            if step.kind == POWER_UP and step.slot != self._asked:
                self._asked = step.slot
                self._keep(step.slot)
                must(self._run(["scontrol", "update", f"NodeName={step.slot}", "State=POWER_UP"]))
            elif step.kind == MAKE_ROOM and not self._retired:
                self._retired = True
                vm_id = next(one["vm_id"] for one in shown["slots"] if one["slot"] == step.slot)
                words = "its machine makes room for the first one with a new image"
                spool.write(self._root, spool.CONTROL, "retire", [vm_id], self._clock(), words=words)
            self._rest()
        return False, f"no machine with the new image joined {self._name} and passed its checks in {timeout_s:.0f} s"

    def _check(self, slot: str, deadline: float) -> tuple[bool, str]:
        """Run its checks in a job of root, which waits until the node has no other job."""
        # sinfo also prints the partitions without this node, with nothing for %N.
        shown = must(self._run(["sinfo", "--noheader", f"--nodes={slot}", "--format=%N %R"])).stdout.splitlines()
        partition = next((words[1] for words in map(str.split, shown) if words[:1] == [slot]), "")
        if not partition:
            return False, f"{slot} is in no partition, so no job can check it"
        words = health_check_job(slot, partition, JOB_NAME, tiers=TIERS, fails=True)
        job = must(self._run(words)).stdout.strip().partition(";")[0]
        while self._clock() < deadline:
            # slurmctld shows an ended job for MinJobAge, by default 300 s.
            query = ["squeue", "--noheader", f"--jobs={job}", "--states=all", "--format=%T"]
            state = must(self._run(query)).stdout.strip()
            if state not in _NOT_ENDED:
                return self._judge(slot, state or "unknown")
            self._rest()
        must(self._run(["scancel", job]))
        return False, f"{slot}: the health checks (job {job}) did not end in time"

    def _rest(self) -> None:
        if self._kept:
            self._keep(self._kept[0])
        self._sleep(LOOK_S)

    def _judge(self, slot: str, state: str) -> tuple[bool, str]:
        tiers = " and ".join(TIERS)
        if state == "COMPLETED":
            return True, f"{slot} has the new image, and no check of the tiers {tiers} fails"
        return (
            False,
            f"{slot} has the new image, but its checks ({tiers}) fail (job state {state}): see its health report",
        )
