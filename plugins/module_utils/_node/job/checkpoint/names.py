# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Names of checkpoints, the layout below the location of a series, and which checkpoint is newer.

::

    data/ID/RANK-DIGEST/PATH   a node's files; DIGEST is of their names, sizes and hashes
    shards/ID/RANK.json        a node's manifest, written when all its data exists
    complete/ID.json           the job's manifest, written when the manifests of all nodes exist
    pruned/ID                  the checkpoint is being removed, or was: it is not complete, whatever else exists
    choices/CALL.json          the checkpoint that the nodes of a job restore
    about/ID/                  lineage and signature of a complete checkpoint (see ``attest``)
    outputs/JOB/               logs and reports of a job, which are never pruned

ID contains step, attempt, number of nodes and save. Checkpoints that differ in one of them share no path, so a manifest
can never mix steps or attempts.

The step alone does not define which checkpoint is newer: after a restore of step 200, the new attempt's step 210 is
newer than step 500 of the earlier attempt. That step 500 belongs to a branch that the training has left.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

COMPLETE, PRUNED, SHARDS, DATA, CHOICES = "complete/", "pruned/", "shards/", "data/", "choices/"
ABOUT = "about/"

ATTEMPT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._]{0,62}")
SAVE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._]{0,39}")
LARGEST_STEP = 10**12 - 1
_ID = re.compile(
    r"(?P<step>[0-9]{12})-(?P<attempt>[A-Za-z0-9_][A-Za-z0-9._]{0,62})-w(?P<world>[1-9][0-9]{0,5})"
    r"(-(?P<save>[A-Za-z0-9_][A-Za-z0-9._]{0,39}))?"
)


@dataclass(frozen=True)
class Id:
    """The identity of a checkpoint.

    :ivar step: of the training.
    :ivar attempt: of the job; each restart is a new attempt.
    :ivar world: how many nodes publish a shard.
    :ivar save: distinguishes two saves of one step in one attempt; mostly empty.
    """

    step: int
    attempt: str
    world: int
    save: str = ""

    @property
    def text(self) -> str:
        """The id as text."""
        return f"{self.step:012d}-{self.attempt}-w{self.world}{f'-{self.save}' if self.save else ''}"

    @property
    def order(self) -> tuple[object, ...]:
        """A sort key: older to newer within its attempt. For other attempts, see ``line_of``."""
        return (self.step, self.attempt_order, _natural(self.save), self.world)

    @property
    def attempt_order(self) -> tuple[tuple[int, str], ...]:
        """A sort key of its attempt if nothing else decides; numbers are compared as numbers."""
        return _natural(self.attempt)

    def order_in(self, attempt: str) -> tuple[object, ...]:
        """A sort key while ``attempt`` runs: its checkpoints are newer than those of all other attempts."""
        return (self.attempt == attempt, *self.order)

    @property
    def complete(self) -> str:
        """The name of the job's manifest."""
        return f"{COMPLETE}{self.text}.json"

    @property
    def pruned(self) -> str:
        """The name of the mark that it is removed."""
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

    @property
    def about(self) -> str:
        """The folder of its lineage and signature."""
        return f"{ABOUT}{self.text}/"

    @property
    def lineage(self) -> str:
        """The name of its lineage."""
        return f"{self.about}lineage.json"

    @property
    def signature(self) -> str:
        """The name of its signature."""
        return f"{self.about}signature.json"

    def data(self, rank: int, digest: str) -> str:
        """Return the folder of a node's data."""
        return f"{self.all_data}{rank}-{digest[:16]}/"


def id_of(text: str) -> Id | None:
    """Parse a checkpoint id; None if ``text`` is not one."""
    found = _ID.fullmatch(text)
    if not found:
        return None
    return Id(int(found["step"]), found["attempt"], int(found["world"]), found["save"] or "")


def id_in(name: str) -> Id | None:
    """Return the id of the checkpoint that a blob belongs to; None if it belongs to none."""
    folder, _slash, rest = name.partition("/")
    if f"{folder}/" not in (COMPLETE, PRUNED, SHARDS, DATA, ABOUT):
        return None
    first = rest.partition("/")[0]
    return id_of(first[: -len(".json")] if folder == COMPLETE[:-1] and first.endswith(".json") else first)


