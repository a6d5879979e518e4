# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a rank runs, what its steps take, and how far it is: for the report, the watchdog and the node's metrics."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

MEASURE_EVERY = 100
"""In so many steps, a rank measures once how much of a step is its own work."""
WARM_UP = 2
"""The first steps of a run allocate memory and compile kernels, so they are not reported."""
PROGRESS_SOCKET = "/run/hpcai/progress.sock"
PROGRESS_EVERY_S = 1.0
REPORT_LIMIT_S = 0.05
"""The longest time that a training waits for the node's metrics service: other users may keep the service busy."""
REPORT_AGAIN_S = 60.0
"""After a failure, a training does not report for this time."""


@dataclass(frozen=True)
class Rank:
    """This process among all of them.

    :ivar rank: its number, from 0.
    :ivar world: number of processes.
    :ivar local: its number on its node.
    :ivar node: name of the node.
    :ivar node_id: number of the node.
    """

    rank: int
    world: int
    local: int
    node: str
    node_id: int


def this_rank() -> Rank:
    """Return this process' place, as srun, mpirun or torchrun tells it."""
    if "OMPI_COMM_WORLD_RANK" in os.environ:
        names = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK")
    elif "SLURM_PROCID" in os.environ:
        names = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")
    else:
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    rank, local = (int(os.environ.get(name, "0")) for name in (names[0], names[2]))
    world = int(os.environ.get(names[1], "1"))
    node = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    return Rank(rank, world, local, node, int(os.environ.get("SLURM_NODEID", rank)))


class Collectives:
    """How long this rank is in collectives while the context is open.

    A rank that is early waits in them for the others, so what remains of a step is its own work. PyTorch's profiler
    has them for each framework: of gloo from their call to their end, of NCCL as kernels.

    :param wanted: whether to measure; the profiler makes a step slower.
    """

    def __init__(self, device: torch.device, wanted: bool) -> None:
        kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])]
        self._profile = profile(activities=kinds) if wanted else None

    def __enter__(self) -> Collectives:
        if self._profile:
            self._profile.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._profile:
            self._profile.__exit__(*error)

    def seconds(self) -> float:
        """Return the time in at least one collective."""
        assert self._profile is not None
        spans = sorted(
            (event.time_range.start, event.time_range.end)
            for event in self._profile.events() or []
            if event.name.startswith("gloo:" if event.device_type == DeviceType.CPU else "nccl")
        )
        total = until = 0.0
        for begin, end in spans:
            total += max(end - max(begin, until), 0.0)
            until = max(until, end)
        return total / 1e6


class Times:
    """Averages of a rank's times, written as lines of JSON, and the last step for the watchdog.

    :param job: the job's folder. Where nodes do not share it, each has the times of its own ranks.
    :param samples: samples of a step, of all ranks.
    :param steps: the last step.
    """

    def __init__(self, job: str, rank: Rank, samples: int, steps: int) -> None:
        self._job, self._rank, self._samples, self._last = job, rank, samples, steps
        self._said = -PROGRESS_EVERY_S
        self._report_at = 0.0
        os.makedirs(job, exist_ok=True)
        self._clear()

    def _clear(self) -> None:
        self._steps, self._step, self._data, self._own = 0, 0.0, 0.0, 0.0

    def add(self, step: float, data: float, own: float) -> None:
        """Add the seconds of a step: all of it, waiting for data, and own work."""
        self._steps += 1
        self._step += step
        self._data += data
        self._own += own

    def complete(self, step: int) -> None:
        """Write that a step is complete, as ``hpcnode train progress`` does, for the watchdog of this node."""
        now = time.monotonic()
        if self._rank.local or now - self._said < PROGRESS_EVERY_S:
            return
        self._said = now
        path = f"{self._job}/progress"
        with open(f"{path}-{self._rank.rank}", "w", encoding="ascii") as file:
            file.write(f"hpcai step {step}\n")
        os.replace(file.name, path)

    def write(self, step: int, loss: float | None) -> None:
        """Write the averages since the last line.

        :param loss: of all ranks; None from ranks that do not report it.
        """
        if not self._steps:
            return
        line = {
            "t": time.time(),
            "step": step,
            "rank": self._rank.rank,
            "node": self._rank.node,
            "samples": self._samples,
            "step_s": self._step / self._steps,
            "data_s": self._data / self._steps,
            "own_s": self._own / self._steps,
            **({} if loss is None else {"loss": loss}),
        }
        with open(f"{self._job}/rank-{self._rank.rank}.jsonl", "a", encoding="ascii") as file:
            file.write(f"{json.dumps(line)}\n")
        is_time = self._rank.local == 0 and time.monotonic() >= self._report_at
        if is_time and not _report(step, self._last, self._step / self._steps):
            self._report_at = time.monotonic() + REPORT_AGAIN_S
        self._clear()


def _report(step: int, steps: int, step_s: float) -> bool:
    """Send the progress to the node's metrics service, if there is one; return whether the service answered.

    See ``hpcnode metrics progress --help``.
    """
    message = json.dumps({"kind": "train", "step": step, "steps": steps, "step_seconds": step_s})
    until = time.monotonic() + REPORT_LIMIT_S
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        # With Python's own timeout, connect would fail at once while others wait (EAGAIN, connect(2)).
        _limit(connection, socket.SO_SNDTIMEO, REPORT_LIMIT_S)
        connection.connect(PROGRESS_SOCKET)
        connection.send(message.encode("ascii"))
        # The service looks at this process until it answers.
        _limit(connection, socket.SO_RCVTIMEO, until - time.monotonic())
        return bool(connection.recv(8))
    return False


def _limit(connection: socket.socket, option: int, seconds: float) -> None:
    """Limit how long the kernel waits. A limit of 0 would mean none."""
    connection.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", 0, max(int(seconds * 1e6), 1000)))
