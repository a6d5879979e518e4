# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rendered script with real frameworks, hpcnode and azcopy; only Slurm is replaced: parts of checkpoints on each
node's own disks, published to a storage account, and a rank that hangs.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import requests
from stand_ins.blob.azurite import Azurite

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.events.service import Service
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from simulator.imds import INSTANCE_HEADER
from simulator.testing import Simulator, running

from .conftest import FILES, LIMIT_S, Job, framework_job, with_account

SAVE_EVERY, STEPS = 50, 100
"""Enough steps after a checkpoint to stop the ranks before they end."""


def wait_for(done: Callable[[], object], why: Callable[[], str] = str) -> None:
    """Wait until the condition is true."""
    deadline = time.monotonic() + LIMIT_S
    while not done():
        assert time.monotonic() < deadline, why()
        time.sleep(0.01)


def trainers(job: Job, variable: str = "SLURMD_NODENAME") -> dict[str, int]:
    """The processes of a job's trainer, by node or by another variable."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdecimal() else []
            if f"--job={job.job_folder}".encode() in words and b"python" in words[0]:
                variables = (entry / "environ").read_bytes().split(b"\0")
                node = next(one for one in variables if one.startswith(f"{variable}=".encode()))
                found[node.decode().partition("=")[2]] = int(entry.name)
        except (OSError, StopIteration):
            continue
    return found


@pytest.fixture
def files(tmp_path: pathlib.Path) -> pathlib.Path:
    """The shipped recipes and trainers, with fewer checkpoints."""
    made = tmp_path / "files"
    shutil.copytree(FILES, made)
    for path in made.glob("recipes/*/recipe.json"):
        content = json.loads(path.read_text())
        content["sizes"]["tiny"] |= {"steps": STEPS, "save_every": SAVE_EVERY}
        path.write_text(json.dumps(content))
    return made


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_parts_on_each_nodes_disks_are_published_and_restored_on_other_nodes(
    tmp_path: pathlib.Path, files: pathlib.Path, account: Azurite
) -> None:
    job = framework_job(tmp_path, "fsdp", files)
    with_account(job)
    store = f"{account.url}/checkpoints/fsdp"
    job.render(str(tmp_path / "@NODE@/run"), "--store", store)
    process = job.start()
    # A stopped rank stops the other one too, so the upload of a checkpoint ends before the training.
    marker = tmp_path / f"c-1/run/step{SAVE_EVERY}/.complete"
    wait_for(lambda: marker.exists() or process.poll() is not None)
    ranks = trainers(job)
    assert sorted(ranks) == ["c-0", "c-1"]
    os.kill(ranks["c-1"], signal.SIGSTOP)
    wait_for(lambda: account.names("checkpoints", "fsdp/complete/"), lambda: str(account.names("checkpoints")))
    os.kill(ranks["c-1"], signal.SIGKILL)
    status, output = job.finish(process)
    assert status != 0
    assert [(run["cause"], run["failed"], run["kept"]) for run in job.runs] == [("exit", ["c-1"], SAVE_EVERY)], output
    assert job.control == ["requeue JOB"]
    # Each node had its own part only.
    parts = [sorted(path.name for path in (tmp_path / f"c-{node}/run/step{SAVE_EVERY}").iterdir()) for node in (0, 1)]
    assert [".metadata" in names for names in parts] == [True, False]

    # The job starts again on nodes whose disks are empty.
    for node in (0, 1):
        shutil.rmtree(tmp_path / f"c-{node}")
    status, output = job.finish(job.start(SLURM_RESTART_COUNT="1"))
    assert status == 0, output
    assert f"continuing after step {SAVE_EVERY}" in output
    resumed = last_losses(output)
    names = account.names("checkpoints", "fsdp/")
    assert [name for name in names if name.endswith("lineage.json")]
    assert f"fsdp/outputs/{job.job_folder.name}/runs.json" in names

    assert uninterrupted(tmp_path, "fsdp", files, "--shared") == resumed


def last_losses(output: str) -> list[str]:
    """The loss of the last step, once for each run that reached it."""
    return re.findall(rf"^step {STEPS}: loss (\S+)$", output, re.M)


def uninterrupted(tmp_path: pathlib.Path, recipe: str, files: pathlib.Path, *words: str) -> list[str]:
    """Train without an interruption, and return the loss of the last step."""
    whole = framework_job(tmp_path / "whole", recipe, files)
    whole.render("", *words)
    status, output = whole.finish(whole.start())
    assert status == 0, output
    return last_losses(output)


@pytest.fixture
def machines() -> Iterator[pathlib.Path]:
    """The folder with the root folder of each node. The path of tmp_path can be too long for a service's socket."""
    with tempfile.TemporaryDirectory(prefix="hpcai-", dir="/tmp") as name:
        yield pathlib.Path(name)


