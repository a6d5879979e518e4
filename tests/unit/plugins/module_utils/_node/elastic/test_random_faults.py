# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Random faults in any order: after quiet, instances, leases and Slurm's powered-up nodes are the same.

Each seed is a test, so the name of a failing test is what replays it. Hypothesis plays further
sequences, and shortens one that fails.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic import book as books
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic import daemon
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.eviction import evicted_reason
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.settings import Budget
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.spool import Request

from .arm_model import Arm
from .world import DUPLICATE, World

Event = tuple[str, int]
STEADY_S = 3 * 3600.0
SIZES = {"gpu": 6, "spot": 3}
"""A set, and its fallback."""


def _pick(names: Sequence[str], number: int) -> str | None:
    return names[number % len(names)] if names else None


def _submit(world: World, number: int) -> None:
    world.slurm.submit(1 + number % 3, 30 + 60 * (number % 7))


def _cancel(world: World, number: int) -> None:
    open_jobs = [job for job in world.slurm.jobs.values() if job.state != "DONE"]
    if open_jobs:
        world.slurm.cancel(open_jobs[number % len(open_jobs)])


def _drain(world: World, number: int) -> None:
    name = _pick(sorted(world.slurm.nodes), number)
    assert name
    world.slurm.drain(name, "bad GPU, do not touch")


def _duplicate(world: World, number: int) -> None:
    name = _pick(sorted(name for name, node in world.slurm.nodes.items() if not node.power and not node.down), number)
    if name is not None and not world.slurm.nodes[name].drained:
        world.slurm.drain(name, DUPLICATE)


def _undrain(world: World, number: int) -> None:
    for node in sorted(world.slurm.nodes.values(), key=lambda one: one.name)[number % 4 :: 4]:
        world.slurm.undrain(node.name)


