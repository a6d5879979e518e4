# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A controller, a cluster and Azure in memory: time passes, machines boot and register, and the daemon makes passes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic import book as books
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.codes import BUDGET
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.reconcile import Pass, Reconciler
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.settings import ElasticSet, Settings
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.turn import FORCE, POWER_DOWN
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.views import EVICTED, Instance, SetView
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.hostlist import expand

from .arm_model import Arm
from .slurm_model import Slurm, cluster

GROUP = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/rg"
ID = f"{GROUP}/providers/Microsoft.Compute/virtualMachineScaleSets/"
START = 1_700_000_000.0
DUPLICATE = "Duplicate jobid"
"""slurmctld's own reason; no person has drained the node."""
TIMEOUT = "ResumeTimeout reached"
"""slurmctld's reason for a machine that never joined. It replaces that of a person (power_save.c)."""
_NODES = re.compile(r"\b[a-z]+-(?:\d+|\[[\d,-]+\])(?![\w-])")


UNLEASED_S = 1500.0
"""An instance without a lease is deleted after 300 s, if no order of its set is open, which ends after 600 s."""


GOING_S = 120.0
"""A node whose machine shall go is drained in the next passes."""


class Killed(BaseException):
    """The daemon's process is killed."""


class Azure:
    """The scale sets, by resource id."""

    def __init__(self, sets: Mapping[str, Arm]) -> None:
        self._sets = sets

    def _of(self, options: ElasticSet) -> Arm:
        return self._sets[options.id.rpartition("/")[2]]

    def view(self, options: ElasticSet, operations: Mapping[str, str]) -> SetView:
        return self._of(options).view(options, operations)

    def instances(self, options: ElasticSet) -> list[Instance]:
        return self._of(options).instances(options)

    def grow(self, options: ElasticSet, capacity: int, etag: str) -> str:
        return self._of(options).grow(options, capacity, etag)

    def delete(self, options: ElasticSet, ids: list[str]) -> None:
        return self._of(options).delete(options, ids)


class Mortal:
    """Passes calls on, and kills the process before or after one of them."""

    def __init__(self, world: World, target: object) -> None:
        self._world, self._target = world, target

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._target, name)

        def mortal(*given: Any) -> Any:
            self._world.count_down()
            self._world.calls.append((name, given))
            answer = call(*given)
            self._world.count_down()
            if self._world.meanwhile and [one for one, _given in self._world.calls] == ["view"]:
                # Slurm was asked, and nothing was decided yet.
                self._world.meanwhile.pop()()
            return answer

        return mortal


