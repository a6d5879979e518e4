# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The search for the bad node among several, under Slurm: round after round of runs, until all is said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Callable

from ..machine.run import Result
from ..slurm.hostlist import compress
from ..slurm.job_control import Job
from ..slurm.nodes import NodeState
from .pair import Step, Trial, next_step
from .pair_run import PROGRAM, WAIT_S, command, trial

_AT_ONCE = 32
_SPARE_S = WAIT_S + 60
"""What a run that is ended by its own limit may take beyond it, its wait for the nodes included."""

RunFor = Callable[[Sequence[str], float], Result]
"""Runs a command for at most so many seconds."""


@dataclass(frozen=True)
class Wanted:
    """How to measure.

    :ivar gpus: GPUs of a node; each gets a task of its own.
    :ivar size: the message size, e.g. ``8G``.
    :ivar at_least: the bus bandwidth in GB/s below which a pair has failed; None where only a run that breaks has.
    :ivar seconds: how long one run may take.
    :ivar srun: further options for srun: partition, reservation, account.
    :ivar environment: further variables of the program.
    """

    gpus: int
    program: str = PROGRAM
    size: str = "8G"
    at_least: float | None = None
    seconds: int = 300
    mpi: str = "pmix"
    srun: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """What came of it."""

    trials: tuple[Trial, ...]
    step: Step
    rounds: int


def left_out(known: Mapping[str, NodeState], jobs: Iterable[Job], names: Iterable[str]) -> dict[str, str]:
    """Return the nodes that cannot be measured now, with the reason. Pure. No job is ever disturbed."""
    there = list(jobs)
    reasons: dict[str, str] = {}
    for name in names:
        node = known.get(name)
        busy = [str(job) for job in there if name in job.nodes]
        if node is None:
            reasons[name] = "slurmctld does not know it"
        elif busy:
            reasons[name] = f"jobs are there: {', '.join(busy)}"
        elif node.out or not node.answers:
            states = "+".join(node.states)
            reasons[name] = (
                f"it is {states}" + (f" ({node.reason})" if node.reason else "") + ", so nothing starts there"
            )
        elif not {"IDLE", "RESERVED"} & {*node.states}:
            reasons[name] = f"it is {'+'.join(node.states)}, not idle"
    return reasons


def search(nodes: Sequence[str], wanted: Wanted, run: RunFor, known_good: Sequence[str] = ()) -> Found:
    """Run pairs, and then what they give rise to, until there is nothing more to learn. Where all pairs work, all nodes
    together are tried at last: some faults show only there.

    :raises ValueError: fewer than two nodes.
    """
    trials: list[Trial] = []
    rounds = 0
    everybody = tuple(nodes)
    while True:
        step = next_step(nodes, trials, known_good)
        groups = step.groups
        if step.done:
            untried = all(done.members != frozenset(everybody) for done in trials)
            sound = not (step.bad or step.links or step.unclear or step.groups_failing)
            if len(everybody) < 3 or not untried or not sound:
                return Found(tuple(trials), step, rounds)
            groups = (everybody,)
        rounds += 1
        with ThreadPoolExecutor(max_workers=min(_AT_ONCE, len(groups))) as pool:
            trials += pool.map(lambda group: _try(group, wanted, run), groups)


def in_words(done: Trial) -> str:
    """Return a run in one line, for people."""
    told = done.why or (f"{done.value:.4g} GB/s" if done.value is not None else "")
    return f"{compress(sorted(done.nodes))}: {done.verdict}" + (f", {told}" if told else "")


def _try(group: Sequence[str], wanted: Wanted, run: RunFor) -> Trial:
    words = command(
        group,
        wanted.gpus,
        wanted.size,
        program=wanted.program,
        environment=wanted.environment,
        limit_s=wanted.seconds,
        mpi=wanted.mpi,
        options=wanted.srun,
    )
    done = run(words, wanted.seconds + _SPARE_S)
    # The known limits are those of two nodes.
    limit = wanted.at_least if len(group) == 2 else None
    return trial(group, done.rc, done.stdout, done.stderr, limit, wanted.gpus)
