# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A checkpoint watcher: what it uploads and when, also after a kill, a requeue or an eviction notice."""

from __future__ import annotations

import errno
import functools
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from stand_ins.folder_store import Faults, FolderStore

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint import state, watch
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.directory import LATEST, Signal
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.manifest import completed
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.names import Id, Member
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.prune import Retention
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.publish import Local, publish
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.watch import Watcher, WatchOptions
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.events.exchange import EventsUnknown
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.imds import ScheduledEvent

NOW = 1_700_000_000.0
LIMIT_S = 20.0


class Scene:
    """A directory, a store, and the events of the metadata service."""

    def __init__(self, folder: Path) -> None:
        self.directory = folder / "run"
        self.directory.mkdir()
        self.blobs = folder / "blobs"
        self.events: list[ScheduledEvent] = []
        self.started: list[str] = []
        self.events_error = ""
        self.now = NOW

    def watcher(
        self,
        member: Member | None = None,
        faults: Faults | None = None,
        signal: Signal | None = None,
        keep: Retention | None = None,
        acknowledge: bool = False,
    ) -> Watcher:
        """A watcher of a job with one node, unless stated otherwise."""
        options = WatchOptions(
            str(self.directory),
            signal or Signal(),
            member or Member("7.0", 0, 1),
            "node0",
            keep=keep,
            acknowledge=acknowledge,
        )
        return Watcher(options, self.store(faults), self._events, self.started.append, lambda: self.now)

    def _events(self) -> list[ScheduledEvent]:
        if self.events_error:
            raise EventsUnknown(self.events_error)
        return self.events

    def store(self, faults: Faults | None = None) -> FolderStore:
        """The store."""
        return FolderStore(self.blobs, faults or Faults())

    def save(self, step: int, text: str = "x", files: int = 1, marker: str | None = "") -> Path:
        """Save a step."""
        made = self.directory / f"step{step}"
        made.mkdir(exist_ok=True)
        for number in range(files):
            (made / f"{number}.pt").write_text(text)
        if marker is not None:
            (made / ".complete").unlink(missing_ok=True)
            (made / ".complete").write_text(marker)
        return made

    def complete_steps(self) -> list[int]:
        """The steps that are complete."""
        return [id_.step for id_ in completed(self.store())]

    def status(self) -> state.WatcherStatus:
        """The status file of the watcher."""
        return state.read_statuses(str(self.directory))[0]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """A watched directory."""
    return Scene(tmp_path)


