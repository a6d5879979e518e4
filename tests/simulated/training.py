# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A simulated training of several ranks: ``training.py DATA CHECKPOINTS LAST_STEP``. Each rank is a Slurm task.

The state of a rank after a step depends on all earlier steps and on the data. So a training that was killed and resumed
correctly ends with the same state as one without interruption. Every tenth step is saved as PyTorch does it: the files
of each rank, a barrier, then the marker.
"""

from __future__ import annotations

import hashlib
import os
import random
import sys
import time
from pathlib import Path

EVERY = 10
"""Steps between checkpoints."""
PART_BYTES, PARTS = 600_000, 4
"""The files that a rank saves."""
STEP_S = 0.4


def digest_of(data: Path) -> str:
    """A digest of the data's file names and content."""
    total = hashlib.sha256()
    for path in sorted(path for path in data.rglob("*") if path.is_file() and ".hpcai-stage" not in path.parts):
        total.update(f"{path.relative_to(data)}\n".encode() + path.read_bytes())
    return total.hexdigest()


def after(state: str, step: int, rank: int, digest: str) -> str:
    """The state of a rank after one more step."""
    return hashlib.sha256(f"{state} {step} {rank} {digest}".encode()).hexdigest()


def newest(run: Path) -> int:
    """The step of the newest checkpoint, or 0 if there is none."""
    return max([int(path.name.removeprefix("step")) for path in run.glob("step*")], default=0)


def save(run: Path, step: int, rank: int, world: int, state: str) -> None:
    """Write a rank's files. When all ranks have done so, rank 0 writes the marker."""
    folder = run / f"step{step}"
    folder.mkdir(exist_ok=True)
    kind = random.Random(state)
    for number in range(PARTS):
        (folder / f"rank{rank}.{number}").write_bytes(state.encode() + kind.randbytes(PART_BYTES))
    meet(run, step, rank, world)
    if rank == 0:
        (folder / ".complete").touch()


def meet(run: Path, step: int, rank: int, world: int) -> None:
    """A barrier: wait for all ranks."""
    here = run / ".barrier"
    here.mkdir(exist_ok=True)
    (here / f"{step}.{rank}").touch()
    while not all((here / f"{step}.{other}").exists() for other in range(world)):
        time.sleep(0.05)


def main(data: Path, run: Path, last: int) -> None:
    """Train from the newest checkpoint to the last step."""
    rank, world = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    digest, began = digest_of(data), newest(run)
    state = (run / f"step{began}" / f"rank{rank}.0").read_bytes()[:64].decode() if began else ""
    sys.stdout.write(f"rank {rank} has data {digest}\nrank {rank} goes on from step {began}\n")
    sys.stdout.flush()
    for step in range(began + 1, last + 1):
        state = after(state, step, rank, digest)
        time.sleep(STEP_S)
        if step % EVERY == 0:
            save(run, step, rank, world, state)
    sys.stdout.write(f"rank {rank} is done: {state}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
