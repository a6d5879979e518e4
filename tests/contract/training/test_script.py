# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rendered script runs in bash, with the real hpcnode. srun, sinfo and scontrol are replaced by stand-ins, the
trainer by one without a framework: this tests the script, its signals and statuses, and what is decided from them.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from simulated.cluster import REPOSITORY

SRUN = """\
import os, signal, subprocess, sys
options = [word for word in sys.argv[1:] if word.startswith("--")]
words = sys.argv[1:]
while words and words[0].startswith("--"):
    words.pop(0)
given = dict(word[2:].split("=", 1) for word in options if "=" in word)
count, each = int(given["ntasks"]), int(given["ntasks-per-node"])
tasks = []
for rank in range(count):
    node = f"c-{rank // each}"
    place = {"SLURM_PROCID": rank, "SLURM_NTASKS": count, "SLURM_LOCALID": rank % each, "SLURM_NODEID": rank // each}
    environment = {**os.environ, **{name: str(value) for name, value in place.items()}, "SLURMD_NODENAME": node}
    tasks.append((node, subprocess.Popen(words, env=environment)))
for number in (signal.SIGUSR1, signal.SIGTERM):
    signal.signal(number, lambda number, _frame: [task.send_signal(number) for _node, task in tasks])
worst, left = 0, dict(enumerate(tasks))
while left:
    number, (node, task) = next(iter(left.items()))
    for number, (node, task) in left.items():
        try:
            task.wait(0.05)
            break
        except subprocess.TimeoutExpired:
            continue
    else:
        continue
    del left[number]
    status = task.returncode if task.returncode >= 0 else 128 - task.returncode
    if status:
        how = "Killed" if status == 137 else "Terminated" if status == 143 else f"Exited with exit code {status}"
        sys.stderr.write(f"srun: error: {node}: task {number}: {how}\\n")
        if given.get("kill-on-bad-exit") == "1" and status != 75:
            for _node, other in left.values():
                other.terminate()
    worst = max(worst, status) if worst != 137 else worst
sys.exit(worst)
"""
SINFO = """\
import os, sys
if "%o" in " ".join(sys.argv):
    print("c-0 10.0.0.5\\nc-1 10.0.0.6")
else:
    print("c-0|mixed|none\\nc-1|mixed|none")
"""
SCONTROL = """\
import os, sys
with open(os.environ["CONTROL"], "a") as file:
    file.write(" ".join(sys.argv[1:]) + "\\n")
"""
HPCNODE = """\
import sys
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main import main
sys.exit(main())
"""
TRAINER = """\
import argparse, glob, os, signal, sys, time
parser = argparse.ArgumentParser()
for name in ("run", "job", "steps", "save-every"):
    parser.add_argument(f"--{name}")
args, _rest = parser.parse_known_args()
rank, asked = int(os.environ["SLURM_PROCID"]), []
signal.signal(signal.SIGUSR1, lambda *_given: asked.append(1))
done = [int(path.split("step")[-1].split("/")[0]) for path in glob.glob(f"{args.run}/step*/.complete")]
start = max(done, default=0)
# Both have chosen where to begin, before one saves.
open(f"{args.job}/ready-{os.getppid()}-{rank}", "w").close()
while len(glob.glob(f"{args.job}/ready-{os.getppid()}-*")) < 2:
    time.sleep(0.02)
print(f"rank {rank} begins after step {start} at {os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}", flush=True)
for step in range(start + 1, int(args.steps) + 1):
    time.sleep(0.02)
    with open(f"{args.job}/rank-{rank}.jsonl", "a") as file:
        file.write(f'{{"t": {time.time()}, "step": {step}, "rank": {rank}, "node": "c-{rank}", "samples": 2, ')
        file.write('"step_s": 0.02, "data_s": 0, "own_s": 0.01, "loss": 1.0}\\n')
    if step % int(args.save_every) == 0 or asked:
        os.makedirs(f"{args.run}/step{step}", exist_ok=True)
        if rank == 0:
            open(f"{args.run}/step{step}/.complete", "w").close()
    if asked:
        sys.exit(75)
    fails = rank == 1 and step in (int(os.environ.get(name, 0)) for name in ("KILL_AT", "EXIT_AT"))
    # The other rank may be behind.
    kept = step - step % int(args.save_every)
    while fails and kept and not os.path.exists(f"{args.run}/step{kept}/.complete"):
        time.sleep(0.02)
    if rank == 1 and step == int(os.environ.get("KILL_AT", 0)):
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 1 and step == int(os.environ.get("EXIT_AT", 0)):
        sys.exit(int(os.environ["EXIT_STATUS"]))
"""
RECIPE: dict[str, Any] = {
    "schema": 1,
    "name": "toy",
    "summary": "A trainer without a framework",
    "source": "this test",
    "trainer": "toy.py",
    "packages": [],
    "signal": "marker",
    "sizes": {
        "tiny": {"nodes": 2, "steps": 20, "save_every": 5, "verified": "here", "device": "cpu", "ranks_per_node": 1}
    },
}


