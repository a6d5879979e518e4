# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Dump and restore of a fake controller: its files are real, its daemons and its database are not."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import pwd
import tarfile
from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import dump, restore, state
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.state import Refused, StatePaths


@dataclasses.dataclass
class Controller:
    """A controller with fake daemons and a database of one table; records what was done."""

    place: StatePaths
    root: Root
    release: str = "22.05.8"
    rows: int = 3
    size: int = 1000
    full: bool = False
    broken: bool = False
    done: list[str] = dataclasses.field(default_factory=list)

    def run(self, command: Sequence[str], timeout_s: float = 120) -> Result:
        """Stand in for the runner."""
        words = " ".join(command)
        answer = ""
        if command[-1] == "-V":
            answer = f"slurm-wlm {self.release}\n"
        elif words.startswith("systemctl show"):
            answer = "LoadState=loaded\nActiveState=active\nSubState=running\nResult=success\n"
        elif command[0] == "mariadb-dump":
            path = pathlib.Path(next(word.split("=", 1)[1] for word in command if word.startswith("--result-file")))
            path.write_text(f"rows {self.rows}\n", encoding="utf-8")
            if self.full:
                return Result(tuple(command), 5, "", "mysqldump: Got errno 28 on write (rrcode: 28)\n")
        elif "data_length" in words:
            answer = f"{self.size}\n"
        elif "information_schema.tables" in words:
            answer = "1\n"
        elif "SELECT COUNT(*)" in words:
            answer = f"{self.rows}\n"
        elif "DROP DATABASE" in words:
            self.done.append("drop")
        elif "source " in words:
            if self.broken:
                return Result(tuple(command), 1, "", "ERROR 1064 at line 3\n")
            self.rows = int(pathlib.Path(words.split("source ", 1)[1]).read_text("utf-8").split()[1])
            self.done.append("load")
        elif command[0] == "systemctl":
            self.done.append(" ".join(command[1:]))
        # slurmctld does not run.
        return Result(tuple(command), int(command[0] == "squeue"), answer, "")

    def lose(self) -> None:
        """Lose all data, as if on a new machine."""
        for parent, folders, names in os.walk(self.place.state, topdown=False):
            for name in names:
                os.unlink(os.path.join(parent, name))
            for name in folders:
                os.rmdir(os.path.join(parent, name))
        self.rows = 0

    def restore(self, force: bool = False, start: bool = True) -> tuple[str, tuple[str, ...]]:
        """Restore the newest dump."""
        dumped, aside = restore.restore(self.place.path, self.place, self.root, self.run, force=force, start=start)
        return dumped, aside


