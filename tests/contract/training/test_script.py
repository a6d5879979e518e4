# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rendered script runs in bash, with the real hpcnode and stand-ins for Slurm. The trainer is one without a
framework: this tests the script, its signals and statuses, and what is decided from them.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import signal
import sys
import time
from typing import Any

import pytest
from stand_ins.blob.azurite import Azurite

from simulated.training_job import bare

from .conftest import Job, with_account

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
print(f"rank {rank} runs in {os.environ.get('CONTAINER', 'no container')}", flush=True)
print(f"rank {rank} begins after step {start} at {os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}", flush=True)
for step in range(start + 1, int(args.steps) + 1):
    time.sleep(0.02)
    with open(f"{args.job}/rank-{rank}.jsonl", "a") as file:
        file.write(f'{{"t": {time.time()}, "step": {step}, "rank": {rank}, "node": "c-{rank}", "samples": 2, ')
        file.write('"step_s": 0.02, "data_s": 0, "own_s": 0.01, "loss": 1.0}\\n')
    if step % int(args.save_every) == 0 or asked:
        os.makedirs(f"{args.run}/step{step}", exist_ok=True)
        open(f"{args.job}/saved-{os.getppid()}-{rank}-{step}", "w").close()
        # The first rank marks a checkpoint as finished when the other one has written its part.
        while rank == 0 and not asked and not os.path.exists(f"{args.job}/saved-{os.getppid()}-1-{step}"):
            time.sleep(0.02)
        if rank == 0:
            open(f"{args.run}/step{step}/.complete", "w").close()
    if asked:
        sys.exit(75)
    fails = rank == 1 and step in (int(os.environ.get(name, 0)) for name in ("KILL_AT", "EXIT_AT"))
    if step == int(os.environ.get("HANG_AT", 0)):
        # The watchdog looks every 5 s, and must have noticed one step before another.
        for done in (step - 1, step):
            open(f"{args.job}/progress", "w").write(f"hpcai step {done}\\n")
            time.sleep(12)
        time.sleep(10000)
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


@pytest.fixture
def job(tmp_path: pathlib.Path) -> Job:
    """A job that can run."""
    files = tmp_path / "files"
    (files / "recipes/toy").mkdir(parents=True)
    (files / "trainers").mkdir()
    (files / "recipes/toy/recipe.json").write_text(json.dumps(RECIPE))
    (files / "trainers/toy.py").write_text(TRAINER)
    made = Job(tmp_path, "toy", files, sys.executable, "10.0.0.5")
    made.render()
    return made


def test_a_training_runs_to_its_end_and_reports(job: Job) -> None:
    status, output = job.finish(job.start())
    assert status == 0, output
    assert f"rank 1 begins after step 0 at 10.0.0.5:{15000 + int(job.number)}" in output
    assert "training  toy tiny, 2 nodes, 2 processes" in output
    assert "The job finished." in output
    assert job.control == []


def test_only_the_srun_of_the_script_trains_too(job: Job) -> None:
    """Benchmarks compare the script with it."""
    job.script.write_text(bare(job.script.read_text()))
    status, output = job.finish(job.start())
    assert status == 0, output
    assert f"rank 1 begins after step 0 at 10.0.0.5:{15000 + int(job.number)}" in output
    assert "The job finished." not in output


def test_a_killed_rank_is_requeued_and_continues_from_its_checkpoint(job: Job) -> None:
    status, output = job.finish(job.start(KILL_AT="12"))
    assert status == 137, output
    assert "ended with signal 9 on c-1; it advanced from step 0 to 10. Requeued." in output
    assert job.control == ["requeue JOB"]
    status, output = job.finish(job.start())
    assert status == 0, output
    assert "rank 0 begins after step 10" in output
    assert [(run["cause"], run["status"], run["failed"], run["kept"]) for run in job.runs] == [
        ("exit", 137, ["c-1"], 10),
        ("exit", 0, [], 20),
    ]


def test_only_the_ranks_run_in_the_container_whose_digest_the_preflight_compares(job: Job) -> None:
    image = job.folder / "x.sqsh"
    image.write_bytes(b"image")
    digest = hashlib.sha256(b"image").hexdigest()
    job.render("", "--image", f"{image}@sha256:{digest}")
    status, output = job.finish(job.start())
    assert status == 0, output
    for node in (0, 1):
        assert f"c-{node}: pass: image: {image} has its digest" in output
        mounts = f"{job.folder}/run,{job.job_folder},{job.folder}/files"
        assert f"rank {node} runs in {image} with {mounts}\n" in output
    image.write_bytes(b"another")
    status, output = job.finish(job.start())
    assert status == 1
    assert f"not {digest}: copy the image to this node again" in output
    assert "runs in" not in output


