# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading with limits: hung tools, endless output, links and pipes that users have planted."""

from __future__ import annotations

import os
import pathlib
import time

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.diag import reading
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root


def test_a_hung_tool_costs_its_limit_only() -> None:
    began = time.monotonic()
    # It ignores SIGTERM, and so does its child, which keeps the output open.
    script = "trap '' TERM; echo first; (trap '' TERM; sleep 60) & sleep 60"
    raw = reading.read_command(["sh", "-c", script], 0.3, 1000)
    assert time.monotonic() - began < 5
    assert (raw.text, raw.cut) == ("first\n", "time")
    assert "no answer within 0.3 s" in raw.note


def test_endless_output_is_cut_at_a_line() -> None:
    began = time.monotonic()
    raw = reading.read_command(["yes", "0123456789"], 30, 5000)
    assert time.monotonic() - began < 5
    assert raw.cut == "size"
    assert 4900 < len(raw.text) <= 5000
    assert raw.text.endswith("9\n")


def test_a_missing_command_and_a_failed_one_are_notes() -> None:
    assert reading.read_command(["no-such-command"], 1, 100).note == "not installed"
    assert reading.read_command(["false"], 1, 100).exit == 1


def test_commands_do_not_get_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "planted")
    assert "planted" not in reading.read_command(["env"], 5, 10000).text


def log(tmp_path: pathlib.Path, mode: int = 0o755) -> pathlib.Path:
    """A folder of logs in a machine's tree."""
    folder = tmp_path / "var/log/slurm"
    folder.mkdir(parents=True)
    folder.chmod(mode)
    return folder


def read(tmp_path: pathlib.Path, pattern: str = "/var/log/slurm/*.log", most_bytes: int = 10000) -> tuple[str, str]:
    """The texts of the files, and the note."""
    found = reading.read_files(Root(str(tmp_path)), [pattern], 5, most_bytes)
    return "".join(text for _path, text in found["files"]), found["note"]


def test_reads_the_end_of_a_log_from_a_complete_line(tmp_path: pathlib.Path) -> None:
    (log(tmp_path) / "a.log").write_text("".join(f"line {number:04}\n" for number in range(1000)))
    text, note = read(tmp_path, most_bytes=105)
    assert text.startswith("line 09")
    assert text.endswith("line 0999\n")
    assert note == ""


def test_reads_the_newest_files(tmp_path: pathlib.Path) -> None:
    folder = log(tmp_path)
    for number in range(8):
        (folder / f"{number}.log").write_text(f"{number}\n")
        os.utime(folder / f"{number}.log", (number, number))
    assert read(tmp_path)[0].split() == ["3", "4", "5", "6", "7"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another account")
@pytest.mark.parametrize(
    ("account", "is_read"),
    [
        ("slurm:x:64030:64030::/nonexistent:/usr/sbin/nologin", True),
        ("alice:x:64030:64030::/home/alice:/bin/bash", False),
        # A user of a directory service.
        ("bob:x:1000:1000::/home/bob:/usr/sbin/nologin", False),
    ],
)
def test_reads_logs_of_debians_packages_and_not_those_of_users(
    tmp_path: pathlib.Path, account: str, is_read: bool
) -> None:
    """Debian's slurm has the id 64030, above the ids of system accounts."""
    folder = log(tmp_path)
    (folder / "slurmctld.log").write_text("line\n")
    os.chown(folder, 64030, 64030)
    os.chown(folder / "slurmctld.log", 64030, 64030)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(f"root:x:0:0::/root:/bin/bash\n{account}\n")
    assert (read(tmp_path)[0] == "line\n") == is_read


@pytest.mark.parametrize("planted", ["link", "hard link", "folder link", "pipe", "folder"])
def test_does_not_follow_what_a_user_planted(tmp_path: pathlib.Path, planted: str) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "x.log").write_text("PLANTED\n")
    folder = log(tmp_path, 0o777)
    if planted == "link":
        (folder / "x.log").symlink_to(secret / "x.log")
    elif planted == "hard link":
        os.link(secret / "x.log", folder / "x.log")
    elif planted == "pipe":
        os.mkfifo(folder / "x.log")
    elif planted == "folder":
        (folder / "x.log").mkdir()
    else:
        folder.rmdir()
        folder.parent.chmod(0o777)
        folder.symlink_to(secret)
    text, note = read(tmp_path)
    assert text == ""
    assert note


def test_never_opens_files_with_keys_even_through_an_operators_link(tmp_path: pathlib.Path) -> None:
    (tmp_path / "etc/munge").mkdir(parents=True)
    (tmp_path / "etc/munge/munge.key").write_text("PLANTED\n")
    (log(tmp_path) / "x.log").symlink_to(tmp_path / "etc/munge/munge.key")
    assert read(tmp_path)[0] == ""
    text, note = read(tmp_path, "/etc/munge/munge.key")
    assert text == ""
    assert "never read" in note


def test_follows_an_operators_link_to_a_log(tmp_path: pathlib.Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/real.log").write_text("moved\n")
    (log(tmp_path) / "x.log").symlink_to(tmp_path / "data/real.log")
    assert read(tmp_path) == ("moved\n", "")


def test_a_function_that_hangs_or_fails_is_a_note() -> None:
    def hang() -> dict[str, str]:
        time.sleep(60)
        return {}

    def fail() -> dict[str, str]:
        raise KeyError("x")

    began = time.monotonic()
    assert reading.in_child(hang, 0.2)["overdue"] is True
    assert time.monotonic() - began < 5
    assert "KeyError" in reading.in_child(fail, 5)["note"]
