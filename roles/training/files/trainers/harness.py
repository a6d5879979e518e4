# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What all trainers share: the ranks, the loop with its times, checkpoints that are finished or absent, how it ends.

Exit statuses, which ``hpcnode train end`` reads: 0 finished; 75 saved and stopped because it was asked to; 65 the loss
is not a number; 73 a checkpoint cannot be written; 78 the options contradict each other.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import math
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

# Otherwise each profile of a step writes two lines to the log, on each rank. PyTorch reads it once.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")

import saved
import torch
import torch.distributed as dist
from measure import MEASURE_EVERY, WARM_UP, Collectives, Times, this_rank

STOPPED, BAD_LOSS, CANNOT_WRITE, BAD_OPTIONS = 75, 65, 73, 78
KEPT_LOCALLY = 3


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
    """The processes of a training, from their start to their end.

    :param any_world: whether a checkpoint can be loaded by another number of processes than wrote it.
    :param replica: how many processes compute a replica of the model, which share its samples.
    :ivar micro_batches: micro-batches of a step on each replica.
    :ivar samples: samples of a step, of all replicas.
    """

    def __init__(self, args: argparse.Namespace, any_world: bool = False, replica: int = 1) -> None:
        self.args = args
        self._any_world = any_world
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
        replicas = max(self.rank.world // replica, 1)
        self.micro_batches = max(args.batch // (args.micro_batch * replicas), 1) if args.batch else 1
        if args.batch and args.batch % (args.micro_batch * replicas):
            refuse(f"a batch of {args.batch} is no multiple of {args.micro_batch} samples times {replicas} replicas")
        self.samples = args.micro_batch * replicas * self.micro_batches
        self._writer = self._of_first(saved.new_writer())

    def _of_first(self, own: str) -> str:
        """Return what the first rank has."""
        one = [own]
        dist.broadcast_object_list(one, 0, device=self.device)
        return one[0]

    def _stop(self, *_given: object) -> None:
        self._asked_to_stop = True

    def _bind(self) -> None:
        """Bind this process to its CPUs, which srun does itself, but mpirun does not."""
        listed = os.environ.get("HPCAI_CPU_MASKS", "")
        if "OMPI_COMM_WORLD_RANK" in os.environ and listed:
            mask = int(listed.split(",")[self.rank.local], 16)
            os.sched_setaffinity(0, {cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1})

    def say(self, words: str) -> None:
        """Write a line to the job's log, once."""
        if self.is_first:
            sys.stdout.write(f"{words}\n")
            sys.stdout.flush()

    # Checkpoints

    def newest(self, is_whole: Callable[[str], bool] = lambda _folder: True) -> int:
        """Return the step of the newest checkpoint that all ranks have; 0 if there is none.

        It ends all processes if another job wrote the newest one of a node: to continue that, or to overwrite it, is
        the user's decision.

        :param is_whole: whether a folder has all that a rank needs to load the checkpoint.
        """
        run = self.args.run
        found = saved.finished(run)
        foreign = saved.foreign(run, found, saved.job_of(self._writer))
        mine = {step: writer for step, writer in found.items() if is_whole(self.folder(step))}
        seen: list[Any] = [None] * self.rank.world
        words = ""
        if foreign:
            words = f"{self.rank.node}: {self.folder(foreign)} was written by job {saved.job_of(found[foreign])}"
        dist.all_gather_object(seen, (mine, words))
        refused = [words for _mine, words in seen if words]
        if refused:
            self.say(
                f"{refused[0]}, and this job has not restored it: use another folder, or remove it. To continue that "
                f"training instead, remove the files {run}/step*/{saved.WRITER} on all nodes."
            )
            _leave(BAD_OPTIONS)
        step = saved.newest_common([mine for mine, _words in seen])
        if step and not self._any_world:
            self._require_world(step)
        return step

    def _require_world(self, step: int) -> None:
        """End all processes if another number of them wrote a checkpoint that only as many can load."""
        try:
            with open(f"{self.folder(step)}/{saved.WORLD}", encoding="ascii") as file:
                written = file.read()
        except FileNotFoundError:
            # Written by another program, which may know.
            written = str(self.rank.world)
        if self._any(written != str(self.rank.world)):
            self.say(
                f"{self.folder(step)} was written by {written} processes, and only as many can load it: this training "
                f"has {self.rank.world}. Use the same number of nodes, or another folder."
            )
            _leave(BAD_OPTIONS)

    def folder(self, step: int) -> str:
        """Return the folder of a checkpoint."""
        return f"{self.args.run}/step{step}"

    def save(self, step: int, write: Callable[[str], None]) -> None:
        """Write a checkpoint with all ranks, and mark it as finished when all of them have written.

        A rank that cannot write ends at once, and the launcher then ends the others: they may wait for it in a
        collective of their framework. Without the marker, what was written never counts.
        """
        folder = self.folder(step)
        self._clear(folder)
        with self._ends_if_it_cannot_write(folder):
            os.makedirs(folder, exist_ok=True)
            write(folder)
        dist.barrier()
        with self._ends_if_it_cannot_write(folder):
            if self._owns_folder:
                saved.sync(folder)
        # On each node, the marker means that all nodes have their parts on their disks.
        dist.barrier()
        with self._ends_if_it_cannot_write(folder):
            if self._owns_folder:
                saved.mark(folder, self.rank.world, self._writer)
                self._prune()
        dist.barrier()

    @contextlib.contextmanager
    def _ends_if_it_cannot_write(self, folder: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            failed = f"{self.rank.node}: cannot write {folder}: {error.strerror}"
        except RuntimeError as error:
            # What torch makes of a write error, such as a full disk.
            failed = f"{self.rank.node}: cannot write {folder}: {error}"
        else:
            return
        sys.stderr.write(f"{failed}\n")
        _leave(CANNOT_WRITE)

    @property
    def _owns_folder(self) -> bool:
        """Whether this rank marks and removes checkpoints: one rank for each folder."""
        return self.is_first if self.args.shared else self.rank.local == 0

    def _clear(self, folder: str) -> None:
        """Remove what an interrupted run left of a checkpoint, before a rank writes to it."""
        if self._owns_folder:
            with contextlib.suppress(OSError):
                os.unlink(f"{folder}/{saved.MARKER}")
            shutil.rmtree(folder, ignore_errors=True)
        dist.barrier()

    def _prune(self) -> None:
        for step in sorted(saved.finished(self.args.run))[:-KEPT_LOCALLY]:
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
        times, own = Times(self.args.job, self.rank, self.samples, args.steps), 0.0
        kept, loss, stop = start, None, False
        for number in range(start + 1, args.steps + 1):
            begun = time.perf_counter()
            batch = next(batches)
            waited = time.perf_counter() - begun
            measured = number == start + WARM_UP + 1 or number % MEASURE_EVERY == 0
            with Collectives(self.device, measured) as collectives:
                started = time.perf_counter()
                loss = step(number, batch)
                self._synchronize()
                worked = time.perf_counter() - started
            stop, bad = self._reduce_flags(loss)
            if measured:
                own = max(worked - collectives.seconds(), 0.0)
            elif number - start > WARM_UP:
                times.add(time.perf_counter() - begun, waited, own)
            times.complete(number)
            if bad:
                self.say(f"step {number}: the loss is not a number")
                _leave(BAD_LOSS)
            if number % args.report_every == 0 or number == args.steps or stop:
                mean = self._mean(loss)
                times.write(number, mean if self.is_first else None)
            if number % args.save_every == 0 or number == args.steps or stop:
                self.save(number, write)
                kept = number
            if stop and number < args.steps:
                self.say(f"stopped after step {number}, saved at {kept}")
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

    def _reduce_flags(self, loss: torch.Tensor) -> tuple[bool, bool]:
        """Return whether any rank was asked to stop, and whether any loss is bad."""
        stop = self._asked_to_stop or self._notice()
        flags = torch.tensor([int(stop), int(not math.isfinite(float(loss.detach())))], device=self.device)
        dist.all_reduce(flags, dist.ReduceOp.MAX)
        return bool(flags[0].item()), bool(flags[1].item())

    def _notice(self) -> bool:
        """Return whether the watcher wrote that the platform will stop this node, and record it for the job.

        If all nodes see the folder, a node that was evicted has left its notice there.
        """
        host = socket.gethostname().partition(".")[0] or "host"
        if self.rank.local or not os.path.exists(f"{self.args.run}/.hpcai-checkpoint/notice-{host}"):
            return False
        with open(f"{self.args.job}/notice-{self.rank.node}", "w", encoding="ascii"):
            pass
        return True

    def _mean(self, loss: torch.Tensor) -> float:
        mean = loss.detach().float().reshape(1).clone().to(self.device)
        dist.all_reduce(mean)
        return float(mean.item()) / self.rank.world
