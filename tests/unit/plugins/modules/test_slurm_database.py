# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module slurm_database: Ansible's side of it."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.modules import slurm_database

RunModule = Callable[..., dict[str, Any]]


@dataclasses.dataclass
class MariaDB:
    """An installed server that executes commands and records the changes.

    :ivar dead: it does not start.
    """

    running: bool = False
    dead: bool = False
    changes: list[str] = dataclasses.field(default_factory=list)

    def run(self, command: Sequence[str]) -> Result:
        """Replace the command runner."""
        words = " ".join(command)
        answer = ""
        if words.startswith("systemctl show"):
            answer = (
                f"LoadState=loaded\nActiveState={'active' if self.running else 'inactive'}\nUnitFileState=enabled\n"
            )
            if self.running:
                answer += "ExecMainStartTimestamp=Fri 2100-01-01 00:00:00.000000 UTC\n"
        elif command[0] == "systemctl":
            self.changes.append(command[1])
            self.running = not self.dead
        elif not self.running:
            return Result(tuple(command), 1, "", "ERROR 2002 (HY000): Can't connect\n")
        elif words.endswith("@@datadir"):
            answer = "/var/lib/mysql/\n"
        elif "information_schema" in words:
            answer = "1\n0\nunix_socket\n1\n" if "GRANT" in " ".join(self.changes) else "0\n0\n\n0\n"
        else:
            self.changes.append(words.split("--execute=")[1])
        return Result(tuple(command), 0, answer, "")


@pytest.fixture
def server(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> MariaDB:
    """An installed server that is not running yet."""
    played = MariaDB()
    monkeypatch.setattr(slurm_database, "run", played.run)
    monkeypatch.setattr(slurm_database, "Root", lambda _path: Root(str(tmp_path)))
    monkeypatch.setattr(slurm_database, "_START_S", 0)
    return played


def test_starts_and_fills_the_server_once_and_check_mode_predicts_it(server: MariaDB, run_module: RunModule) -> None:
    foreseen = run_module(slurm_database.main, check_mode=True)
    assert server.changes == []
    done = run_module(slurm_database.main)
    assert (done["changed"], done["actions"]) == (True, foreseen["actions"])
    assert done["actions"] == [
        "write /etc/mysql/mariadb.conf.d/zz-hpcai-slurm.cnf",
        "mariadb: systemctl restart",
        "CREATE DATABASE `slurm_acct_db`",
        "CREATE USER 'slurm'@'localhost' IDENTIFIED VIA unix_socket",
        "GRANT ALL ON `slurm_acct_db`.* TO 'slurm'@'localhost'",
    ]
    again = run_module(slurm_database.main)
    assert (again["changed"], again["actions"]) == (False, [])


def test_fails_with_a_hint_if_the_server_does_not_start(server: MariaDB, run_module: RunModule) -> None:
    server.dead = True
    failed = run_module(slurm_database.main)
    assert "does not answer root on its socket" in failed["msg"]
    assert "journalctl -u mariadb" in failed["msg"]


def test_refuses_an_invalid_name_and_changes_nothing(server: MariaDB, run_module: RunModule) -> None:
    assert "name must be letters" in run_module(slurm_database.main, name="a`b")["msg"]
    assert server.changes == []