def until(watcher: Watcher, done: Callable[[], bool]) -> None:
    """Let a watcher work until the condition holds."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        watcher.turn()
        if done():
            return
        assert time.monotonic() < deadline, watcher.status
        time.sleep(0.01)


def test_only_finished_checkpoints_are_uploaded(scene: Scene) -> None:
    scene.save(100)
    scene.save(200, marker=None)
    watcher = scene.watcher()
    until(watcher, lambda: watcher.idle)
    assert scene.complete_steps() == [100]
    assert "step200" not in "".join(scene.store().names())
    scene.save(200)
    until(watcher, lambda: scene.complete_steps() == [100, 200] and watcher.idle)
    assert watcher.end()
    status = scene.status()
    assert (status.whole, status.running, status.pending) == ("000000000200-7.0-w1", False, [])


def test_a_second_watcher_of_the_same_attempt_uploads_nothing(scene: Scene) -> None:
    scene.save(100)
    first = scene.watcher()
    until(first, lambda: first.idle)
    second = scene.watcher()
    second.turn()
    assert second.idle
    assert second.end()


def test_files_uploaded_by_a_killed_watcher_are_not_uploaded_again(scene: Scene) -> None:
    scene.save(100, files=6)
    killed = scene.watcher(faults=Faults(kill_at=9))
    with pytest.raises(BaseException, match="put data"):
        until(killed, lambda: killed.idle)
    again = scene.watcher()
    until(again, lambda: again.idle)
    assert scene.complete_steps() == [100]
    store = again.store
    assert isinstance(store, FolderStore)
    puts = [words for words in store.log if words.startswith("put data")]
    assert 0 < len(puts) < 7


def test_a_failing_store_is_reported_and_retried(scene: Scene) -> None:
    scene.save(100)
    watcher = scene.watcher(faults=Faults(fail_at=5))
    until(watcher, lambda: bool(watcher.status.problem))
    assert "throttles" in scene.status().problem
    assert not scene.status().good
    scene.now += 60
    until(watcher, lambda: watcher.idle)
    assert scene.complete_steps() == [100]
    assert watcher.status.problem == ""


@pytest.mark.parametrize("what", ["find_finished", "write_record"])
def test_a_disk_that_fails_for_a_moment_does_not_end_the_watcher(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def fail(*_given: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    watcher = scene.watcher()
    scene.save(100)
    with monkeypatch.context() as full:
        full.setattr(watch if what == "find_finished" else state, what, fail)
        for _turn in range(3):
            watcher.turn()
        assert "No space left on device" in scene.status().problem
    until(watcher, lambda: watcher.idle and not watcher.status.problem)
    assert scene.complete_steps() == [100]
    record = state.read_record(state.record_path(str(scene.directory), "node0"))
    assert [one.state for one in record.checkpoints.values()] == [state.PUBLISHED]


def test_a_checkpoint_that_changes_during_the_upload_is_refused(scene: Scene) -> None:
    folder = scene.save(100)

    def write(_number: int, words: str) -> None:
        if words.startswith("put data"):
            (folder / "0.pt").write_text("still written")

    watcher = scene.watcher(faults=Faults(before=write))
    until(watcher, lambda: bool(watcher.status.refused))
    assert "changed during the upload" in next(iter(watcher.status.refused.values()))
    assert scene.complete_steps() == []
    assert not watcher.end()


def test_a_link_is_refused_and_other_steps_are_uploaded(scene: Scene) -> None:
    (scene.save(200) / "link").symlink_to("0.pt")
    scene.save(100)
    watcher = scene.watcher()
    until(watcher, lambda: watcher.idle)
    assert scene.complete_steps() == [100]
    assert "is a link" in next(iter(watcher.status.refused.values()))


def test_a_step_that_is_saved_again_needs_another_save_name(scene: Scene) -> None:
    scene.save(100, "first")
    watcher = scene.watcher()
    until(watcher, lambda: watcher.idle)
    scene.save(100, "second")
    until(watcher, lambda: bool(watcher.status.refused))
    scene.save(100, "second", marker="restart1")
    until(watcher, lambda: watcher.idle and not watcher.status.refused)
    assert [id_.save for id_ in completed(scene.store())] == ["", "restart1"]


def test_newer_steps_do_not_delay_other_nodes(scene: Scene) -> None:
    """Node 1 has published step 100: node 0 uploads its part before its newest step."""
    other = scene.directory / "other"
    (other / "step100").mkdir(parents=True)
    (other / "step100" / "1.pt").write_text("x")
    publish(scene.store(), Local(Id(100, "7.0", 2), str(other), "step100", 1))
    watcher = scene.watcher(Member("7.0", 0, 2))
    watcher.turn()
    for step in (100, 200):
        scene.save(step)
    until(watcher, lambda: watcher.status.published != "")
    assert scene.complete_steps() == [100]


def test_a_requeued_job_publishes_leftovers_under_their_own_attempt(scene: Scene) -> None:
    first = scene.watcher(Member("7.0", 0, 2), Faults(fail_at=5))
    first.turn()
    scene.save(100)
    until(first, lambda: bool(first.status.problem))
    first.end()
    second = scene.watcher(Member("7.1", 0, 2))
    until(second, lambda: second.status.published != "")
    assert second.status.published == "000000000100-7.0-w2"


def test_a_checkpoint_of_an_unknown_attempt_is_not_published(scene: Scene) -> None:
    """It was finished while no watcher ran, and other nodes may have restored an older step since then."""
    scene.save(100)
    watcher = scene.watcher(Member("7.1", 0, 2, started=time.time() + 60))
    watcher.turn()
    watcher.turn()
    assert watcher.idle
    assert scene.store().names() == []
    begun = scene.watcher(Member("7.2", 0, 2, started=time.time() - 60))
    scene.save(200)
    until(begun, lambda: begun.status.published != "")
    assert begun.status.published == "000000000200-7.2-w2"


def test_a_restored_checkpoint_is_not_published_again(scene: Scene) -> None:
    scene.save(100)
    directory = str(scene.directory)
    one = state.KnownCheckpoint(
        "step100", "000000000100-7.0-w1", 0, state.tree_stamp(directory, "step100"), state.RESTORED
    )
    state.write_record(state.record_path(directory, "another"), state.Record("", {"step100": one}))
    watcher = scene.watcher(Member("8.0", 0, 1))
    watcher.turn()
    assert watcher.idle
    scene.save(100, "trained again")
    until(watcher, lambda: scene.complete_steps() == [100])


def test_checkpoints_that_latest_named_before_are_published_too(scene: Scene) -> None:
    watcher = scene.watcher(signal=Signal(LATEST, "latest"), faults=Faults(slow_s=0.05))
    for step in (100, 200):
        scene.save(step, marker=None)
        (scene.directory / "latest").write_text(f"step{step}")
        watcher.turn()
    until(watcher, lambda: watcher.idle)
    assert scene.complete_steps() == [100, 200]


def is_newest(scene: Scene, watcher: Watcher, step: int) -> bool:
    """Whether this step is the newest complete one, and the watcher is idle."""
    return scene.complete_steps()[-1:] == [step] and watcher.idle


def test_node_0_prunes_old_checkpoints(scene: Scene) -> None:
    watcher = scene.watcher(keep=Retention(last=1))
    for step in (100, 200, 300):
        scene.save(step)
        until(watcher, functools.partial(is_newest, scene, watcher, step))
    assert scene.complete_steps() == [300]


def test_after_a_restore_new_steps_are_kept_and_the_branch_is_reported(scene: Scene) -> None:
    """Regression: ranked by step alone, the new attempt's checkpoints were pruned at once."""
    first = scene.watcher(keep=Retention(last=3))
    for step in (100, 200, 300):
        scene.save(step)
        until(first, functools.partial(is_newest, scene, first, step))
    for step in (200, 300):
        shutil.rmtree(scene.directory / f"step{step}")
    second = scene.watcher(Member("8.0", 0, 1), keep=Retention(last=2))
    for step in (110, 120, 130):
        scene.save(step)
        until(second, functools.partial(is_newest, scene, second, step))
    assert second.status.whole == "000000000130-8.0-w1"
    assert scene.status().branches == ["000000000200-7.0-w1", "000000000300-7.0-w1"]
    assert scene.complete_steps() == [200, 300, 120, 130]
    assert any("200-7.0-w1 is of another branch" in line for line in second.status.lines())


