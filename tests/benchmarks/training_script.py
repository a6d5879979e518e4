# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The time of a recipe's batch script beside its training: the script as a user gets it, against its srun alone.

    HPCAI_TORCH_FILES=FOLDER tests/benchmarks/run.sh training_script --steps 3000 --runs 3

hpcnode and the framework are real. Stand-ins replace Slurm, so what Slurm takes for a step is in neither time. Both
take turns, so that a busy machine slows both. The target is less than 2 % of a run. The script's time does not depend
on the number of steps, so the shortest run that reaches the target is printed too. With Slurm, on nodes,
tests/cluster/test_training_recipes.py prints the same.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from _pytest.outcomes import Skipped

from contract.training.conftest import Job, framework_job
from simulated.training_job import bare

TARGET = 0.02


def seconds(job: Job, text: str) -> float:
    """Run a script, and return its seconds."""
    for folder in ("run", job.job_folder.name):
        shutil.rmtree(job.folder / folder, ignore_errors=True)
    began = time.monotonic()
    done = subprocess.run(
        ["bash", "-c", text], env=job.environment, cwd=job.folder, capture_output=True, text=True, check=False
    )
    took = time.monotonic() - began
    if done.returncode:
        raise SystemExit(f"the training failed ({done.returncode}):\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return took


def main() -> None:
    """Print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="bert-ddp", help="the recipe, in its size tiny (bert-ddp)")
    parser.add_argument("--steps", type=int, default=3000, help="steps of each run (3000)")
    parser.add_argument("--runs", type=int, default=3, help="runs of each (3)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hpcai-benchmark-") as folder:
        try:
            job = framework_job(Path(folder) / "job", args.recipe)
        except Skipped as reason:
            raise SystemExit(str(reason)) from None
        job.render("", "--steps", str(args.steps), "--shared")
        script = job.script.read_text(encoding="utf-8")
        address, port = job.environment["ADDRESS"], 15000 + int(job.number)
        alone = bare(
            script, 'mkdir -p "$job"', f"export MASTER_ADDR={address} MASTER_PORT={port} GLOO_SOCKET_IFNAME=lo"
        )
        turns = [
            (seconds(job, alone), seconds(job, f"bash {shlex.quote(str(job.script))}")) for _run in range(args.runs)
        ]
    own = statistics.median(one for one, _complete in turns)
    more = statistics.median(complete - one for one, complete in turns)
    load = os.getloadavg()[0]
    print(f"{args.recipe} tiny, {args.steps} steps, {args.runs} runs of each, load {load:.0f}")
    print(f"srun alone {own:.1f} s; the script takes {more:.1f} s more ({more / own:.1%})")
    print(f"below {TARGET:.0%} for trainings over {more / TARGET:.0f} s")


if __name__ == "__main__":
    main()