def _natural(text: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(field), "") if field.isdecimal() else (-1, field) for field in text.split("."))


@dataclass(frozen=True)
class Line:
    """The complete checkpoints of a store, sorted.

    :ivar line: those that lead to the newest one, oldest first.
    :ivar branches: those of earlier attempts at steps that a later attempt did not continue from.
    """

    line: tuple[Id, ...] = ()
    branches: tuple[Id, ...] = ()

    @property
    def ordered(self) -> tuple[Id, ...]:
        """All of them, newest last."""
        return (*self.branches, *self.line)


def line_of(written: Mapping[Id, float], attempt: str = "", resumed: int | None = None) -> Line:
    """Sort complete checkpoints.

    :param written: when each was written, by the store's clock.
    :param attempt: the running attempt, which is the newest; without one, the newest is the attempt whose first write
        is the latest. An attempt is older than each later one of the same job, also if a part of its checkpoint was
        late and its earlier ones are pruned.
    :param resumed: the step that the running attempt has restored. Without it, an attempt is assumed to continue from
        the step before its own first one.
    """
    attempts: dict[str, list[Id]] = {}
    for id_ in sorted(written, key=lambda one: one.order):
        attempts.setdefault(id_.attempt, []).append(id_)
    line: list[Id] = []
    branches: list[Id] = []
    # Before its first complete checkpoint, the running attempt has only gone back to the restored step.
    below = resumed + 1 if resumed is not None and attempt not in attempts else None
    began = _began({name: min(map(written.__getitem__, ids)) for name, ids in attempts.items()})
    newest_first = sorted(
        attempts.values(),
        key=lambda ids: (ids[0].attempt == attempt, began[ids[0].attempt], ids[0].attempt_order),
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


def _began(first_write: Mapping[str, float]) -> dict[str, float]:
    """Return when each attempt began, at the latest: before each attempt of the same job with more restarts."""
    made: dict[str, float] = {}
    soonest: dict[str, float] = {}
    for attempt in sorted(first_write, key=_natural, reverse=True):
        job, _dot, restart = attempt.rpartition(".")
        made[attempt] = first_write[attempt]
        if job and restart.isdecimal():
            made[attempt] = soonest[job] = min(first_write[attempt], soonest.get(job, first_write[attempt]))
    return made


class NotInJob(ValueError):
    """The environment lacks a value; the message names the option that replaces it."""


@dataclass(frozen=True)
class Member:
    """A node's part in a job.

    :ivar attempt: job id and restart count: equal on all nodes of a job, and different after a requeue.
    :ivar rank: the node's number in the job, from 0.
    :ivar world: how many nodes the job has.
    :ivar call: a unique id of this srun, equal on all nodes; empty outside of an srun.
    :ivar started: when the job started, in seconds since 1970; 0 if unknown.
    """

    attempt: str
    rank: int
    world: int
    call: str = ""
    started: float = 0.0


def member_of(
    environment: Mapping[str, str], attempt: str | None = None, rank: int | None = None, world: int | None = None
) -> Member:
    """Return this node's part; the parameters override Slurm's environment.

    :raises NotInJob: a value is missing in both, or invalid.
    """
    job, restart = environment.get("SLURM_JOB_ID", ""), environment.get("SLURM_RESTART_COUNT") or "0"
    if attempt is None:
        if not job:
            raise NotInJob("this is not a Slurm job: set --attempt to a name for this run, the same on all its nodes")
        attempt = f"{job}.{restart}"
    if not ATTEMPT.fullmatch(attempt):
        raise NotInJob(f"the attempt {attempt!r} is invalid: use at most 63 letters, digits, '.' and '_'")
    if rank is None:
        rank = _number(environment, "SLURM_NODEID", 0)
    if world is None:
        world = _number(environment, "SLURM_JOB_NUM_NODES", _number(environment, "SLURM_NNODES", 1))
    if world < 1 or not 0 <= rank < world:
        raise NotInJob(f"rank {rank} of {world} nodes is invalid: ranks are from 0 to the number of nodes minus 1")
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
