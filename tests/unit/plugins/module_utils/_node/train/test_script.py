# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the script of a training ends, in bash with stand-ins for srun and hpcnode: what it tells ``train end``."""

from __future__ import annotations

import os
import pathlib
import signal
import stat
import subprocess
import time

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.train.recipe import read_recipe
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.script import ScriptOptions, render

from ..machine.test_own_files import as_root, plant

FILES = pathlib.Path(__file__).resolve().parents[6] / "roles/training/files"
LIMIT_S = 60
# What a command does is in the file with the name of its first words; without one it succeeds.
PROGRAM = """\
#!/bin/bash
while [[ $1 == --* || $1 == hpcnode || $1 == python3 ]]; do shift; done
echo "$*" >> "$STAND_INS/log"
case "$*" in *--once*) name=once ;; *trainers*) name=trainer ;; *) name="$1-$2" ;; esac
[ ! -e "$STAND_INS/$name" ] || . "$STAND_INS/$name"
"""


class Script:
    """The script of bert-ddp, and what it has called."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        for name in ("srun", "hpcnode"):
            (folder / "bin" / name).write_text(PROGRAM)
            (folder / "bin" / name).chmod(0o755)
        store = "https://a.blob.core.windows.net/c/x"
        options = ScriptOptions("tiny", 2, 0, 1, str(folder / "run"), store, data="/d", source="https://a/c/d")
        (folder / "script").write_text(render(read_recipe(str(FILES), "bert-ddp"), options))

    def does(self, name: str, text: str) -> None:
        """Let a command do this."""
        (self.folder / name).write_text(text)

    def start(self) -> subprocess.Popen[bytes]:
        """Start it."""
        job = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "SLURM_SUBMIT_DIR": str(self.folder)}
        with (self.folder / "messages").open("w") as messages:
            return subprocess.Popen(
                ["bash", str(self.folder / "script")],
                env={
                    "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
                    "USER": "a",
                    "STAND_INS": str(self.folder),
                    **job,
                },
                cwd=self.folder,
                stdout=subprocess.DEVNULL,
                stderr=messages,
            )

    @property
    def called(self) -> list[str]:
        """What was called."""
        return (self.folder / "log").read_text().splitlines()

    @property
    def reported(self) -> list[str]:
        """The statuses that train end got, with what follows."""
        return [line.partition("--status ")[2] for line in self.called if line.startswith("train end")]

    def wait_for(self, name: str) -> None:
        """Wait until a file exists."""
        deadline = time.monotonic() + LIMIT_S
        while not (self.folder / name).exists():
            assert time.monotonic() < deadline, self.called
            time.sleep(0.01)


@pytest.fixture
def script(tmp_path: pathlib.Path) -> Script:
    """A script in which all succeeds."""
    return Script(tmp_path)


def test_a_training_that_is_finished_and_published_is_good(script: Script) -> None:
    assert script.start().wait(LIMIT_S) == 0
    assert script.reported == ["0"]


@pytest.mark.parametrize(("trained", "ended"), [(0, 1), (75, 75), (65, 65)])
def test_a_training_whose_last_checkpoint_is_not_published_has_not_finished(
    script: Script, trained: int, ended: int
) -> None:
    script.does("trainer", f"exit {trained}")
    script.does("once", "exit 1")
    assert script.start().wait(LIMIT_S) == ended
    assert script.reported == [str(ended)]


@pytest.mark.parametrize("step", ["stage-run", "checkpoint-restore"])
def test_a_time_limit_before_the_training_ends_the_step_and_is_reported(script: Script, step: str) -> None:
    script.does(step, 'touch "$STAND_INS/begun"; exec sleep 1000')
    process = script.start()
    script.wait_for("begun")
    process.send_signal(signal.SIGUSR1)
    assert process.wait(LIMIT_S) != 0
    assert (script.folder / "bert-ddp-tiny-7/near-limit").exists()
    assert len(script.reported) == 1
    assert not any("trainers" in line for line in script.called)


def test_all_steps_share_the_jobs_memory(script: Script) -> None:
    """Also that of mpirun, which starts a step of its own: so the variable instead of an option."""
    lines = (script.folder / "script").read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if "srun --" in line)
    assert "export SLURM_OVERLAP=1" in lines[:first]


@pytest.mark.parametrize(("fails", "status"), [(2, 0), (6, 1)])
def test_a_slurmctld_that_does_not_answer_is_asked_again(script: Script, fails: int, status: int) -> None:
    script.does("train-env", f'[ "$(grep -c "train env" "$STAND_INS/log")" -gt {fails} ] || exit 1')
    (script.folder / "bin/sleep").symlink_to("/bin/true")
    assert script.start().wait(LIMIT_S) == status
    assert script.reported == [str(status)]


def test_no_training_begins_when_the_time_limit_is_near(script: Script) -> None:
    script.does("train-preflight", 'kill -USR1 "$PPID"')
    assert script.start().wait(LIMIT_S) == 75
    assert script.reported == ["75"]
    assert not any("trainers" in line for line in script.called)


def test_a_time_limit_during_the_last_upload_does_not_end_the_script(script: Script) -> None:
    """The upload itself reads the file, and ends in time for the decision."""
    script.does("once", 'touch "$STAND_INS/begun"; until [ -e bert-ddp-tiny-7/near-limit ]; do sleep 0.05; done')
    process = script.start()
    script.wait_for("begun")
    process.send_signal(signal.SIGUSR1)
    assert process.wait(LIMIT_S) == 0
    assert script.reported == ["0"]
    assert any("--near-limit" in line and line.endswith("--within 210") for line in script.called)


@pytest.mark.parametrize(("umask", "mode"), [("0002", 0o755), ("0027", 0o750), ("0077", 0o700)])
def test_only_the_user_can_write_to_the_jobs_folder(script: Script, umask: str, mode: int) -> None:
    text = (script.folder / "script").read_text()
    (script.folder / "script").write_text(text.replace("set -u\n", f"set -u\numask {umask}\n", 1))
    assert script.start().wait(LIMIT_S) == 0
    assert stat.S_IMODE((script.folder / "bert-ddp-tiny-7").stat().st_mode) == mode
    # What the user chose for other files stays.
    assert stat.S_IMODE((script.folder / "bert-ddp-tiny-7/errors").stat().st_mode) == 0o666 & ~int(umask, 8)


@pytest.mark.parametrize("owner", [os.geteuid(), pytest.param(0, marks=as_root), pytest.param(65534, marks=as_root)])
def test_a_run_after_a_requeue_finds_the_folder_of_the_run_before(script: Script, owner: int) -> None:
    """Also as servers of NFS and Lustre show it that map users to one account."""
    folder = script.folder / "bert-ddp-tiny-7"
    folder.mkdir()
    (folder / "near-limit").touch()
    os.chown(folder, owner, -1)
    assert script.start().wait(LIMIT_S) == 0
    assert script.reported == ["0"]
    assert not (folder / "near-limit").exists()


@as_root
@pytest.mark.parametrize("kind", ["link", "folder", "file", "dead link"])
def test_a_folder_of_another_user_gets_no_records(script: Script, kind: str) -> None:
    mine = script.folder / "mine"
    mine.mkdir()
    (mine / "progress").touch()
    folder = script.folder / "bert-ddp-tiny-7"
    plant(folder, kind.removeprefix("dead "), script.folder / "missing" if kind.startswith("dead") else mine)
    if kind == "folder":
        (folder / "progress").touch()
        folder.chmod(0o777)
    process = script.start()
    assert process.wait(LIMIT_S) == 1
    assert not (script.folder / "log").exists()
    assert os.listdir(mine) == ["progress"]
    assert not folder.is_dir() or os.listdir(folder) == ["progress"]
    words = f"{folder} is not your folder: have it removed, or submit from a folder that only you can write to\n"
    assert (script.folder / "messages").read_text() == words