class World:
    """Everything.

    :ivar violations: what must never happen.
    """

    def __init__(self, seconds: float = 15.0, **options: Any) -> None:
        sizes = options.pop("sizes", {"gpu": 6})
        self.slurm: Slurm = cluster(**sizes)
        self.arms = {name: Arm(now=START, number=number) for number, name in enumerate(sizes)}
        made = {name: ElasticSet(ID + name, size, **options) for name, size in sizes.items()}
        self.settings = Settings(made)
        self.now = self.monotonic = START
        self.pass_s = seconds
        self.wall = 0.0
        self.saved: str | None = None
        self.kill_in: int | None = None
        self.meanwhile: list[Callable[[], None]] = []
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.violations: list[str] = []
        self.lines: list[str] = []
        self.dumps: list[Slurm] = []
        self.stopped = ""
        self._counted = dict.fromkeys(sizes, 0)
        self._known_since = START
        self._wall = 0.0
        self._unleased: dict[tuple[str, str], float] = {}
        self._going: dict[str, float] = {}
        self.slurm.tick(self.now)
        self.restart()

    @property
    def arm(self) -> Arm:
        """The only set."""
        return next(iter(self.arms.values()))

    @property
    def book(self) -> books.Book:
        """The daemon's book."""
        return self.daemon.book

    def restart(self) -> None:
        """The daemon starts, with what it has saved."""
        book = books.parse(self.saved) if self.saved else books.Book()
        self.daemon = Reconciler(
            self.settings, Mortal(self, self.slurm), Mortal(self, Azure(self.arms)), book, self._save
        )

    def configure(self, settings: Settings) -> None:
        """site.yml changes the settings, which restarts the daemon."""
        self.settings = settings
        self.restart()

    def count(self) -> int:
        """How many instances there are."""
        return sum(len(arm.machines) for arm in self.arms.values())

    def lose_book(self) -> None:
        """The file with the leases is gone."""
        self.saved = None
        self._known_since = self.now
        self.restart()

    def count_down(self) -> None:
        """Kill the daemon at the chosen call."""
        if self.kill_in is not None:
            self.kill_in -= 1
            if self.kill_in < 0:
                self.kill_in = None
                raise Killed

    def _save(self, book: books.Book) -> None:
        self.count_down()
        self.saved = books.as_text(book)
        self.count_down()

    def one_pass(self) -> Pass | None:
        """The daemon makes a pass; None if it was killed. Machines and users do nothing meanwhile."""
        self.calls.clear()
        paused = {name for name in self.arms if self.book.of(name).paused}
        before = {name: {one.vm_id for one in arm.deleted} for name, arm in self.arms.items()}
        result = None
        if self.wall != self._wall:
            # A daemon that starts after the clock was set does not know when its predecessor asked Azure.
            self._wall, self._known_since = self.wall, self.now
        try:
            result = self.daemon.run(self.now + self.wall, self.monotonic, self.stopped)
            self.lines += [*result.lines, *result.problems]
            self._judge_lines([*result.lines, *result.problems])
        except Killed:
            self.restart()
        for name, arm in self.arms.items():
            for machine in arm.deleted:
                if machine.vm_id not in before[name]:
                    self._judge_deletion(machine.vm_id)
            self._judge_changes(name, arm)
            self._judge_unleased(name, arm)
            self._judge_going(name, arm)
        self._judge_requests(paused)
        return result

    def _judge_requests(self, paused: set[str]) -> None:
        """A pause, a used budget, and nodes that an administrator keeps."""
        for call, given in self.calls:
            if call in ("grow", "delete"):
                name = given[0].id.rpartition("/")[2]
                if name in paused or (call == "grow" and self.stopped):
                    self.violations.append(f"{name}: {call} although it is paused, or {self.stopped!r}")
            elif call == "change":
                change = given[0]
                mine = [slot for slot in change.slots if slot.rpartition("-")[0] in paused]
                if mine and not change.reason.startswith(EVICTED):
                    self.violations.append(f"{change} although the set is paused")
                kept = set(change.slots) & set(self.book.keep)
                if kept and (change.kind == POWER_DOWN or (change.kind == FORCE and BUDGET in change.reason)):
                    self.violations.append(f"{kept} went although an administrator keeps them")

    def _judge_unleased(self, name: str, arm: Arm) -> None:
        """An instance without a lease is used or deleted in time, unless nobody lets the daemon do it."""
        leases = {one.vm_id for one in self.book.leases.values()}
        here = {one.vm_id for one in arm.machines.values() if one.gone is None} - leases
        if self.book.of(name).paused or arm.is_refusing():
            here = set()
        self._unleased = {key: since for key, since in self._unleased.items() if key[0] != name or key[1] in here}
        for vm_id in here:
            since = self._unleased.setdefault((name, vm_id), self.monotonic)
            if self.monotonic - since > UNLEASED_S:
                self.violations.append(f"{name}: {vm_id} has no lease for {self.monotonic - since:.0f} s")

    def _judge_going(self, name: str, arm: Arm) -> None:
        """A machine that shall go gets no further job, unless nobody lets the daemon drain its node."""
        if name not in self.settings.sets:
            return
        beyond = self.settings.sets[name].max
        used = {slot: one for slot, one in self.book.leases.items() if one.state in (books.LEASED, books.JOINED)}
        mine = {slot: one for slot, one in used.items() if slot.startswith(f"{name}-")}
        going = {slot for slot, one in mine.items() if one.retire or int(slot.rpartition("-")[2]) >= beyond}
        if self.book.of(name).paused or arm.is_refusing() or self.slurm.faults:
            going = set()
        for slot in set(mine) - going:
            self._going.pop(mine[slot].vm_id, None)
        for slot in going:
            since = self._going.setdefault(mine[slot].vm_id, self.now)
            late = [job.id for job in self.slurm.jobs.values() if slot in job.nodes and job.allocated > since + GOING_S]
            if late:
                self.violations.append(f"{slot} shall go, but got the jobs {late}")

    def _judge_lines(self, lines: Sequence[str]) -> None:
        """Each change has a line that names its nodes, or the set."""
        named = {slot for line in lines for word in _NODES.findall(line) for slot in expand(word)}
        text = "\n".join(lines)
        for name, given in self.calls:
            if name in ("change", "publish"):
                slots = set(given[0].slots if name == "change" else [given[0].slot])
                if slots - named:
                    self.violations.append(f"no line says why: {given[0]}")
            elif name in ("grow", "delete"):
                set_name, word = given[0].id.rpartition("/")[2], "orders" if name == "grow" else "delete"
                if not re.search(rf"^{re.escape(set_name)}: .*{word}", text, re.MULTILINE):
                    self.violations.append(f"no line says why: {name} {given}")

    def _judge_changes(self, name: str, arm: Arm) -> None:
        """In one pass, one growth and one deletion at most; in a minute, four changes, as Azure's bucket allows."""
        kinds = [kind for _when, kind in arm.asked[self._counted[name] :]]
        self._counted[name] = len(arm.asked)
        if len(kinds) > len(set(kinds)):
            self.violations.append(f"{name}: one pass asked for {', '.join(kinds)}")
        times = [when for when, _kind in arm.asked if when >= self._known_since and self.now - when < 60]
        if len(times) > 4:
            self.violations.append(f"{name}: {len(times)} changes within a minute")

    def _judge_deletion(self, vm_id: str) -> None:
        for node in self.slurm.nodes.values():
            if node.lease != vm_id:
                continue
            jobs = [job.id for job in self.slurm.jobs.values() if job.state == "RUNNING" and node.name in job.nodes]
            if jobs:
                self.violations.append(f"{node.name} was deleted under job {jobs}")
            if node.drained and not node.reason.startswith(("hpcai: elastic:", DUPLICATE, TIMEOUT)):
                self.violations.append(f"{node.name} was deleted, but drained: {node.reason}")

    def advance(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass, with a pass of the daemon each 15 s; return whether the condition was met."""
        end = self.now + seconds
        while self.now < end:
            if until is not None and until():
                return True
            self.tick(self.pass_s)
            result = self.one_pass()
            if result is not None and result.again:
                self.one_pass()
        return until is not None and until()

    def tick(self, seconds: float) -> None:
        """Let time pass, without the daemon."""
        self.now += seconds
        self.monotonic += seconds
        for arm in self.arms.values():
            arm.tick(self.now)
        self._machines_register()
        self.slurm.wall = self.wall
        self.slurm.tick(self.now)

    def _machines_register(self) -> None:
        """Each machine looks its lease up, and starts slurmd."""
        alive = set()
        for node in self.slurm.nodes.values():
            for arm in self.arms.values():
                machine = arm.running(node.lease)
                if machine is None:
                    continue
                alive.add(node.name)
                if machine.started_for != node.name or node.down:
                    machine.started_for = node.name
                    if node.power not in ("POWERED_DOWN", "POWERING_DOWN"):
                        self.slurm.register(node.name)
        for name in self.slurm.nodes:
            self.slurm.is_alive(name, name in alive)

    # What must hold when nothing has happened for a while

    def differences(self) -> list[str]:
        """Instances, leases and Slurm's powered-up nodes must be the same. Counted at the ARM model."""
        found = []
        for name, arm in self.arms.items():
            instances = {one.vm_id for one in arm.machines.values()}
            leases = {one.vm_id: slot for slot, one in self.book.leases.items() if slot.startswith(f"{name}-")}
            if instances != set(leases):
                found.append(f"{name}: instances {sorted(instances)} are not leases {leases}")
            up = {
                node.name
                for node in self.slurm.nodes.values()
                if node.name.startswith(f"{name}-") and not node.down and not node.power
            }
            held = {slot for slot in leases.values() if not self._is_kept(slot)}
            if up - set(leases.values()) or held - up:
                found.append(f"{name}: leases {sorted(held)} are not Slurm's nodes {sorted(up)}")
            nodes = self.slurm.nodes
            useless = [
                slot
                for slot in leases.values()
                if slot not in nodes
                or (nodes[slot].drained and nodes[slot].reason == DUPLICATE)
                or (self.book.leases[slot].retire and not self._is_kept(slot))
            ]
            stuck = [slot for slot, one in nodes.items() if one.stuck and not (one.down or one.drained)]
            if stuck:
                found.append(f"{stuck} would not be used after a restart of slurmctld")
            if useless:
                found.append(f"{name}: {useless} shall go, and are paid for without end")
        return found

    def _is_kept(self, slot: str) -> bool:
        node = self.slurm.nodes.get(slot)
        if node is None:
            return False
        return (node.drained or node.down) and not node.reason.startswith("hpcai: elastic:")