def notice(kind: str = "Preempt", after_s: float | None = 30.0, *others: str) -> ScheduledEvent:
    """A scheduled event."""
    return ScheduledEvent("E1", kind, ("set_4", *others), "Scheduled", None if after_s is None else NOW + after_s, -1)


def test_a_notice_is_acknowledged_at_each_turn_once_all_is_published(scene: Scene) -> None:
    watcher = scene.watcher(faults=Faults(slow_s=0.05), acknowledge=True)
    scene.events = [notice()]
    scene.save(100)
    watcher.turn()
    watcher.turn()
    assert scene.started == []
    assert (scene.directory / ".hpcai-checkpoint" / "notice-node0").read_text() == "Preempt\n"
    until(watcher, lambda: bool(scene.started))
    assert scene.complete_steps() == [100]
    assert watcher.status.notice["words"] == "nothing is left to upload; newest complete: 000000000100-7.0-w1"
    watcher.turn()
    assert scene.started == ["E1", "E1"]
    scene.events = []
    watcher.turn()
    assert not (scene.directory / ".hpcai-checkpoint" / "notice-node0").exists()


@pytest.mark.parametrize("event", [notice("Preempt", 30.0, "set_5"), notice("Freeze"), notice("Reboot", None)])
def test_events_that_should_not_start_early_are_not_acknowledged(scene: Scene, event: ScheduledEvent) -> None:
    scene.events = [event]
    scene.save(100)
    watcher = scene.watcher(acknowledge=True)
    until(watcher, lambda: watcher.idle)
    watcher.turn()
    assert scene.started == []


def test_nothing_is_acknowledged_unless_enabled(scene: Scene) -> None:
    scene.events = [notice()]
    watcher = scene.watcher()
    watcher.turn()
    watcher.turn()
    assert scene.started == []


def test_a_notice_replaces_an_upload_that_does_not_fit_by_one_that_does(scene: Scene) -> None:
    """The large checkpoint is being uploaded; 6 s are left, in which only the small one fits."""
    watcher = scene.watcher(faults=Faults(slow_s=0.05))
    watcher.status.rate = 1000.0
    scene.save(200, "y" * 1000, files=40)
    until(watcher, lambda: bool(watcher.status.uploading) and watcher.status.uploading["bytes_done"] > 0)
    scene.save(100, "z")
    scene.events = [notice("Preempt", 6.0)]
    until(watcher, lambda: 100 in scene.complete_steps())
    assert 200 not in scene.complete_steps()


def test_a_checkpoint_that_does_not_fit_is_reported_and_tried(scene: Scene) -> None:
    watcher = scene.watcher(faults=Faults(slow_s=0.02))
    watcher.status.rate = 1.0
    scene.save(100, "y" * 1000, files=5)
    scene.events = [notice("Preempt", 30.0)]
    until(watcher, lambda: watcher.status.notice.get("fits") is False)
    assert "be incomplete unless the machine stays longer" in scene.status().notice["words"]
    assert not scene.status().good
    until(watcher, lambda: watcher.idle)
    assert scene.complete_steps() == [100]


def test_unknown_events_are_reported_and_stop_no_upload(scene: Scene) -> None:
    scene.events_error = "no route"
    scene.save(100)
    watcher = scene.watcher()
    until(watcher, lambda: watcher.idle)
    assert scene.complete_steps() == [100]
    assert scene.status().events == "no route"
    assert not scene.status().good
    assert "scheduled events are unknown: no route" in watcher.status.events_to_report()


def test_ending_stops_the_upload_and_reports_what_is_missing(scene: Scene) -> None:
    watcher = scene.watcher(faults=Faults(slow_s=0.05))
    scene.save(100, files=50)
    until(watcher, lambda: bool(watcher.status.uploading) and watcher.status.uploading["bytes_done"] > 0)
    assert not watcher.end()
    status = scene.status()
    assert (status.running, status.pending) == (False, ["000000000100-7.0-w1"])
    assert scene.complete_steps() == []


def test_the_status_file_is_readable_for_all_users(scene: Scene) -> None:
    watcher = scene.watcher()
    watcher.turn()
    path = Path(state.status_path(str(scene.directory), "node0"))
    assert path.stat().st_mode & 0o777 == 0o644
    assert json.loads(path.read_text())["schema"] == 1
