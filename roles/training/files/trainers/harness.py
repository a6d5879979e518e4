# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What all trainers share: the ranks, the loop with its times, checkpoints that are finished or absent, how it ends.

Exit statuses, which ``hpcnode train end`` reads: 0 finished; 75 saved and stopped because it was asked to; 65 the loss
is not a number; 73 a checkpoint cannot be written; 78 the options contradict each other.
"""

from __future__ import annotations

import argparse
import datetime
import glob
import json
import math
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
import torch.distributed as dist

STOPPED, BAD_LOSS, CANNOT_WRITE, BAD_OPTIONS = 75, 65, 73, 78
MARKER = ".complete"
KEPT_LOCALLY = 3
_WARM_UP = 2
"""The first steps of a run allocate memory and compile kernels, so they are not reported."""


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


def options(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options that all trainers have."""
    parser = argparse.ArgumentParser(description=description)
    add = parser.add_argument
    add("--run", required=True, help="folder of the checkpoints on this node")
    add("--job", required=True, help="folder of the job, seen by all nodes, for progress")
    add("--shared", action="store_true", help="all nodes see the folder of the checkpoints")
    add("--data", default="", help="folder of the data; synthetic data without it")
    add("--steps", type=int, required=True)
    add("--save-every", type=int, required=True, help="steps between checkpoints")
    add("--micro-batch", type=int, default=1, help="samples that a replica computes at once")
    add("--batch", type=int, default=0, help="samples of a step")
    add("--device", choices=("cuda", "cpu"), default="cuda")
    add("--learning-rate", type=float, default=1e-3)
    add("--seed", type=int, default=1234)
    add("--report-every", type=int, default=5, help="steps between lines of progress")
    add("--timeout", type=float, default=600.0, help="seconds after which a collective without an answer fails")
    return parser


def refuse(words: str) -> None:
    """End because options contradict each other."""
    sys.stderr.write(f"{words}\n")
    sys.exit(BAD_OPTIONS)


