# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Which part this node has in the job that saves or restores, as Slurm tells it in the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .names import ATTEMPT


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
