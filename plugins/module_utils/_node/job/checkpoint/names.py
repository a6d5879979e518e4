# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What a checkpoint is called, where its parts lie below the place of its series, and which one is newer.

::

    data/ID/RANK-DIGEST/PATH   what a node gave, DIGEST that of its names, sizes and hashes
    shards/ID/RANK.json        a node's manifest, written when all its data is there
    complete/ID.json           the job's manifest, written when the manifests of all nodes are there
    pruned/ID                  this one is being removed, or was: it is not whole, whatever else is there
    choices/CALL.json          which one the nodes of a job restore

ID names step, attempt, number of nodes and save: what differs in one of them shares no path, so that no mix of steps or
of attempts can have a manifest.

A step alone does not say what is newer: after a restore of step 200, the new attempt's step 210 is newer than step 500
of the attempt before. That step 500 belongs to a branch that the training has left.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

COMPLETE, PRUNED, SHARDS, DATA, CHOICES = "complete/", "pruned/", "shards/", "data/", "choices/"

ATTEMPT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._]{0,62}")
SAVE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._]{0,39}")
LARGEST_STEP = 10**12 - 1
_ID = re.compile(
    r"(?P<step>[0-9]{12})-(?P<attempt>[A-Za-z0-9_][A-Za-z0-9._]{0,62})-w(?P<world>[1-9][0-9]{0,5})"
    r"(-(?P<save>[A-Za-z0-9_][A-Za-z0-9._]{0,39}))?"
)


@dataclass(frozen=True)
class Id:
    """Which checkpoint.

    :ivar step: of the training.
    :ivar attempt: of the job: a restart is another one.
    :ivar world: how many nodes give a shard.
    :ivar save: what tells two saves of one step in one attempt apart; mostly empty.
    """

    step: int
    attempt: str
    world: int
    save: str = ""

    @property
    def text(self) -> str:
        """How it is written."""
        return f"{self.step:012d}-{self.attempt}-w{self.world}{f'-{self.save}' if self.save else ''}"

    @property
    def order(self) -> tuple[object, ...]:
        """By which it is older or newer than others of its attempt. For those of other attempts see ``line_of``."""
        return (self.step, self.attempt_order, _natural(self.save), self.world)

    @property
    def attempt_order(self) -> tuple[tuple[int, str], ...]:
        """By which its attempt comes before or after others where nothing else tells, numbers as numbers."""
        return _natural(self.attempt)

    def order_in(self, attempt: str) -> tuple[object, ...]:
        """By which it is older or newer while an attempt runs: whatever that saves is newer than all of others."""
        return (self.attempt == attempt, *self.order)

    @property
    def complete(self) -> str:
        """The name of the job's manifest."""
        return f"{COMPLETE}{self.text}.json"

    @property
    def pruned(self) -> str:
        """The name of what says that it is removed."""
        return f"{PRUNED}{self.text}"

    @property
    def shards(self) -> str:
        """The folder of the nodes' manifests."""
        return f"{SHARDS}{self.text}/"

    def shard(self, rank: int) -> str:
        """Return the name of a node's manifest."""
        return f"{self.shards}{rank}.json"

    @property
    def all_data(self) -> str:
        """The folder of all nodes' data."""
        return f"{DATA}{self.text}/"

    def data(self, rank: int, digest: str) -> str:
        """Return the folder of a node's data."""
        return f"{self.all_data}{rank}-{digest[:16]}/"


def id_of(text: str) -> Id | None:
    """Return the checkpoint that ``text`` names; None if it names none."""
    found = _ID.fullmatch(text)
    if not found:
        return None
    return Id(int(found["step"]), found["attempt"], int(found["world"]), found["save"] or "")


def id_in(name: str) -> Id | None:
    """Return the checkpoint that a blob belongs to; None if it belongs to none."""
    folder, _slash, rest = name.partition("/")
    if f"{folder}/" not in (COMPLETE, PRUNED, SHARDS, DATA):
        return None
    first = rest.partition("/")[0]
    return id_of(first[: -len(".json")] if folder == COMPLETE[:-1] and first.endswith(".json") else first)