def _arm(world: World, number: int) -> Arm:
    return list(world.arms.values())[number // 10 % len(world.arms)]


def _portal_delete(world: World, number: int) -> None:
    arm = _arm(world, number)
    name = _pick(sorted(arm.machines), number)
    if name is not None:
        arm.remove(name, after_s=float(number % 60))


def _evict(world: World, number: int) -> None:
    """The node of a machine drains itself, and Azure takes the machine 30 s later, or changes its mind."""
    slot = _pick(sorted(world.book.leases), number)
    node = world.slurm.nodes.get(slot) if slot else None
    if slot is None or node is None:
        return
    node.drained, node.reason = True, evicted_reason(world.now + 30)
    lease, arm = world.book.leases[slot], world.arms[slot.rpartition("-")[0]]
    machine = arm.machines.get(lease.instance)
    if number % 5 and machine is not None and machine.vm_id == lease.vm_id:
        arm.remove(machine.id, after_s=30.0)


def _request(kind: str) -> Callable[[World, int], None]:
    """An administrator asks for something."""

    def ask(world: World, number: int) -> None:
        names = {
            daemon.RETIRE: _pick(sorted(lease.vm_id for lease in world.book.leases.values()), number),
            daemon.KEEP: _pick(sorted(world.slurm.nodes), number),
        }
        name = names.get(kind, _pick(list(SIZES), number // 10))
        if name is not None:
            now = world.now + world.wall
            until = now + 600.0 * (number % 12)
            daemon.apply_request(world.book, Request(kind, (name,), now, until=until), world.settings)
            world.saved = books.as_text(world.book)

    return ask


def _drain_meanwhile(world: World, number: int) -> None:
    """A person drains a node, after the daemon has asked Slurm for its state."""
    slot = _pick(sorted(world.book.leases), number)
    if slot is not None and slot in world.slurm.nodes:
        world.meanwhile = [
            lambda: world.slurm.drain(slot, "bad GPU, do not touch") if slot in world.slurm.nodes else None
        ]


def _start_meanwhile(world: World, number: int) -> None:
    """A job starts, after the daemon has asked Slurm for its state."""

    def start() -> None:
        world.slurm.submit(1 + number % 3, 600)
        world.slurm.tick(world.now)

    world.meanwhile = [start]


def _budget(world: World, number: int) -> None:
    """The budget is used up, or it is not any more."""
    world.stopped = "" if world.stopped else "the daily budget of 100 is used up"
    world.configure(replace(world.settings, budget=Budget(end_jobs=number % 3 == 0)))


def _max(world: World, number: int) -> None:
    """site.yml runs with another max and min. It does not remove nodes that have jobs from slurm.conf."""
    most = SIZES["gpu"] - number % 4
    gpu = replace(world.settings.sets["gpu"], max=most, min=number // 4 % 3)
    world.configure(replace(world.settings, sets={**world.settings.sets, "gpu": gpu}))
    for position in range(SIZES["gpu"]):
        world.slurm.declare(f"gpu-{position}", position < most)


def _stick(world: World, number: int) -> None:
    """Somebody has resumed a node that was down and powered down."""
    name = _pick(sorted(name for name, node in world.slurm.nodes.items() if node.power == "POWERED_DOWN"), number)
    if name is not None and not world.slurm.nodes[name].down:
        world.slurm.nodes[name].stuck = True


def _wait(world: World, number: int) -> None:
    world.advance(15 * (1 + number % 40))


def _wait_long(world: World, number: int) -> None:
    world.advance(300 * (1 + number % 4))


def _order(how: str) -> Callable[[World, int], None]:
    return lambda world, number: _arm(world, number).next_order.append(how)


def _restore(world: World, _number: int) -> None:
    if world.dumps:
        world.slurm.restore(world.dumps.pop())


EVENTS: dict[str, Callable[[World, int], None]] = {
    "submit": _submit,
    "submit again": _submit,
    "cancel": _cancel,
    "wait": _wait,
    "wait long": _wait_long,
    "kill the daemon": lambda world, number: setattr(world, "kill_in", number % 24),
    "drain": _drain,
    "drain between two requests": _drain_meanwhile,
    "a job starts between two requests": _start_meanwhile,
    "undrain": _undrain,
    "slurmctld drains": _duplicate,
    "no capacity": _order("refused"),
    "no capacity later": _order("late"),
    "no capacity later, capacity drops": _order("late, drops"),
    "partial": _order("partial"),
    "partial, capacity drops": _order("partial, drops"),
    "never ends": _order("never ends"),
    "slow": _order("slow"),
    "wrecks": _order("wrecks"),
    "answer lost": _order("lost answer, done"),
    "request lost": _order("lost answer, not done"),
    "list fails": lambda world, number: _arm(world, number).list_faults.extend(["failed"] * (1 + number % 3)),
    "half a list": lambda world, number: _arm(world, number).list_faults.append("half"),
    "throttled": lambda world, number: setattr(_arm(world, number), "throttled_until", world.now + 30 * (number % 10)),
    "late visibility": lambda world, number: setattr(_arm(world, number), "lag_s", 15.0 * (number % 5)),
    "ids reused": lambda world, number: setattr(_arm(world, number), "reuses_ids", True),
    "never boots": lambda world, number: _arm(world, number).next_boot.append("never"),
    "boots late": lambda world, number: _arm(world, number).next_boot.append("late"),
    "deletion refused": lambda world, number: _arm(world, number).delete_faults.append("refused"),
    "deletion without effect": lambda world, number: _arm(world, number).delete_faults.append("without effect"),
    "deletion's answer lost": lambda world, number: _arm(world, number).delete_faults.append("lost answer"),
    "portal grows": lambda world, number: _arm(world, number).person_grows(1 + number % 2),
    "portal or Azure deletes": _portal_delete,
    "eviction": _evict,
    "retire": _request(daemon.RETIRE),
    "keep": _request(daemon.KEEP),
    "pause": _request(daemon.PAUSE),
    "resume": _request(daemon.RESUME),
    "budget": _budget,
    "max": _max,
    "slurmctld would not use a node": _stick,
    "slurmctld fails": lambda world, number: world.slurm.faults.extend(["good"] * (number % 5) + ["failed"]),
    "slurmctld dumps": lambda world, _number: world.dumps.append(world.slurm.dump()),
    "slurmctld restores": _restore,
    "the book is lost": lambda world, _number: world.lose_book(),
    "the clock jumps": lambda world, number: setattr(world, "wall", (number % 5 - 2) * 4000.0),
}


def play(events: Sequence[Event], seed: int = 0) -> World:
    """Play events, then let everything come to rest, and judge."""
    world = World(sizes=SIZES, idle_s=300.0, boot_s=600.0, order_s=600.0)
    chance = random.Random(seed)
    for name, number in events:
        EVENTS[name](world, number)
        world.advance(15 * chance.randrange(0, 6))
    calm(world)
    _judge(world, [])
    # Nothing is stuck: a person opens what is stopped, and a job of half the set runs, on exactly its nodes.
    for job in world.slurm.jobs.values():
        world.slurm.cancel(job)
    for name in list(world.slurm.nodes):
        world.slurm.undrain(name)
    for record in world.book.sets.values():
        record.closed, record.boots = None, 0
    world.book.keep.clear()
    last = world.slurm.submit(3, 1e9)
    runs = world.advance(2 * 3600, lambda: last.state == "RUNNING")
    world.advance(3600, lambda: world.count() == 3)
    # A node that waited for an earlier job may still boot. The daemon sees the last deletion at its next reading.
    world.advance(1200)
    stuck = [] if runs else [f"the last job is {last.state}: {last.words[-1:]}"]
    stuck += [] if world.count() == 3 else [f"{world.count()} machines for 3 nodes"]
    _judge(world, stuck)
    return world


def _judge(world: World, problems: Sequence[str]) -> None:
    found = [*problems, *world.violations, *world.differences()]
    assert not found, "\n".join([*found, "", *world.lines[-60:]])


def calm(world: World) -> None:
    """No further faults; a person opens what is stopped. Time passes until nothing changes any more."""
    world.kill_in, world.meanwhile, world.stopped = None, [], ""
    _max(world, 0)
    for name in SIZES:
        world.book.of(name).paused = False
    for arm in world.arms.values():
        arm.next_order, arm.list_faults, arm.delete_faults, arm.next_boot = [], [], [], []
        arm.throttled_until, arm.lag_s = 0.0, 0.0
    world.slurm.faults = []
    end = world.now + STEADY_S
    quiet = 0
    while world.now < end and quiet < 3:
        world.advance(300)
        quiet = quiet + 1 if not world.differences() else 0


def events_of(seed: int) -> list[Event]:
    """The events of a seed."""
    chance = random.Random(seed)
    names = list(EVENTS)
    return [(chance.choice(names), chance.randrange(1000)) for _number in range(chance.randrange(8, 40))]


DAILY, ALL = 25, 1000


@pytest.mark.parametrize("seed", [pytest.param(n, marks=[] if n < DAILY else pytest.mark.thorough) for n in range(ALL)])
def test_everything_converges_after_random_faults(seed: int) -> None:
    """A failing seed is the test's parameter, so the same test replays it."""
    play(events_of(seed), seed)


@settings(max_examples=5, deadline=None, derandomize=True, database=None, print_blob=True)
@given(st.lists(st.tuples(st.sampled_from(sorted(EVENTS)), st.integers(0, 999)), min_size=4, max_size=20))
def test_hypothesis_finds_no_short_sequence_that_does_not_converge(events: list[Event]) -> None:
    play(events)


@pytest.mark.thorough
@settings(max_examples=200, deadline=None, database=None, print_blob=True)
@given(st.lists(st.tuples(st.sampled_from(sorted(EVENTS)), st.integers(0, 999)), max_size=40))
def test_hypothesis_finds_no_sequence_that_does_not_converge(events: list[Event]) -> None:
    play(events)