LIMIT_S = 900
"""Only for a script that hangs: on a busy machine each start of hpcnode may take seconds."""


class Job:
    """A job of the recipe toy on two nodes."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.bin = folder, folder / "bin"
        (folder / "files/recipes/toy").mkdir(parents=True)
        (folder / "files/trainers").mkdir()
        (folder / "files/recipes/toy/recipe.json").write_text(json.dumps(RECIPE))
        (folder / "files/trainers/toy.py").write_text(TRAINER)
        self.bin.mkdir()
        for name, text in (("srun", SRUN), ("sinfo", SINFO), ("scontrol", SCONTROL), ("hpcnode", HPCNODE)):
            (self.bin / name).write_text(f"#!{sys.executable}\n{text}")
            (self.bin / name).chmod(0o755)
        self.environment = {
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "PYTHONPATH": str(REPOSITORY / ".collections"),
            "USER": "alice",
            "HOME": str(folder),
            "CONTROL": str(folder / "control"),
            "SLURM_JOB_ID": "7",
            "SLURM_JOB_NODELIST": "c-[0-1]",
            "SLURM_JOB_NUM_NODES": "2",
            "SLURM_SUBMIT_DIR": str(folder),
        }
        self.script = folder / "toy.sbatch"
        self.render()

    def render(self, run: str = "", *words: str) -> None:
        """Write the script."""
        given = ["train", "script", "toy", "--recipes", str(self.folder / "files"), "--python", sys.executable]
        given += ["--run", run or str(self.folder / "run"), *words]
        done = subprocess.run([self.bin / "hpcnode", *given], env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        self.script.write_text(done.stdout)

    def start(self, **variables: str) -> subprocess.Popen[str]:
        """Start the script, as slurmd does."""
        return subprocess.Popen(
            ["bash", str(self.script)],
            env={**self.environment, **variables},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def finish(self, process: subprocess.Popen[str]) -> tuple[int, str]:
        """Wait for the script."""
        output = process.communicate(timeout=LIMIT_S)[0]
        return process.returncode, output

    @property
    def control(self) -> list[str]:
        """What scontrol was asked."""
        path = self.folder / "control"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def runs(self) -> list[dict[str, Any]]:
        """The runs of the record."""
        return list(json.loads((self.folder / "toy-tiny-7/runs.json").read_text())["runs"])


@pytest.fixture
def job(tmp_path: pathlib.Path) -> Job:
    """A job that can run."""
    return Job(tmp_path)


def test_a_training_runs_to_its_end_and_reports(job: Job) -> None:
    status, output = job.finish(job.start())
    assert status == 0, output
    assert "rank 1 begins after step 0 at 10.0.0.5:15007" in output
    assert "training  toy tiny, 2 nodes, 2 processes" in output
    assert "The job finished." in output
    assert job.control == []


def test_a_killed_rank_is_requeued_and_continues_from_its_checkpoint(job: Job) -> None:
    status, output = job.finish(job.start(KILL_AT="12"))
    assert status == 137, output
    assert "ended with signal 9 on c-1; it advanced from step 0 to 10. Requeued." in output
    assert job.control == ["requeue 7"]
    status, output = job.finish(job.start())
    assert status == 0, output
    assert "rank 0 begins after step 10" in output
    assert [(run["cause"], run["status"], run["failed"], run["kept"]) for run in job.runs] == [
        ("exit", 137, ["c-1"], 10),
        ("exit", 0, [], 20),
    ]


def test_no_progress_twice_is_held(job: Job) -> None:
    assert job.finish(job.start(KILL_AT="2"))[0] == 137
    assert job.control == ["requeuehold 7", "update JobId=7 StartTime=now+60", "release 7"]
    status, output = job.finish(job.start(KILL_AT="2"))
    assert status == 137
    assert "Held: " in output
    assert job.control[-1] == "requeuehold 7"


def test_a_status_that_a_restart_repeats_is_held_at_once(job: Job) -> None:
    status, output = job.finish(job.start(EXIT_AT="12", EXIT_STATUS="65"))
    assert status != 0
    assert job.runs[0]["status"] == 65
    assert "a loss that is not a number" in output
    assert job.control == ["requeuehold 7"]


def test_the_warning_before_the_time_limit_reaches_the_training(job: Job) -> None:
    job.render("", "--steps", "100000")
    process = job.start()
    progress, deadline = job.folder / "toy-tiny-7/rank-0.jsonl", time.monotonic() + 60
    while not progress.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGUSR1)
    status, output = job.finish(process)
    assert status == 75, output
    assert job.runs[0]["cause"] == "time_limit"
    assert job.control == ["requeue 7"]


def test_a_node_that_the_preflight_refuses_starts_no_training(job: Job) -> None:
    (job.folder / "file").touch()
    job.render(str(job.folder / "file/run"))
    status, output = job.finish(job.start())
    assert status == 1, output
    assert "begins after step" not in output
    assert "cannot write to" in output
    assert job.runs[0]["cause"] == "preflight"
