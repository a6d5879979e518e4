# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module slurm_associations: Ansible's side of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.modules import slurm_associations

RunModule = Callable[..., dict[str, Any]]


@dataclasses.dataclass
class Slurmdbd:
    """Has a cluster and one or more QOS, and records the changes.

    :ivar ignores_changes: it reports success but changes nothing.
    """

    qos: list[str] = dataclasses.field(default_factory=lambda: ["normal"])
    changes: list[str] = dataclasses.field(default_factory=list)
    down: bool = False
    ignores_changes: bool = False

    def run(self, command: Sequence[str]) -> Result:
        """Replace the command runner."""
        words = " ".join(command)
        if self.down:
            return Result(tuple(command), 1, "", "sacctmgr: error: Sending PersistInit msg: Connection refused\n")
        answer = ""
        if "show cluster" in words:
            answer = "hpcai\n"
        elif "show qos" in words:
            answer = "".join(f"{name}{'|' * 27}\n" for name in self.qos)
        elif "--immediate" in command:
            self.changes.append(words)
            if not self.ignores_changes:
                self.qos.append(command[-1])
        return Result(tuple(command), 0, answer, "access denied to qos\n" if self.ignores_changes else "")


@pytest.fixture
def slurmdbd(monkeypatch: pytest.MonkeyPatch) -> Slurmdbd:
    """A slurmdbd that answers."""
    played = Slurmdbd()
    monkeypatch.setattr(slurm_associations, "run", played.run)
    return played


def test_changes_once_and_check_mode_predicts_it(slurmdbd: Slurmdbd, run_module: RunModule) -> None:
    asked: dict[str, Any] = {"cluster": "hpcai", "qos": {"urgent": {}}}
    foreseen = run_module(slurm_associations.main, check_mode=True, **asked)
    assert (foreseen["changed"], slurmdbd.changes) == (True, [])
    done = run_module(slurm_associations.main, **asked)
    assert (done["changed"], done["commands"]) == (True, foreseen["commands"]) == (True, ["add qos urgent"])
    assert done["diff"] == {"before": "", "after": "QOS urgent\n"}
    again = run_module(slurm_associations.main, **asked)
    assert (again["changed"], again["commands"]) == (False, [])


def test_fails_if_sacctmgr_reports_success_but_changes_nothing(slurmdbd: Slurmdbd, run_module: RunModule) -> None:
    slurmdbd.ignores_changes = True
    failed = run_module(slurm_associations.main, cluster="hpcai", qos={"urgent": {}})
    assert failed["msg"] == "sacctmgr did not do 'add qos urgent'. Output: access denied to qos"


def test_a_missing_slurmdbd_is_only_a_warning_in_check_mode(
    slurmdbd: Slurmdbd, run_module: RunModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned: list[str] = []
    monkeypatch.setattr(slurm_associations.AnsibleModule, "warn", lambda _module, words: warned.append(words))
    slurmdbd.down = True
    foreseen = run_module(slurm_associations.main, check_mode=True, cluster="hpcai")
    assert (foreseen["changed"], foreseen["commands"]) == (True, ["add cluster hpcai"])
    assert "does not answer" in warned[0]
    failed = run_module(slurm_associations.main, cluster="hpcai", timeout=0)
    assert failed["msg"].endswith("Connection refused")


def test_invalid_settings_change_nothing(slurmdbd: Slurmdbd, run_module: RunModule) -> None:
    failed = run_module(slurm_associations.main, cluster="hpcai", qos={"urgent": {"MaxGpus": 1}})
    assert "MaxGpus is not a known setting" in failed["msg"]
    assert slurmdbd.changes == []
