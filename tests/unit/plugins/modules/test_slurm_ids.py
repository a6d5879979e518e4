# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module slurm_ids: Ansible's side of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import selinux
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import ids
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.ids import Facts
from ansible_collections.hpcai.azure.plugins.modules import slurm_ids

RunModule = Callable[..., dict[str, Any]]
IDS = {"slurm_uid": 64030, "slurm_gid": 64030, "munge_uid": 11101, "munge_gid": 11101}
RIGHT = Facts(
    users={"slurm": (64030, 64030), "munge": (11101, 11101)},
    groups={"slurm": 64030, "munge": 11101},
    uid_owners={64030: "slurm", 11101: "munge"},
    gid_owners={64030: "slurm", 11101: "munge"},
)


class Machine:
    """A machine whose commands change its accounts and labels.

    :ivar wrong: paths with a wrong SELinux label.
    """

    def __init__(self) -> None:
        self.commands: list[str] = []
        self.facts = Facts()
        self.wrong: list[str] = []

    def run(self, command: Sequence[str]) -> Result:
        self.commands.append(" ".join(command))
        if command[0] == "useradd":
            self.facts = RIGHT
        if command[0] == "restorecon":
            self.wrong = []
        return Result(tuple(command), 0, "", "")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The machine on which the module runs."""
    played = Machine()
    monkeypatch.setattr(slurm_ids, "run", played.run)
    monkeypatch.setattr(ids, "read_facts", lambda _wanted, _root: played.facts)
    monkeypatch.setattr(selinux, "wrong_labels", lambda _paths, _root, _run: list(played.wrong))
    return played


def test_creates_both_accounts_once_and_check_mode_predicts_it(machine: Machine, run_module: RunModule) -> None:
    foreseen = run_module(slurm_ids.main, check_mode=True, **IDS)
    assert machine.commands == []
    done = run_module(slurm_ids.main, **IDS)
    assert (done["changed"], done["actions"]) == (True, foreseen["actions"])
    assert machine.commands == done["actions"]
    assert [action.split()[-1] for action in done["actions"]] == ["slurm", "slurm", "munge", "munge"]
    assert done["diff"]["after"].splitlines() == done["actions"]
    again = run_module(slurm_ids.main, **IDS)
    assert (again["changed"], again["actions"], again["diff"]) == (False, [], {})


def test_corrects_selinux_labels_once(machine: Machine, run_module: RunModule) -> None:
    machine.facts, machine.wrong = RIGHT, ["/etc/munge/munge.key"]
    assert run_module(slurm_ids.main, check_mode=True, **IDS, label=["/etc/munge"])["changed"] is True
    assert machine.commands == []
    done = run_module(slurm_ids.main, **IDS, label=["/etc/munge"])
    assert done["actions"] == machine.commands == ["restorecon /etc/munge/munge.key"]
    assert run_module(slurm_ids.main, **IDS, label=["/etc/munge"])["changed"] is False


def test_refuses_to_change_ids_while_jobs_run_and_says_what_to_do(machine: Machine, run_module: RunModule) -> None:
    machine.facts = Facts(users={"munge": (105, 110)}, groups={"munge": 110}, has_steps=True)
    failed = run_module(slurm_ids.main, **IDS)
    assert failed["failed"] is True
    assert "Drain the node" in failed["msg"]
    assert machine.commands == []
