# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""hpcnode checkpoint, over a store in a folder."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stand_ins.folder_store import Faults, FolderStore

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main import main
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint import store
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.events import exchange
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.imds import ScheduledEvent
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed

Call = Callable[..., tuple[int, dict[str, Any]]]
URL = "https://account.blob.core.windows.net/checkpoints/run"


def silent(_root: Root) -> list[ScheduledEvent]:
    """A machine whose scheduled events nobody passes on."""
    raise exchange.EventsUnknown("no route")


def calm(_root: Root) -> list[ScheduledEvent]:
    """A machine for which nothing is scheduled."""
    return []


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Call the command as a node of a job, and return its exit status and answer."""
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        monkeypatch.delenv(name)

    def open_store(_root: Root, url: str, _wish: store.StoreOptions, _nodes: int) -> tuple[FolderStore, str]:
        assert url == URL
        return FolderStore(tmp_path / "blobs"), str(tmp_path / "logs")

    monkeypatch.setattr(store, "open_store", open_store)
    monkeypatch.setattr(exchange, "read_events_file", silent)

    def run(*words: str, rank: int | None = 0, world: int = 1, step: str = "0", **more: str) -> tuple[int, Any]:
        job = {"SLURM_JOB_ID": "7", "SLURM_NODEID": str(rank), "SLURM_JOB_NUM_NODES": str(world)}
        with monkeypatch.context() as patched:
            for name, value in {**({} if rank is None else {**job, "SLURM_STEP_ID": step}), **more}.items():
                patched.setenv(name, value)
            patched.setenv("HPCAI_CHECKPOINT_STORE", URL)
            often = ["--every", "0.05"] if words[0] == "watch" else []
            status = main(["checkpoint", words[0], *often, *words[1:], "--json"])
        return status, json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """A folder with a finished checkpoint."""
    made = tmp_path / "run" / "step100"
    made.mkdir(parents=True)
    (made / "model.pt").write_text("weights")
    (made / ".complete").touch()
    return made.parent


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["watch"], "the following arguments are required: DIR"),
        (["list", "/x"], "unrecognized arguments: /x"),
        (["save", "/x"], "save needs --step"),
        (["save", "/x", "--step", "1", "--save-id", "a/b"], "--save-id takes letters"),
        (["restore"], "restore needs --to"),
        (["prune"], "prune needs --keep-last"),
        (["prune", "--keep-last", "0"], "the newest checkpoint is always kept"),
        (["watch", "/x", "--every", "0"], "--every and --leftover-hours must be more than 0"),
        (["watch", "/x", "--marker", "a/b"], "is not a file name"),
        (["watch", "/x", "--rank", "3"], "rank 3 of 1 nodes"),
    ],
)
def test_refuses_words_that_make_no_sense(call: Call, words: list[str], message: str) -> None:
    status, answer = call(*words)
    assert status == 3
    assert message in answer["error"]


def test_outside_of_a_job_an_attempt_is_needed_to_publish(call: Call, run_folder: Path) -> None:
    status, answer = call("watch", str(run_folder), "--once", rank=None)
    assert status == 3
    assert "set --attempt" in answer["error"]
    assert call("watch", str(run_folder), "--once", "--attempt", "by.hand", rank=None)[0] == 0


def test_with_nothing_there_a_restore_is_good_and_says_so(call: Call, tmp_path: Path) -> None:
    status, answer = call("restore", "--to", str(tmp_path / "to"))
    assert (status, answer["restored"], answer["step"]) == (0, None, None)
    assert call("restore", "--to", str(tmp_path / "to"), "--step", "100")[0] == 1


def test_publishes_once_and_restores_it(call: Call, run_folder: Path, tmp_path: Path) -> None:
    status, answer = call("watch", str(run_folder), "--once")
    assert (status, answer["whole"], answer["events"]) == (0, "000000000100-7.0-w1", "no route")
    assert call("list")[1]["whole"][0]["step"] == 100
    status, answer = call("restore", "--to", str(tmp_path / "to"), "--latest-file", "latest")
    assert (status, answer["restored"]) == (0, "000000000100-7.0-w1")
    assert (tmp_path / "to" / "step100" / "model.pt").read_text() == "weights"
    assert (tmp_path / "to" / "latest").read_text() == "step100"
    # What was restored is not published as the next attempt's.
    assert call("watch", str(tmp_path / "to"), "--once", SLURM_RESTART_COUNT="1")[0] == 0
    assert len(call("list")[1]["whole"]) == 1


def test_once_does_not_cut_an_upload_that_makes_progress(
    call: Call, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(10):
        (run_folder / f"step100/{number}.pt").write_text("weights")
    slow = FolderStore(tmp_path / "blobs", Faults(slow_s=0.1))
    monkeypatch.setattr(store, "open_store", lambda *_given: (slow, str(tmp_path / "logs")))
    words = ("watch", str(run_folder), "--once", "--wait", "0.3")
    near = tmp_path / "near-limit"
    near.touch()
    status, answer = call(*words, "--near-limit", str(near), "--within", "0.3")
    assert (status, answer["pending"]) == (1, ["000000000100-7.0-w1"])
    assert call(*words, "--near-limit", str(tmp_path / "no"))[0] == 0


def test_once_gives_up_an_upload_that_fails_again_and_again(
    call: Call, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(_number: int, words: str) -> None:
        if words.startswith("put"):
            raise CommandFailed("denied")

    denied = FolderStore(tmp_path / "blobs", Faults(before=deny))
    monkeypatch.setattr(store, "open_store", lambda *_given: (denied, str(tmp_path / "logs")))
    status, answer = call("watch", str(run_folder), "--once", "--wait", "0.3")
    assert (status, answer["problem"]) == (1, "denied")


def test_status_tells_what_the_watcher_does(call: Call, run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call("status", str(run_folder))[0] == 2
    call("watch", str(run_folder), "--once")
    status, answer = call("status", str(run_folder))
    # It would not save before the machine goes.
    assert (status, answer["nodes"][0]["events"]) == (1, "no route")
    assert answer["nodes"][0]["published"] == "000000000100-7.0-w1"
    monkeypatch.setattr(exchange, "read_events_file", calm)
    call("watch", str(run_folder), "--once")
    assert call("status", str(run_folder))[0] == 0


def test_one_node_of_two_is_not_whole(call: Call, run_folder: Path, tmp_path: Path) -> None:
    save = ["save", str(run_folder / "step100"), "--step", "100", "--wait", "0"]
    status, answer = call(*save, world=2)
    assert (status, answer["whole"], answer["missing"]) == (1, False, [1])
    assert call("list")[1]["not_whole"] == ["000000000100-7.0-w2"]
    assert call("restore", "--to", str(tmp_path / "to"), "--id", "000000000100-7.0-w2", world=2)[0] == 1
    assert call(*save, rank=1, world=2)[1]["whole"] is True
    status, answer = call("restore", "--to", str(tmp_path / "to"), world=2, SLURM_RESTART_COUNT="1")
    assert (status, answer["step"]) == (0, 100)
    status, answer = call("restore", "--to", str(tmp_path / "to1"), world=2, rank=1, SLURM_RESTART_COUNT="1")
    assert (status, answer["step"]) == (0, 100)
    # A job of one node has no part of it that is its own.
    status, answer = call("restore", "--to", str(tmp_path / "to2"))
    assert (status, "--all" in answer["error"]) == (3, True)
    assert call("restore", "--to", str(tmp_path / "to2"), "--all")[0] == 0


def test_one_of_the_complete_copies_is_restored_on_another_number_of_nodes(
    call: Call, run_folder: Path, tmp_path: Path
) -> None:
    """Also where the copies differ, so that --all could not put them into one folder."""
    for rank in (0, 1):
        (run_folder / "step100/model.pt").write_text(f"of {rank}")
        call("save", str(run_folder / "step100"), "--step", "100", "--wait", "0", rank=rank, world=2)
    for rank in range(3):
        to = tmp_path / f"to{rank}"
        assert call("restore", "--to", str(to), "--any-part", rank=rank, world=3, SLURM_JOB_ID="8")[0] == 0
        assert (to / "step100/model.pt").read_text() == f"of {rank % 2}"
    assert call("restore", "--to", str(tmp_path / "x"), "--any-part", "--all")[0] == 3


def test_several_nodes_restore_by_one_srun_and_do_not_fall_back(call: Call, tmp_path: Path) -> None:
    status, answer = call("restore", "--to", str(tmp_path), world=2, step="")
    assert (status, "use one srun" in answer["error"]) == (3, True)
    status, answer = call("restore", "--to", str(tmp_path), "--fall-back", world=2)
    assert (status, "could fall back to different steps" in answer["error"]) == (3, True)


def test_a_damaged_one_is_an_error_and_an_older_one_only_where_that_is_wanted(
    call: Call, run_folder: Path, tmp_path: Path
) -> None:
    for step in ("100", "200"):
        call("save", str(run_folder / "step100"), "--step", step)
    for path in (tmp_path / "blobs").glob("data/000000000200*/*/model.pt"):
        path.write_text("damaged")
    status, answer = call("restore", "--to", str(tmp_path / "to"))
    assert (status, answer["restored"]) == (1, None)
    assert "000000000200-7.0-w1 is damaged" in answer["problems"][0]
    assert not (tmp_path / "to" / "step100").exists()
    status, answer = call("restore", "--to", str(tmp_path / "to"), "--fall-back")
    assert (status, answer["step"], len(answer["problems"])) == (0, 100, 1)


def test_prune_says_what_is_gone(call: Call, run_folder: Path) -> None:
    for step in ("100", "200"):
        call("save", str(run_folder / "step100"), "--step", step)
    status, answer = call("prune", "--keep-last", "1")
    assert (status, answer["removed"]) == (0, ["000000000100-7.0-w1"])


def test_prune_names_another_branch_and_removes_it_when_asked(call: Call, run_folder: Path, tmp_path: Path) -> None:
    call("save", str(run_folder / "step100"), "--step", "200")
    call("save", str(run_folder / "step100"), "--step", "110", "--attempt", "8.0")
    status, answer = call("prune", "--keep-last", "1", SLURM_JOB_ID="8")
    assert (status, answer["removed"], answer["branches"]) == (0, [], ["000000000200-7.0-w1"])
    status, answer = call("prune", "--keep-last", "1", "--branches", "--attempt", "8.0")
    assert (status, answer["removed"], answer["branches"]) == (0, ["000000000200-7.0-w1"], [])


def test_sigterm_ends_it_and_it_says_what_is_published(call: Call, run_folder: Path, tmp_path: Path) -> None:
    def end() -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and not list((tmp_path / "blobs").glob("complete/*")):
            time.sleep(0.02)
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    threading.Thread(target=end, daemon=True).start()
    status, answer = call("watch", str(run_folder))
    assert (status, answer["whole"], answer["running"]) == (0, "000000000100-7.0-w1", False)
    assert signal.getsignal(signal.SIGTERM) == before


def test_verify_finds_a_damaged_checkpoint_among_all(call: Call, run_folder: Path, tmp_path: Path) -> None:
    call("watch", str(run_folder), "--once")
    (run_folder / "step200").mkdir()
    (run_folder / "step200/model.pt").write_text("weights")
    (run_folder / "step200/.complete").touch()
    call("watch", str(run_folder), "--once")
    status, data = call("verify", "--all", "--full")
    assert (status, [one["verdict"] for one in data["checkpoints"]]) == (0, ["pass", "pass"])
    next((tmp_path / "blobs/data").glob("*100*/*/model.pt")).write_text("WEIGHTS")
    assert call("verify", "--full")[0] == 0, "only the newest one"
    status, data = call("verify", "--all", "--full")
    assert (status, [one["verdict"] for one in data["checkpoints"]]) == (1, ["pass", "fail"])


def test_verify_does_not_call_a_store_without_checkpoints_good(call: Call) -> None:
    assert call("verify", "--all")[0] == 2


def test_verify_does_not_hide_a_store_without_checkpoints_beside_a_good_one(
    call: Call, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("watch", str(run_folder), "--once")
    stores = {URL: tmp_path / "blobs", f"{URL}2": tmp_path / "empty"}
    monkeypatch.setattr(
        store, "open_store", lambda _root, url, *_more: (FolderStore(stores[url]), str(tmp_path / "logs"))
    )
    status, data = call("verify", "--all", "--store", URL, "--store", f"{URL}2")
    assert status == 2
    assert [one["verdict"] for one in data["checkpoints"]] == ["pass", "unknown"]
    assert data["checkpoints"][1]["store"] == f"{URL}2/"


@pytest.mark.parametrize(
    ("words", "verdict", "status"),
    [("{", "fail", 1), ('{"schema": 1}', "fail", 1), ('{"schema": 99}', "unknown", 2)],
)
def test_verify_names_a_checkpoint_whose_manifest_is_damaged(
    call: Call, run_folder: Path, tmp_path: Path, words: str, verdict: str, status: int
) -> None:
    call("watch", str(run_folder), "--once")
    (run_folder / "step200").mkdir()
    (run_folder / "step200/model.pt").write_text("weights")
    (run_folder / "step200/.complete").touch()
    call("watch", str(run_folder), "--once")
    next((tmp_path / "blobs/complete").glob("*200*")).write_text(words)
    for more, verdicts in (([], [verdict]), (["--all"], [verdict, "pass"])):
        found, data = call("verify", *more)
        assert (found, [one["verdict"] for one in data["checkpoints"]]) == (status, verdicts)


def test_a_checkpoint_without_a_signature_is_not_restored_if_one_is_required(
    call: Call, run_folder: Path, tmp_path: Path
) -> None:
    call("watch", str(run_folder), "--once")
    status, data = call("restore", "--to", str(tmp_path / "to"), "--signed")
    assert status == 1
    assert "is not signed" in data["problems"][0]
    assert not (tmp_path / "to/step100").exists()
    assert call("verify", "--all", "--signed")[0] == 1


def test_lineage_is_stored_with_a_complete_checkpoint(call: Call, run_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "lineage.json").write_text('{"recipe": "fsdp tiny"}')
    call("watch", str(run_folder), "--once", "--lineage", str(tmp_path / "lineage.json"))
    assert call("verify")[1]["checkpoints"][0]["lineage"] == {"recipe": "fsdp tiny"}


def test_the_files_of_a_job_are_archived(call: Call, tmp_path: Path) -> None:
    (tmp_path / "job-7").mkdir()
    (tmp_path / "job-7/report.txt").write_text("report")
    assert call("archive", str(tmp_path / "job-7"))[1]["archived"] == ["outputs/job-7/report.txt"]
    assert (tmp_path / "blobs/outputs/job-7/report.txt").read_text() == "report"


def test_a_missing_log_does_not_prevent_the_archiving_of_the_other_files(call: Call, tmp_path: Path) -> None:
    (tmp_path / "job-7").mkdir()
    (tmp_path / "job-7/runs.json").write_text("{}")
    status, data = call("archive", str(tmp_path / "job-7"), str(tmp_path / "job-7.log"))
    assert status == 1
    assert data["archived"] == ["outputs/job-7/runs.json"]
    assert data["missing"] == [str(tmp_path / "job-7.log")]
    assert (tmp_path / "blobs/outputs/job-7/runs.json").read_text() == "{}"
