# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""MariaDB for slurmdbd: its settings, its data folder, and what it lacks."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import database
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.database import DatabaseOptions, Refused, Server

OPTIONS = DatabaseOptions("slurm_acct_db", "slurm", "", "/etc/my.cnf.d/zz-hpcai-slurm.cnf", {})
# The answers of MariaDB 10.11.18 to the four queries in one call.
ANSWERED = "1\n31\nunix_socket\n1\n"


def answering(place: str, rest: str = ANSWERED) -> database.Run:
    """A server with this data folder."""

    def run(command: Sequence[str]) -> Result:
        return Result(tuple(command), 0, f"{place}\n" if command[-1].endswith("@@datadir") else rest, "")

    return run


def test_a_complete_server_needs_no_change() -> None:
    server = database.read_server(OPTIONS, answering("/var/lib/mysql/"))
    assert server == Server("/var/lib/mysql", True, 31, "unix_socket", True)
    assert database.plan_sql(OPTIONS, server) == ()


def test_a_new_server_gets_database_user_and_grants_without_a_password() -> None:
    server = database.read_server(OPTIONS, answering("/var/lib/mysql/", "0\n0\n\n0\n"))
    assert database.plan_sql(OPTIONS, server) == (
        "CREATE DATABASE `slurm_acct_db`",
        "CREATE USER 'slurm'@'localhost' IDENTIFIED VIA unix_socket",
        "GRANT ALL ON `slurm_acct_db`.* TO 'slurm'@'localhost'",
    )


def test_a_user_with_a_password_loses_it() -> None:
    found = Server("/var/lib/mysql", True, 31, "mysql_native_password", True)
    assert database.plan_sql(OPTIONS, found) == ("ALTER USER 'slurm'@'localhost' IDENTIFIED VIA unix_socket",)


def test_a_server_that_does_not_run_has_no_facts() -> None:
    assert database.read_server(OPTIONS, lambda words: Result(tuple(words), 1, "", "Can't connect")) == Server()


@pytest.mark.parametrize(
    ("memory_kib", "pool"), [(1900 * 1024**2, "4096M"), (8 * 1024**2, "2048M"), (1024**2, "256M"), (1024, "128M")]
)
def test_the_size_of_the_buffer_depends_on_the_memory(tmp_path: pathlib.Path, memory_kib: int, pool: str) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text(f"MemTotal:       {memory_kib} kB\n", encoding="utf-8")
    text = database.settings_change(OPTIONS, Root(str(tmp_path))).after or ""
    assert f"\ninnodb_buffer_pool_size = {pool}\n" in text
    assert "\ninnodb_lock_wait_timeout = 900\n" in text
    assert "datadir" not in text


def test_own_settings_override_the_recommended_ones(tmp_path: pathlib.Path) -> None:
    options = dataclasses.replace(
        OPTIONS, datadir="/data/database", settings={"skip_networking": None, "max_allowed_packet": "64M"}
    )
    text = database.settings_change(options, Root(str(tmp_path))).after or ""
    assert "skip_networking" not in text
    assert "\nmax_allowed_packet = 64M\n" in text
    assert "\ndatadir = /data/database\n" in text


def test_a_move_that_would_leave_the_database_behind_is_refused() -> None:
    moved = dataclasses.replace(OPTIONS, datadir="/data/database")
    with pytest.raises(Refused, match="is in /var/lib/mysql, and would be left behind"):
        database.check_move(moved, Server("/var/lib/mysql", True, 31, "unix_socket", True))
    database.check_move(moved, Server("/data/database", True, 31, "unix_socket", True))
    database.check_move(moved, Server("/var/lib/mysql", True, 0, "unix_socket", True))


def test_existing_databases_are_reused_and_folders_with_other_data_refused(tmp_path: pathlib.Path) -> None:
    root, options = Root(str(tmp_path)), dataclasses.replace(OPTIONS, datadir="/data/database")
    assert database.is_new_place(options, root)
    (tmp_path / "data/database/lost+found").mkdir(parents=True)
    assert database.is_new_place(options, root)
    (tmp_path / "data/database/photos").mkdir()
    with pytest.raises(Refused, match="is not a MariaDB data folder and is not empty"):
        database.is_new_place(options, root)
    (tmp_path / "data/database/mysql").mkdir()
    assert not database.is_new_place(options, root)


def test_a_data_folder_that_could_not_be_set_up_is_removed(tmp_path: pathlib.Path) -> None:
    options = dataclasses.replace(OPTIONS, datadir="/data/database")

    def run(command: Sequence[str]) -> Result:
        (tmp_path / "data/database/half").mkdir()
        return Result(tuple(command), 1, "", "mysqld died\n")

    with pytest.raises(CommandFailed, match="mysqld died"):
        database.make_place(options, Root(str(tmp_path)), run)
    assert os.listdir(tmp_path / "data") == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "a`b"}, "name must be letters"),
        ({"user": "o'brien"}, "user must be letters"),
        ({"datadir": "relative"}, "must be an absolute path"),
        ({"datadir": "/home/db"}, "ProtectHome"),
    ],
)
def test_invalid_options_are_refused(change: dict[str, str], words: str) -> None:
    with pytest.raises(Refused, match=words):
        database.check(dataclasses.replace(OPTIONS, **change))  # type: ignore[arg-type]