@pytest.fixture
def controller(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Controller:
    """A controller with two jobs."""
    saved = tmp_path / "state"
    (saved / "hash.1/job.1").mkdir(parents=True)
    (saved / "job_state").write_bytes(b"j" * 890)
    (saved / "hash.1/job.1/script").write_text("#!/bin/sh\nsleep 600\n", encoding="utf-8")
    (saved / "hash.1/job.1/script").chmod(0o700)
    me = pwd.getpwuid(os.getuid())
    monkeypatch.setattr(restore.pwd, "getpwnam", lambda _name: me)
    place = StatePaths("hpcai", str(saved), "slurm_acct_db", str(tmp_path / "dumps"), 2)
    return Controller(place, Root(str(tmp_path / "machine")))


def made(controller: Controller, now: float = 0) -> pathlib.Path:
    """Make a dump."""
    return pathlib.Path(dump.make_dump(controller.place, controller.run, now))


def test_a_lost_controller_gets_its_queue_and_history_back(controller: Controller) -> None:
    folder = made(controller)
    assert folder.name == "hpcai-19700101T000000Z"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert json.loads((folder / "manifest.json").read_text("utf-8"))["slurm"] == "22.05"
    controller.lose()
    dumped, aside = controller.restore()
    assert (dumped, aside) == (str(folder), (f"{controller.place.state}.before-restore",))
    script = pathlib.Path(controller.place.state, "hash.1/job.1/script")
    assert (script.read_text("utf-8"), script.stat().st_mode & 0o777) == ("#!/bin/sh\nsleep 600\n", 0o700)
    assert controller.rows == 3
    assert controller.done == [
        "stop slurmctld",
        "stop slurmdbd",
        "drop",
        "load",
        "start slurmdbd",
        "start slurmctld",
    ]
    assert restore.is_done(controller.place.path, controller.root)


def test_only_the_newest_dumps_are_kept(controller: Controller) -> None:
    for hour in range(4):
        made(controller, hour * 3600)
    assert sorted(os.listdir(controller.place.path)) == ["hpcai-19700101T020000Z", "hpcai-19700101T030000Z"]


def test_too_little_space_is_noticed_first_and_old_dumps_are_kept(controller: Controller) -> None:
    folder = made(controller)
    controller.size = 10**18
    with pytest.raises(Refused, match="MiB free"):
        made(controller, 3600)
    assert os.listdir(controller.place.path) == [folder.name]


def test_a_dump_that_runs_out_of_space_leaves_the_old_dumps_only(controller: Controller) -> None:
    folder = made(controller)
    controller.full = True
    with pytest.raises(Refused, match="No space is left"):
        made(controller, 3600)
    assert os.listdir(controller.place.path) == [folder.name]


def test_an_interrupted_dump_is_removed_and_never_restored(controller: Controller) -> None:
    partial = pathlib.Path(controller.place.path, f".partial-hpcai-19700101T000000Z@{os.uname().nodename}")
    partial.mkdir(parents=True)
    (partial / "manifest.json").write_text("{}", encoding="utf-8")
    assert state.dumps_in(controller.place.path) == []
    made(controller)
    assert not partial.exists()


def test_a_dump_that_another_host_is_writing_stays_until_it_is_a_day_old(controller: Controller) -> None:
    for name in (".partial-other-19700101T000000Z@dbd", ".partial-hpcai-19700101T000000Z"):
        partial = pathlib.Path(controller.place.path, name)
        partial.mkdir(parents=True)
        made(controller)
        assert partial.is_dir()
        os.utime(partial, (0, 0))
        made(controller, 3600)
        assert not partial.exists()
        controller.place = dataclasses.replace(controller.place, path=f"{controller.place.path}-2")


def test_two_hosts_of_a_cluster_can_use_the_same_folder(controller: Controller) -> None:
    queue = dataclasses.replace(controller.place, database="", keep=1)
    accounting = dataclasses.replace(controller.place, state="", keep=1)
    dump.make_dump(queue, controller.run, 0)
    first = dump.make_dump(queue, controller.run, 60)
    second = dump.make_dump(accounting, controller.run, 3600)
    assert state.dumps_in(queue.path) == [first, second]
    assert [restore.choose(queue.path, place) for place in (queue, accounting)] == [first, second]


def test_a_file_that_disappears_during_the_copy_is_no_error(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = dump._tree

    def tree(full: str, inside: str) -> list[tuple[str, str]]:
        return [*real(full, inside), (f"{full}.gone", f"{inside}.gone")]

    monkeypatch.setattr(dump, "_tree", tree)
    assert made(controller).is_dir()


@pytest.mark.parametrize("is_listed", [True, False])
def test_a_file_that_is_just_being_replaced_is_in_the_dump(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, is_listed: bool
) -> None:
    current = pathlib.Path(controller.place.state, "job_state")
    current.rename(f"{current}.old")
    real = os.listdir

    def entries(folder: str) -> list[str]:
        return [*real(folder), *(["job_state"] if is_listed and folder == controller.place.state else [])]

    monkeypatch.setattr(dump.os, "listdir", entries)
    monkeypatch.setattr(dump.time, "sleep", lambda _seconds: current.write_bytes(b"j" * 891))
    with tarfile.open(made(controller) / "state.tar") as archive:
        assert archive.getmember("job_state").size == 891


def test_an_earlier_restore_keeps_what_it_replaced(controller: Controller) -> None:
    made(controller)
    _dump, first = controller.restore(force=True)
    pathlib.Path(first[0], "job_state").write_bytes(b"the only copy")
    _dump, second = controller.restore(force=True)
    assert second == (f"{controller.place.state}-2.before-restore",)
    assert pathlib.Path(first[0], "job_state").read_bytes() == b"the only copy"


def test_existing_jobs_are_not_replaced_unless_forced(controller: Controller) -> None:
    made(controller)
    with pytest.raises(Refused, match="has jobs, which would be lost"):
        controller.restore()
    assert controller.done == []
    _dump, aside = controller.restore(force=True, start=False)
    assert pathlib.Path(aside[0], "job_state").stat().st_size == 890
    assert "start slurmctld" not in controller.done


def test_existing_history_is_not_replaced_unless_forced(controller: Controller) -> None:
    made(controller)
    controller.lose()
    controller.rows = 1
    with pytest.raises(Refused, match="has 1 jobs of hpcai"):
        controller.restore()
    controller.restore(force=True)
    assert controller.rows == 3


def test_a_damaged_dump_is_refused_before_anything_stops(controller: Controller) -> None:
    folder = made(controller)
    (folder / "database.sql").write_text("rows 2\n", encoding="utf-8")
    controller.lose()
    with pytest.raises(Refused, match="damaged"):
        controller.restore()
    assert controller.done == []


def test_a_database_that_cannot_be_loaded_leaves_the_daemons_stopped(controller: Controller) -> None:
    made(controller)
    controller.lose()
    controller.broken = True
    with pytest.raises(CommandFailed, match="ERROR 1064"):
        controller.restore()
    assert not [words for words in controller.done if words.startswith("start")]


@pytest.mark.parametrize(
    ("of", "installed", "words"),
    [
        ("22.05", "21.08", "cannot read files of newer releases. Install Slurm 22.05"),
        ("22.05", "24.05", "files of the 2 releases before it"),
        ("23.11", "25.11", "files of the 3 releases before it"),
        ("22.05", "23.11", ""),
        ("24.05", "25.11", ""),
        ("25.11", "26.05", ""),
        ("22.05", "99.99", "is not a known release of Slurm"),
        ("22.05", "", "not installed here"),
    ],
)
def test_the_installed_slurm_must_be_able_to_read_the_dump(
    controller: Controller, of: str, installed: str, words: str
) -> None:
    manifest = {"cluster": "hpcai", "slurm": of, "files": {"state.tar": {}, "database.sql": {}}}
    found = restore.CurrentState(installed, False, None)
    if not words:
        restore.check(manifest, controller.place, found, force=False)
        return
    with pytest.raises(Refused, match=words):
        restore.check(manifest, controller.place, found, force=True)


def test_a_dump_of_another_cluster_is_refused_even_if_forced(controller: Controller) -> None:
    manifest = {"cluster": "other", "slurm": "22.05", "files": {"state.tar": {}}}
    with pytest.raises(Refused, match="is of the cluster other, but this one is hpcai"):
        restore.check(manifest, controller.place, restore.CurrentState("22.05", False, None), force=True)


def test_a_host_with_one_part_dumps_and_restores_only_that_part(controller: Controller) -> None:
    place = dataclasses.replace(controller.place, database="")
    folder = pathlib.Path(dump.make_dump(place, controller.run, 0))
    assert sorted(os.listdir(folder)) == ["manifest.json", "state.tar"]
    with pytest.raises(Refused, match="contains nothing for this host"):
        restore.check(
            state.read_manifest(str(folder)),
            dataclasses.replace(controller.place, state=""),
            restore.CurrentState("22.05", False, None),
            force=True,
        )
