# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Restoring checkpoints: what is verified, and what is in place afterwards."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from stand_ins.folder_store import Faults, FolderStore

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.directory import Entry, share
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.manifest import (
    BadManifest,
    Shard,
    complete,
    completed,
    shard_of,
    shard_text,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.names import (
    Id,
    Member,
    NotInJob,
    member_of,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.publish import Local, publish
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.restore import (
    Damaged,
    broadcast_choice,
    fetch,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed

from .conftest import Job


@pytest.fixture
def saved(job: Job) -> Job:
    """A job whose step 100 is complete."""
    for rank in (0, 1):
        job.publish(job.save(100, rank, "old"))
    return job


def restore(job: Job, target: Path, rank: int = 0) -> str:
    """Restore a node's part of the newest checkpoint."""
    manifest = list(completed(job.store()).values())[-1]
    return fetch(job.store(), manifest, [rank], str(target), "host").path


@pytest.mark.parametrize("damage", ["size", "content", "gone", "manifest", "manifest gone"])
def test_a_damaged_checkpoint_is_refused_and_nothing_is_restored(saved: Job, tmp_path: Path, damage: str) -> None:
    data = next(saved.blobs.glob("data/*/0-*/rank0.pt"))
    manifest = next(saved.blobs.glob("shards/*/0.json"))
    if damage == "size":
        data.write_text("x")
    elif damage == "content":
        data.write_text(data.read_text().replace("old", "odd"))
    elif damage == "gone":
        data.unlink()
    elif damage == "manifest":
        manifest.write_text(manifest.read_text().replace("step100", "step101"))
    else:
        manifest.unlink()
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(Damaged, match=r"000000000100-7\.0-w2 is damaged"):
        restore(saved, target)
    assert not (target / "step100").exists()


def test_unchanged_files_are_not_fetched_again(saved: Job, tmp_path: Path) -> None:
    restore(saved, tmp_path / "t")
    store = saved.store()
    done = fetch(store, next(iter(completed(store).values())), [0], str(tmp_path / "t"), "host")
    assert (done.carried, done.files) == (0, 2)
    assert not any(words.startswith("get data") for words in store.log)


def test_an_incomplete_checkpoint_in_its_place_is_moved_aside(saved: Job, tmp_path: Path) -> None:
    half = tmp_path / "t" / "step100"
    half.mkdir(parents=True)
    (half / "rank0.pt").write_text("half")
    store = saved.store()
    done = fetch(store, next(iter(completed(store).values())), [0], str(tmp_path / "t"), "host")
    assert (Path(done.aside) / "rank0.pt").read_text() == "half"
    assert sorted(path.name for path in half.iterdir()) == ["optim", "rank0.pt"]


def test_only_the_last_of_what_is_moved_aside_is_kept(saved: Job, tmp_path: Path) -> None:
    for text in ("first", "second", "third"):
        (tmp_path / "step100").mkdir(exist_ok=True)
        (tmp_path / "step100/rank0.pt").write_text(text)
        restore(saved, tmp_path)
    aside = [path for path in (tmp_path / ".hpcai-checkpoint").iterdir() if path.name.startswith("step")]
    assert [(path / "rank0.pt").read_text() for path in aside] == ["third"]


def test_a_restore_that_was_cut_continues(saved: Job, tmp_path: Path) -> None:
    """A SAS is valid for an hour: a restore that takes longer must not begin again each time."""
    manifest = list(completed(saved.store()).values())[-1]
    (tmp_path / ".hpcai-checkpoint/fetch-host").mkdir(parents=True)
    cut = FolderStore(saved.blobs, Faults(before=lambda _number, words: deny(words, "rank0.pt")))
    with pytest.raises(CommandFailed, match="expired"):
        fetch(cut, manifest, [0], str(tmp_path), "host")
    (began,) = (tmp_path / ".hpcai-checkpoint").glob("fetch-*")
    (began / ".azDownload-1-rank0.pt").write_text("half")
    store = saved.store()
    done = fetch(store, manifest, [0], str(tmp_path), "host")
    assert [words.rpartition("/")[2] for words in store.log if words.startswith("get data/")] == ["rank0.pt"]
    assert 0 < done.carried < done.size
    assert sorted(path.name for path in Path(done.path).rglob("*")) == ["optim", "rank0.pt", "state0.pt"]
    assert not list((tmp_path / ".hpcai-checkpoint").glob("fetch-*"))


def deny(words: str, name: str) -> None:
    """Refuse to read a file."""
    if words.startswith("get data/") and words.endswith(name):
        raise CommandFailed("the SAS has expired")


def test_the_parts_of_all_nodes_are_restored_into_one_folder(saved: Job, tmp_path: Path) -> None:
    store = saved.store()
    done = fetch(store, next(iter(completed(store).values())), [0, 1], str(tmp_path / "t"), "host")
    assert done.files == 4


def test_parts_with_different_files_of_the_same_name_are_refused(job: Job, tmp_path: Path) -> None:
    for rank in (0, 1):
        local = job.save(100, rank, "old")
        (Path(local.path) / "meta.json").write_text(str(rank))
        job.publish(local)
    with pytest.raises(CommandFailed, match=r"meta\.json of node 1 differs"):
        fetch(job.store(), next(iter(completed(job.store()).values())), [0, 1], str(tmp_path / "t"), "host")


def test_a_shared_folder_is_uploaded_once(tmp_path: Path) -> None:
    store, folder = FolderStore(tmp_path / "blobs"), tmp_path / "run" / "global_step100"
    folder.mkdir(parents=True)
    for number in range(7):
        (folder / f"{number}.pt").write_text("x" * (number + 1))
    for rank in (0, 1, 2):
        id_ = Id(100, "7.0", 3)
        publish(store, Local(id_, str(tmp_path / "run"), "global_step100", rank, True, ("latest", "global_step100")))
        complete(store, id_)
    names = [name.rpartition("/")[2] for name in store.names() if name.startswith("data/")]
    assert sorted(names) == [f"{number}.pt" for number in range(7)]
    fetch(store, next(iter(completed(store).values())), [0, 1, 2], str(tmp_path / "t"), "host")
    assert len(list((tmp_path / "t" / "global_step100").iterdir())) == 7
    assert (tmp_path / "t" / "latest").read_text() == "global_step100"


def test_nodes_that_saw_different_files_complete_no_checkpoint(tmp_path: Path) -> None:
    store, id_ = FolderStore(tmp_path / "blobs"), Id(100, "7.0", 2)
    folder = tmp_path / "step100"
    folder.mkdir()
    for rank in (0, 1):
        (folder / f"{rank}.pt").write_text("x")
        publish(store, Local(id_, str(tmp_path), "step100", rank, True))
    with pytest.raises(BadManifest, match=r"the nodes' manifests of .* do not match"):
        complete(store, id_)
    assert completed(store) == {}


def test_shares_are_balanced_and_cover_all_files() -> None:
    entries = [Entry(f"{number}", number * 10) for number in range(100)]
    shares = [share(entries, rank, 4) for rank in range(4)]
    assert sorted(one.path for each in shares for one in each) == sorted(one.path for one in entries)
    totals = [sum(one.size for one in each) for each in shares]
    assert max(totals) < 1.005 * sum(totals) / 4


@pytest.mark.parametrize("path", ["../x", "/x", "a//b", "a/../b", ""])
def test_a_manifest_with_an_unsafe_path_is_refused(path: str) -> None:
    text = shard_text(Shard(Id(1, "7.0", 1), 0, "step1", ())).replace(
        '"files": []', f'"files": [["{path}", 1, "{"a" * 64}"]]'
    )
    with pytest.raises(BadManifest):
        shard_of(text, "shards/x/0.json")


def test_a_newer_schema_is_refused() -> None:
    text = shard_text(Shard(Id(1, "7.0", 1), 0, "step1", ())).replace('"schema": 1', '"schema": 9')
    with pytest.raises(BadManifest, match="has schema 9, but this hpcnode supports at most 1"):
        shard_of(text, "shards/x/0.json")


def test_all_nodes_restore_the_checkpoint_that_node_0_chose(tmp_path: Path) -> None:
    """Node 1 asks first, and alone would choose another checkpoint."""
    store, choices = FolderStore(tmp_path), []
    wrong = Id(200, "7.0", 2)

    def follow() -> None:
        choices.append(broadcast_choice(FolderStore(tmp_path), Member("7.1", 1, 2, "7.1.5"), lambda: wrong, 20.0, 0.05))

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    # The choice of an earlier call is not used.
    broadcast_choice(store, Member("7.1", 0, 2, "7.1.4"), lambda: wrong, 1.0)
    chosen = broadcast_choice(store, Member("7.1", 0, 2, "7.1.5"), lambda: Id(100, "7.0", 2), 1.0)
    thread.join(20)
    assert choices == [chosen] == [Id(100, "7.0", 2)]


def test_two_restores_of_one_call_use_the_same_choice(tmp_path: Path) -> None:
    """A newer checkpoint is complete before node 0 starts its second restore, while node 1 is in its first."""
    store = FolderStore(tmp_path)
    first, newer = Id(100, "7.0", 2), Id(200, "7.0", 2)
    assert broadcast_choice(store, Member("7.1", 0, 2, "7.1.5"), lambda: first, 1.0) == first
    assert broadcast_choice(store, Member("7.1", 0, 2, "7.1.5"), lambda: newer, 1.0) == first
    assert broadcast_choice(store, Member("7.1", 1, 2, "7.1.5"), lambda: newer, 1.0) == first
    assert broadcast_choice(store, Member("7.1", 0, 2, "7.1.6"), lambda: newer, 1.0) == newer


def test_no_checkpoint_is_a_valid_choice(tmp_path: Path) -> None:
    assert broadcast_choice(FolderStore(tmp_path), Member("7.1", 0, 2, "7.1.5"), lambda: None, 1.0) is None
    assert broadcast_choice(FolderStore(tmp_path), Member("7.1", 1, 2, "7.1.5"), lambda: Id(1, "7.0", 2), 1.0) is None


def test_a_node_0_that_does_not_choose_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=r"node 0 did not choose a checkpoint within 0\.1 s"):
        broadcast_choice(FolderStore(tmp_path), Member("7.1", 1, 2, "7.1.5"), lambda: None, 0.1, 0.05)


def test_a_requeued_job_is_another_attempt() -> None:
    job = {"SLURM_JOB_ID": "71", "SLURM_NODEID": "1", "SLURM_JOB_NUM_NODES": "4", "SLURM_STEP_ID": "2"}
    assert member_of(job) == Member("71.0", 1, 4, "71.0.2")
    assert member_of({**job, "SLURM_RESTART_COUNT": "2"}).attempt == "71.2"
    with pytest.raises(NotInJob, match="set --attempt"):
        member_of({})
    with pytest.raises(NotInJob, match="rank 4 of 4"):
        member_of({**job, "SLURM_NODEID": "4"})