def test_no_progress_twice_is_held(job: Job) -> None:
    assert job.finish(job.start(KILL_AT="2"))[0] == 137
    assert job.control == ["requeuehold JOB", "update JobId=JOB StartTime=now+60", "release JOB"]
    status, output = job.finish(job.start(KILL_AT="2"))
    assert status == 137
    assert "Held: " in output
    assert job.control[-1] == "requeuehold JOB"


def test_a_status_that_a_restart_repeats_is_held_at_once(job: Job) -> None:
    status, output = job.finish(job.start(EXIT_AT="12", EXIT_STATUS="65"))
    assert status != 0
    assert job.runs[0]["status"] == 65
    assert "a loss that is not a number" in output
    assert job.control == ["requeuehold JOB"]


def test_the_warning_before_the_time_limit_reaches_the_training(job: Job) -> None:
    job.render("", "--steps", "100000")
    process = job.start()
    progress, deadline = job.job_folder / "rank-0.jsonl", time.monotonic() + 60
    while not progress.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGUSR1)
    status, output = job.finish(process)
    assert status == 75, output
    assert job.runs[0]["cause"] == "time_limit"
    assert job.control == ["requeue JOB"]


def test_a_node_that_the_preflight_refuses_is_left_out_and_no_training_starts(job: Job) -> None:
    (job.folder / "c-1").touch()
    job.render(str(job.folder / "@NODE@/run"))
    status, output = job.finish(job.start())
    assert status == 1, output
    assert "begins after step" not in output
    assert "c-0: pass: scratch: " in output
    assert f"c-1: fail: scratch: cannot write to {job.folder}/c-1/run: " in output
    assert [(run["cause"], run["failed"]) for run in job.runs] == [("preflight", ["c-1"])]
    assert job.control == ["requeuehold JOB", "update JobId=JOB ExcNodeList=c-1", "release JOB"]


def test_a_preflight_that_refuses_both_nodes_is_held(job: Job) -> None:
    (job.folder / "file").touch()
    job.render(str(job.folder / "file/run"))
    status, output = job.finish(job.start())
    assert status == 1, output
    assert "begins after step" not in output
    assert "Held: the checks before the start refused c-[0-1]. These are all nodes of the job" in output
    assert job.control == ["requeuehold JOB"]


def test_a_training_that_does_not_fit_is_held_before_it_starts(job: Job) -> None:
    recipe = {**RECIPE, "sizes": {"tiny": {**RECIPE["sizes"]["tiny"], "model": "175B", "device": "cuda"}}}
    (job.folder / "files/recipes/toy/recipe.json").write_text(json.dumps(recipe))
    job.render("", "--vm-size", "nd96amsr_A100_v4")
    status, output = job.finish(job.start(VM_SIZE="nd96amsr_A100_v4"))
    assert status == 1, output
    assert "begins after step" not in output
    assert "Held: no node can run this job: it does not fit on 2 x Standard_ND96amsr_A100_v4: A GPU needs" in output
    assert job.control == ["requeuehold JOB"]


@pytest.mark.thorough
def test_each_node_stages_all_data_to_its_own_disks_and_a_requeued_job_finds_them(job: Job, account: Azurite) -> None:
    with_account(job)
    names = [f"sample_{number:03}" for number in range(4)]
    for name in names:
        account.put("data", f"set/{name}", name.encode() * 100)
    job.render("", "--source", f"{account.url}/data/set", "--data", str(job.folder / "@NODE@/data"))
    status, output = job.finish(job.start(KILL_AT="12"))
    assert status == 137, output
    for node in ("c-0", "c-1"):
        assert sorted(path.name for path in (job.folder / node / "data").glob("sample_*")) == names
    # As after a run that was killed while it staged.
    (job.folder / "c-1/data/sample_002").unlink()
    status, output = job.finish(job.start(SLURM_RESTART_COUNT="1"))
    assert status == 0, output
    assert "c-0: pass: data: " in output
    assert "c-1: unknown: data: " in output
    assert "rank 0 begins after step 10" in output
    assert (job.folder / "c-1/data/sample_002").exists()


@pytest.mark.thorough
def test_a_hang_is_ended_and_requeued(job: Job) -> None:
    job.render("", "--hang", "6")
    status, output = job.finish(job.start(HANG_AT="12"))
    assert status == 137, output
    assert "hpcai recover: hang: " in output
    assert [(run["cause"], run["failed"], run["kept"]) for run in job.runs] == [("hang", [], 10)]
    assert "the program made no progress and was ended; it advanced from step 0 to 10. Requeued." in output
    assert job.control[-1] == "requeue JOB"
    # The note counts for its own run only.
    status, output = job.finish(job.start(SLURM_RESTART_COUNT="1", KILL_AT="17"))
    assert job.runs[1]["cause"] == "exit"
