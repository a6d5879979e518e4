# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ledger reads when checkpoints became complete from a storage account, also after they were pruned."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from email.utils import parsedate_to_datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest
from stand_ins.blob.azurite import Azurite, azcopy_in
from stand_ins.blob.sas import account_sas

from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger import gather
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.accounting import Query, slurm_time
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.checkpoints import RECORD
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

from .test_checkpoint import Job

NODES = 2
BEFORE_S, AFTER_S = 100, 5
"""How long the first run worked before its last checkpoint, and how long after it."""


@pytest.fixture
def job(account: Azurite, programs: Path, tmp_path: Path) -> Job:
    return Job(tmp_path, account, azcopy_in(programs))


@pytest.fixture
def root(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Root:
    """A controller with the settings of the role blob_staging."""
    folder = tmp_path / "controller"
    (folder / "etc/hpcai").mkdir(parents=True)
    (folder / "logs").mkdir()
    settings = {"schema": 1, "azcopy": azcopy_in(programs), "credential": "sas", "work_folder": str(folder / "logs")}
    (folder / "etc/hpcai/blob.json").write_text(json.dumps(settings), encoding="utf-8")
    monkeypatch.setenv("HPCAI_BLOB_SAS", account_sas())
    return Root(str(folder))


def no_slurmctld(words: Sequence[str]) -> Result:
    """slurmctld does not answer. The nodes are known from their runs."""
    return Result(tuple(words), 1, "", "Unable to contact slurm controller")


def slurmdbd(*runs: tuple[str, float, float | None]) -> Query:
    """Return a slurmdbd with runs of job 7 on two nodes: state, start and end of each."""

    def ask(words: Sequence[str], handle: Callable[[str], None]) -> None:
        between = next((word.partition("=")[2] for word in words if word.startswith("--delimiter=")), "")
        for state, start, end in runs if between else ():
            ended = "Unknown" if end is None else slurm_time(end)
            times = [*[slurm_time(start)] * 3, ended]
            handle(between.join(["7", state, *times, "0:0", "c-[0-1]", "gpu", "alice", "hpcai:training=llama"]))

    return ask


def save(job: Job, step: int, restart: int, ranks: Sequence[int] = range(NODES)) -> None:
    """Publish a step of a run of the job."""
    for rank in ranks:
        folder = job.save(step, rank)
        last = rank == NODES - 1
        # The first node does not wait for the other, which completes the checkpoint.
        words = ("save", str(folder), "--step", str(step), "--wait", "30" if last else "0")
        answer = job(rank, *words, SLURM_RESTART_COUNT=str(restart))
        assert answer["whole"] is last, answer


def complete(job: Job) -> dict[str, float]:
    """The complete checkpoints, and when the storage account says that they were written."""
    status, listed = job.account.answer("GET", f"{job.container}?restype=container&comp=list&prefix=run/complete/")
    assert status == 200
    return {
        blob.findtext("Name", "").rpartition("/")[2]: parsedate_to_datetime(
            blob.findtext("Properties/Last-Modified", "")
        ).timestamp()
        for blob in ElementTree.fromstring(listed).iter("Blob")
    }


def test_what_a_run_has_kept_is_read_from_the_store_and_stays_known_after_pruning(job: Job, root: Root) -> None:
    url = f"{job.account.url}/{job.container}/run"
    settings = gather.Settings(stores=(gather.Series(url, "llama"),))
    before = time.time()
    save(job, 20, 0)
    save(job, 40, 0)
    # A step that only one of the nodes has published is not complete.
    save(job, 50, 0, [0])
    written = complete(job)["000000000040-7.0-w2.json"]
    assert before - 1 <= written <= time.time()
    start, end = written - BEFORE_S, written + AFTER_S
    runs: list[tuple[str, float, float | None]] = [("NODE_FAIL", start, end)]

    def look(where: Root) -> dict[str, float]:
        found, _rates = gather.gather(where, no_slurmctld, settings, gather.LedgerScope(start, end), slurmdbd(*runs))
        assert not [note for note in found.notes if url in note], found.notes
        return {bucket: found.seconds(bucket) for bucket in ("kept", "lost", "unknown")}

    expected = {"kept": NODES * BEFORE_S, "lost": NODES * AFTER_S, "unknown": 0}
    assert look(root) == expected
    time.sleep(max(0.0, end + 2 - time.time()))
    runs.append(("RUNNING", end + 1, None))
    save(job, 60, 1)
    assert job(0, "prune", "--keep-last", "1", SLURM_RESTART_COUNT="1")["status"] == 0
    assert list(complete(job)) == ["000000000060-7.1-w2.json"]
    assert look(root) == expected
    # A controller without the record finds only the marks of the pruned checkpoints.
    os.remove(root.at(RECORD))
    assert look(root) == {"kept": 0, "lost": 0, "unknown": NODES * (BEFORE_S + AFTER_S)}