@pytest.fixture
def subscription(machines: pathlib.Path) -> Iterator[Simulator]:
    """A simulated subscription with both nodes as spot machines. On each one, root's service reads its events."""
    with running(
        {"scale_sets": [{"name": "c", "capacity": 2, "instance_ids": [0, 1], "priority": "Spot"}]}
    ) as simulator:
        ended, services = threading.Event(), []
        for number in (0, 1):
            root, header = Root(str(machines / f"c-{number}")), {INSTANCE_HEADER: f"c_{number}"}
            service = Service(root, simulator.imds_endpoint, header)
            services.append(threading.Thread(target=service.serve, args=(2.0, ended.is_set)))
            services[-1].start()
        yield simulator
        ended.set()
        for one in services:
            one.join()


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_a_node_that_is_evicted_in_30_seconds_saves_and_publishes_before_and_the_training_goes_on(
    tmp_path: pathlib.Path, files: pathlib.Path, account: Azurite, subscription: Simulator, machines: pathlib.Path
) -> None:
    job = framework_job(tmp_path, "fsdp", files)
    with_account(job)
    job.environment["EVENTS"] = str(machines)
    job.render(str(tmp_path / "@NODE@/run"), "--store", f"{account.url}/checkpoints/fsdp")
    process = job.start()
    marker = tmp_path / f"c-1/run/step{SAVE_EVERY}/.complete"
    wait_for(lambda: marker.exists() or process.poll() is not None)
    # Its steps take milliseconds: until the notice, one of them lasts as long as a step of a large model.
    rank = trainers(job)["c-1"]
    os.kill(rank, signal.SIGSTOP)
    wait_for(lambda: account.names("checkpoints", "fsdp/complete/"), job.log.read_text)
    node = subscription.instance("c_1")
    requests.post(f"{subscription.endpoint}/_simulator/evict{node.id}", json={"seconds": 30}, timeout=10)
    wait_for(lambda: list((tmp_path / "c-1/run/.hpcai-checkpoint").glob("notice-*")), job.log.read_text)
    os.kill(rank, signal.SIGCONT)
    wait_for(lambda: len(account.names("checkpoints", "fsdp/complete/")) > 1, job.log.read_text)
    assert not node.deleted, "the checkpoint was complete in the store only after the eviction"
    status, output = job.finish(process)
    assert status == 75, output
    (run,) = job.runs
    assert (run["cause"], run["failed"]) == ("preempted", ["c-1"]), output
    assert SAVE_EVERY < run["kept"] < STEPS
    assert job.control == ["requeue JOB"]

    # The next run has another machine, and the first one keeps its disks.
    shutil.rmtree(tmp_path / "c-1/run")
    status, output = job.finish(job.start(SLURM_RESTART_COUNT="1"))
    assert status == 0, output
    assert f"continuing after step {run['kept']}" in output
    assert uninterrupted(tmp_path, "fsdp", files, "--shared") == last_losses(output)


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_a_rank_that_hangs_is_ended_in_bounded_time_and_the_training_goes_on(
    tmp_path: pathlib.Path, files: pathlib.Path
) -> None:
    job = framework_job(tmp_path, "bert-ddp", files)
    # The limit is at least ten times the longest pause, and the watchdog looks every 5 s.
    job.render("", "--hang", "20", "--steps", "100000")
    process = job.start()
    progress = job.job_folder / "progress"
    seen: set[str] = set()

    def three_steps() -> bool:
        if progress.exists():
            seen.add(progress.read_text())
        return len(seen) > 12 or process.poll() is not None

    # It writes one step a second: 12 s are two looks of the watchdog.
    wait_for(three_steps)
    ranks = trainers(job)
    os.kill(ranks["c-1"], signal.SIGSTOP)
    began = time.monotonic()
    status, output = job.finish(process)
    assert status == 137, output
    assert "hpcai recover: hang: " in output
    assert time.monotonic() - began < LIMIT_S / 2
    last = job.runs[-1]
    assert (last["cause"], last["failed"]) == ("hang", []), output
    assert last["kept"] >= SAVE_EVERY
    assert job.control == ["requeue JOB"]


@pytest.mark.thorough
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("launcher", "variable"), [("srun", "SLURM_PROCID"), ("mpirun", "OMPI_COMM_WORLD_RANK")])
def test_each_of_two_ranks_per_node_has_the_cpus_of_its_mask(
    tmp_path: pathlib.Path, files: pathlib.Path, launcher: str, variable: str
) -> None:
    job = framework_job(tmp_path, "bert-ddp", files)
    job.render("", "--ranks", "2", "--launcher", launcher, "--steps", "100000")
    process = job.start()
    progress = job.job_folder / "rank-3.jsonl"
    wait_for(lambda: progress.exists() or process.poll() is not None)
    ranks = trainers(job, variable)
    cpus = {rank: frozenset(os.sched_getaffinity(pid)) for rank, pid in sorted(ranks.items())}
    process.send_signal(signal.SIGUSR1)
    status, output = job.finish(process)
    assert status == 75, output
    assert list(cpus) == ["0", "1", "2", "3"]
    assert cpus["0"] == cpus["2"]
    assert cpus["1"] == cpus["3"]
    both = cpus["0"] | cpus["1"]
    assert both <= os.sched_getaffinity(0)
    # Two ranks have no CPU in common, unless there is only one.
    assert len(both) == 1 or cpus["0"].isdisjoint(cpus["1"])
    assert "2 nodes, 4 processes" in output
