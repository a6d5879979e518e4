# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A checkpoint of two nodes in a storage account, with the real azcopy: killed during an upload, and restored."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from stand_ins.blob.azurite import Azurite, azcopy_in
from stand_ins.blob.sas import account_sas

REPOSITORY = Path(__file__).resolve().parents[3]
HPCNODE = "from _node.cli.main import main; raise SystemExit(main())"
CAP_MBPS = 16
FILES, FILE_BYTES = 12, 1_000_000
LIMIT_S = 60.0


class Job:
    """hpcnode checkpoint on the two nodes of a job."""

    def __init__(self, folder: Path, account: Azurite, azcopy: str) -> None:
        self.folder, self.account = folder, account
        self.sas = folder / "sas"
        self.sas.write_text(account_sas() + "\n", encoding="ascii")
        self.sas.chmod(0o600)
        (folder / "work").mkdir()
        self.container = f"checkpoints{time.monotonic_ns()}"
        account.container(self.container)
        self.words = ["--store", f"{account.url}/{self.container}/run", "--sas-file", str(self.sas)]
        self.words += ["--azcopy", azcopy, "--work", str(folder / "work")]

    def start(self, rank: int, *words: str, **more: str) -> subprocess.Popen[str]:
        """Start hpcnode checkpoint on a node without waiting for it."""
        plain = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        slurm = {"SLURM_JOB_ID": "7", "SLURM_NODEID": str(rank), "SLURM_JOB_NUM_NODES": "2", "SLURM_STEP_ID": "0"}
        return subprocess.Popen(
            [sys.executable, "-c", HPCNODE, "checkpoint", "--json", words[0], *self.words, *words[1:]],
            env={**plain, **slurm, "PYTHONPATH": str(REPOSITORY / "plugins/module_utils"), **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __call__(self, rank: int, *words: str, **more: str) -> dict[str, Any]:
        """Run hpcnode checkpoint on a node, and return its JSON output with ``stderr`` added."""
        stdout, stderr = self.start(rank, *words, **more).communicate(timeout=120)
        assert stdout, stderr
        return {**json.loads(stdout), "stderr": stderr}

    def save(self, step: int, rank: int) -> Path:
        """Write a node's part of a step to its disk, without publishing it."""
        made = self.folder / f"node{rank}" / f"step{step}"
        made.mkdir(parents=True)
        kind = random.Random(step * 2 + rank)
        for number in range(FILES if step > 100 else 1):
            (made / f"part {number} of {rank}.pt").write_bytes(kind.randbytes(FILE_BYTES if step > 100 else 1000))
        return made

    def publish(self, step: int, rank: int, *words: str) -> dict[str, Any]:
        """Publish a node's part."""
        return self(rank, "save", str(self.folder / f"node{rank}" / f"step{step}"), "--step", str(step), *words)

    def restore(self, call: str, step: int) -> float:
        """Restore on both nodes, check that this step is complete, and return the seconds of the slower node."""
        target = self.folder / f"restored-{call}"
        started = [
            self.start(rank, "restore", "--to", str(target / str(rank)), SLURM_STEP_ID=call, SLURM_RESTART_COUNT="1")
            for rank in (0, 1)
        ]
        seconds: list[float] = []
        for rank, process in enumerate(started):
            stdout, stderr = process.communicate(timeout=120)
            answer = json.loads(stdout)
            assert (process.returncode, answer["step"]) == (0, step), stderr
            restored = {path.name: path.read_bytes() for path in (target / str(rank) / f"step{step}").iterdir()}
            saved = self.folder / f"node{rank}" / f"step{step}"
            assert restored == {path.name: path.read_bytes() for path in saved.iterdir()}
            seconds.append(float(answer["seconds"]))
        return max(seconds)

    def count(self, prefix: str) -> int:
        """The number of blobs with this prefix."""
        question = f"restype=container&comp=list&prefix={quote(prefix)}&{account_sas()}"
        with urllib.request.urlopen(f"{self.account.url}/{self.container}?{question}", timeout=30) as answer:
            return int(answer.read().count(b"<Name>"))

    def azcopy_processes(self) -> list[Path]:
        """Running azcopy processes of this job."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace") if entry.name.isdecimal() else ""
            except OSError:
                continue
            if "azcopy_linux" in words and str(self.folder) in words:
                found.append(entry)
        return found


@pytest.fixture
def job(account: Azurite, programs: Path, tmp_path: Path) -> Job:
    return Job(tmp_path, account, azcopy_in(programs))


def wait_for(done: Callable[[], bool], what: str) -> None:
    """Wait until the condition is true."""
    deadline = time.monotonic() + LIMIT_S
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.mark.thorough
def test_if_an_upload_is_killed_the_last_complete_checkpoint_is_restored(
    job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    for step in (100, 200):
        for rank in (0, 1):
            job.save(step, rank)
    both = [job.start(rank, "save", str(job.folder / f"node{rank}/step100"), "--step", "100") for rank in (0, 1)]
    assert [json.loads(one.communicate(timeout=120)[0])["whole"] for one in both] == [True, True]

    # Node 0 is killed during its upload, and azcopy must end with it.
    killed = job.start(0, "save", str(job.folder / "node0/step200"), "--step", "200", "--cap-mbps", str(CAP_MBPS))
    data = "run/data/000000000200-7.0-w2"
    wait_for(lambda: job.count(data) >= 3, "no upload began")
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    wait_for(lambda: not job.azcopy_processes(), "azcopy still runs")
    assert job.count(data) < FILES
    job.restore("1", 100)

    # The upload continues where it stopped; the checkpoint is complete only after node 1 has finished.
    again = job.publish(200, 0, "--wait", "0")
    assert again["whole"] is False
    assert 0 < again["carried"] <= (FILES - 3) * FILE_BYTES
    began = time.monotonic()
    last = job.publish(200, 1, "--cap-mbps", str(CAP_MBPS))
    seconds = time.monotonic() - began
    assert last["whole"] is True
    restoring = job.restore("2", 200)
    with capsys.disabled():
        sys.stdout.write(
            f"\ncheckpoint: {FILES * FILE_BYTES / 1e6:.0f} MB under {CAP_MBPS} Mbps in {last['seconds']:.1f} s "
            f"({seconds:.1f} s the whole call), restored in {restoring:.1f} s on each of two nodes\n"
        )
    # The cap of 2 MB/s is respected, apart from azcopy's burst at the start.
    assert last["seconds"] > FILES * FILE_BYTES * 8 / (CAP_MBPS * 1e6) * 0.6
    assert "sig=" not in last["stderr"]
    assert job(0, "prune", "--keep-last", "1")["removed"] == ["000000000100-7.0-w2"]
    listed = job(0, "list")
    assert ([one["step"] for one in listed["whole"]], listed["not_whole"]) == ([200], [])
    assert job.count("run/data/") == 2 * FILES


def test_a_watcher_publishes_and_ends_on_sigterm(job: Job) -> None:
    run = job.folder / "watched"
    alone = {"SLURM_JOB_NUM_NODES": "1"}
    watcher = job.start(0, "watch", str(run), "--every", "0.3", **alone)
    made = run / "global_step200"
    made.mkdir(parents=True)
    (made / "model.pt").write_text("step 200")
    (made / ".complete").touch()
    wait_for(lambda: complete_checkpoint(run) == "000000000200-7.0-w1", "step 200 is not complete")
    os.kill(watcher.pid, signal.SIGTERM)
    stdout, stderr = watcher.communicate(timeout=30)
    answer = json.loads(stdout)
    assert (watcher.returncode, answer["whole"]) == (0, "000000000200-7.0-w1"), stderr
    assert not list((job.folder / "work").iterdir())
    restored = job(0, "restore", "--to", str(job.folder / "to"), **alone)
    assert Path(restored["path"], "model.pt").read_text() == "step 200"
    nothing = job(
        0, "restore", "--to", str(job.folder / "to"), "--store", f"{job.account.url}/{job.container}/none", **alone
    )
    assert (nothing["status"], nothing["restored"]) == (0, None)


def complete_checkpoint(run: Path) -> str:
    """The complete checkpoint that the watcher's status file names; empty if there is none."""
    found = [json.loads(path.read_text())["whole"] for path in run.glob(".hpcai-checkpoint/status-*.json")]
    return found[0] if found else ""