def _leave(status: int) -> NoReturn:
    """End at once: threads of gloo may abort a process that ends in the usual way while another rank still talks."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


class Training:
    """The processes of a training, from their start to their end."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.rank = this_rank()
        self.is_first = self.rank.rank == 0
        self._asked_to_stop = False
        signal.signal(signal.SIGUSR1, self._stop)
        self._bind()
        torch.manual_seed(args.seed)
        if args.device == "cuda":
            torch.cuda.set_device(self.rank.local)
        self.device = torch.device(args.device, self.rank.local if args.device == "cuda" else 0)
        if args.device == "cpu":
            self.device = torch.device("cpu")
        dist.init_process_group(
            "nccl" if args.device == "cuda" else "gloo",
            rank=self.rank.rank,
            world_size=self.rank.world,
            init_method=f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}",
            timeout=datetime.timedelta(seconds=args.timeout),
        )
        replicas = self.rank.world
        self.micro_batches = max(args.batch // (args.micro_batch * replicas), 1) if args.batch else 1
        if args.batch and args.batch % (args.micro_batch * replicas):
            refuse(f"a batch of {args.batch} is no multiple of {args.micro_batch} samples times {replicas} replicas")

    def _stop(self, *_given: object) -> None:
        self._asked_to_stop = True

    def _bind(self) -> None:
        """Bind this process to its CPUs, which srun does itself, but mpirun does not."""
        listed = os.environ.get("HPCAI_CPU_MASKS", "")
        if "OMPI_COMM_WORLD_RANK" in os.environ and listed:
            mask = int(listed.split(",")[self.rank.local], 16)
            os.sched_setaffinity(0, {cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1})

    @property
    def global_batch(self) -> int:
        """The samples of a step."""
        return self.args.micro_batch * self.rank.world * self.micro_batches

    def say(self, words: str) -> None:
        """Write a line to the job's log, once."""
        if self.is_first:
            sys.stdout.write(f"{words}\n")
            sys.stdout.flush()

    # Checkpoints

    def newest(self) -> int:
        """Return the step of the newest checkpoint that all ranks have; 0 if there is none."""
        steps = [_step_of(path) for path in glob.glob(f"{glob.escape(self.args.run)}/step*/{MARKER}")]
        step = torch.tensor([max(steps, default=0)])
        step = step.to(self.device)
        dist.all_reduce(step, dist.ReduceOp.MIN)
        return int(step.item())

    def folder(self, step: int) -> str:
        """Return the folder of a checkpoint."""
        return f"{self.args.run}/step{step}"

    def save(self, step: int, write: Callable[[str], None]) -> None:
        """Write a checkpoint with all ranks, and mark it as finished when all of them have written.

        A full disk on one node ends all of them; without the marker, what was written never counts.
        """
        folder = self.folder(step)
        failed = ""
        try:
            os.makedirs(folder, exist_ok=True)
            write(folder)
        except OSError as error:
            failed = f"{self.rank.node}: cannot write {folder}: {error.strerror}"
        except RuntimeError as error:
            # What torch makes of a write error, such as a full disk.
            failed = f"{self.rank.node}: cannot write {folder}: {error}"
        if self._any(bool(failed)):
            if failed:
                sys.stderr.write(f"{failed}\n")
            _leave(CANNOT_WRITE)
        if self.is_first if self.args.shared else self.rank.local == 0:
            with open(f"{folder}/{MARKER}", "w", encoding="ascii"):
                pass
            self._prune()
        dist.barrier()

    def _prune(self) -> None:
        steps = sorted(_step_of(path) for path in glob.glob(f"{glob.escape(self.args.run)}/step*/{MARKER}"))
        for step in steps[:-KEPT_LOCALLY]:
            shutil.rmtree(self.folder(step), ignore_errors=True)

    def _any(self, mine: bool) -> bool:
        flag = torch.tensor([int(mine)], device=self.device)
        dist.all_reduce(flag, dist.ReduceOp.MAX)
        return bool(flag.item())

    # The loop

    def loop(
        self,
        start: int,
        batches: Iterator[Any],
        step: Callable[[int, Any], torch.Tensor],
        write: Callable[[str], None],
    ) -> None:
        """Train from the step after ``start``.

        :param batches: the data of each step from there on.
        :param step: trains one step, and returns the loss of this rank.
        :param write: writes a checkpoint into a folder.
        """
        args = self.args
        if start:
            self.say(f"continuing after step {start}")
        times = _Times(self)
        saved, loss, stop = start, None, False
        for number in range(start + 1, args.steps + 1):
            begun = time.perf_counter()
            batch = next(batches)
            waited = time.perf_counter() - begun
            loss = step(number, batch)
            self._synchronize()
            stop, bad, in_collective = self._agree(loss)
            times.add(time.perf_counter() - begun, waited, in_collective, number - start)
            if bad:
                self.say(f"step {number}: the loss is not a number")
                _leave(BAD_LOSS)
            if number % args.report_every == 0 or number == args.steps or stop:
                times.write(number, self._mean(loss))
            if number % args.save_every == 0 or number == args.steps or stop:
                self.save(number, write)
                saved = number
            if stop and number < args.steps:
                self.say(f"stopped after step {number}, saved at {saved}")
                self.end(STOPPED)
        if loss is not None:
            self.say(f"step {args.steps}: loss {self._mean(loss):.6f}")
        self.end(0)

    def end(self, status: int) -> None:
        """Leave the group and end."""
        dist.barrier()
        _leave(status)

    def _synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def _agree(self, loss: torch.Tensor) -> tuple[bool, bool, float]:
        """Return whether any rank was asked to stop, whether any loss is bad, and how long this rank waited."""
        stop = self._asked_to_stop or self._notice()
        flags = torch.tensor([int(stop), int(not math.isfinite(float(loss.detach())))], device=self.device)
        begun = time.perf_counter()
        dist.all_reduce(flags, dist.ReduceOp.MAX)
        self._synchronize()
        return bool(flags[0].item()), bool(flags[1].item()), time.perf_counter() - begun

    def _notice(self) -> bool:
        """Return whether the watcher wrote that the platform will stop this node, and record it for the job."""
        if self.rank.local:
            return False
        if not glob.glob(f"{glob.escape(self.args.run)}/.hpcai-checkpoint/notice-*"):
            return False
        with open(f"{self.args.job}/notice-{self.rank.node}", "w", encoding="ascii"):
            pass
        return True

    def _mean(self, loss: torch.Tensor) -> float:
        mean = loss.detach().float().reshape(1).clone().to(self.device)
        dist.all_reduce(mean)
        return float(mean.item()) / self.rank.world


class _Times:
    """Averages of a rank's times, written as lines of JSON."""

    def __init__(self, training: Training) -> None:
        self._training = training
        # Where nodes do not share the folder, each has the times of its own ranks.
        os.makedirs(training.args.job, exist_ok=True)
        self._path = f"{training.args.job}/rank-{training.rank.rank}.jsonl"
        self._clear()

    def _clear(self) -> None:
        self._steps, self._step, self._data, self._own = 0, 0.0, 0.0, 0.0

    def add(self, step: float, data: float, waited: float, since_start: int) -> None:
        if since_start <= _WARM_UP:
            return
        self._steps += 1
        self._step += step
        self._data += data
        self._own += step - data - waited

    def write(self, step: int, loss: float) -> None:
        if not self._steps:
            return
        training = self._training
        line = {
            "t": time.time(),
            "step": step,
            "rank": training.rank.rank,
            "node": training.rank.node,
            "samples": training.global_batch,
            "step_s": self._step / self._steps,
            "data_s": self._data / self._steps,
            "own_s": self._own / self._steps,
            **({"loss": loss} if training.is_first else {}),
        }
        with open(self._path, "a", encoding="ascii") as file:
            file.write(f"{json.dumps(line)}\n")
        self._clear()


def _step_of(marker: str) -> int:
    name = os.path.basename(os.path.dirname(marker))
    digits = name[len("step") :]
    return int(digits) if digits.isdecimal() else 0