def _natural(text: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(field), "") if field.isdecimal() else (-1, field) for field in text.split("."))


@dataclass(frozen=True)
class Line:
    """The whole checkpoints of a store, sorted.

    :ivar line: those that lead to the newest one, the oldest first.
    :ivar branches: those of earlier attempts at steps that a later attempt did not continue from.
    """

    line: tuple[Id, ...] = ()
    branches: tuple[Id, ...] = ()

    @property
    def ordered(self) -> tuple[Id, ...]:
        """All of them, the newest last."""
        return (*self.branches, *self.line)


def line_of(written: Mapping[Id, float], attempt: str = "", resumed: int | None = None) -> Line:
    """Sort whole checkpoints.

    :param written: when each was written, by the store's clock.
    :param attempt: the running attempt, which is the newest; without one, the attempt that was first written to last.
    :param resumed: the step that the running attempt has restored. Without it, an attempt is taken to continue from the
        step before its own first one.
    """
    attempts: dict[str, list[Id]] = {}
    for id_ in sorted(written, key=lambda one: one.order):
        attempts.setdefault(id_.attempt, []).append(id_)
    line: list[Id] = []
    branches: list[Id] = []
    # Before its first whole checkpoint the running attempt has only gone back.
    below = resumed + 1 if resumed is not None and attempt not in attempts else None
    newest_first = sorted(
        attempts.values(),
        key=lambda ids: (ids[0].attempt == attempt, min(map(written.__getitem__, ids)), ids[0].attempt_order),
        reverse=True,
    )
    for ids in newest_first:
        mine = [id_ for id_ in ids if below is None or id_.step < below]
        branches += ids[len(mine) :]
        line = mine + line
        if mine:
            below = mine[0].step
            if mine[0].attempt == attempt and resumed is not None:
                below = min(below, resumed + 1)
    return Line(tuple(line), tuple(sorted(branches, key=lambda one: one.order)))


class NotInJob(ValueError):
    """The environment does not tell it; the message says which option does."""


@dataclass(frozen=True)
class Member:
    """A node's part.

    :ivar attempt: job and restart: all nodes of a job come to the same by themselves, and a requeued job to another.
    :ivar rank: the node's number in the job, from 0.
    :ivar world: how many nodes the job has.
    :ivar call: what this call of srun has alone, the same on all nodes; empty where there is none.
    :ivar started: when the job started, in seconds since 1970; 0 where nobody says so.
    """

    attempt: str
    rank: int
    world: int
    call: str = ""
    started: float = 0.0


def member_of(
    environment: Mapping[str, str], attempt: str | None = None, rank: int | None = None, world: int | None = None
) -> Member:
    """Return this node's part; what is given wins over what Slurm says.

    :raises NotInJob: neither is there, or they make no sense.
    """
    job, restart = environment.get("SLURM_JOB_ID", ""), environment.get("SLURM_RESTART_COUNT") or "0"
    if attempt is None:
        if not job:
            raise NotInJob("this is no job of Slurm's: give --attempt, a name for this run, the same on all its nodes")
        attempt = f"{job}.{restart}"
    if not ATTEMPT.fullmatch(attempt):
        raise NotInJob(f"the attempt {attempt!r} must be letters, digits, '.' and '_', 63 at most")
    if rank is None:
        rank = _number(environment, "SLURM_NODEID", 0)
    if world is None:
        world = _number(environment, "SLURM_JOB_NUM_NODES", _number(environment, "SLURM_NNODES", 1))
    if world < 1 or not 0 <= rank < world:
        raise NotInJob(f"rank {rank} of {world} nodes: a rank is a number from 0, smaller than the nodes' number")
    step = environment.get("SLURM_STEP_ID", "")
    return Member(
        attempt,
        rank,
        world,
        f"{attempt}.{step}" if step else "",
        float(_number(environment, "SLURM_JOB_START_TIME", 0)),
    )


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, "")
    return int(text) if text.isdecimal() else default
