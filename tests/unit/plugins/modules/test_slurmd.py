# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module slurmd: its result and warnings, and the facts for the controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.daemon import ServiceFacts
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import slurmd as core
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.loaded_config import Process
from ansible_collections.hpcai.azure.plugins.modules import slurmd

RunModule = Callable[..., dict[str, Any]]
SERVICE = ServiceFacts("slurmd", True, "loaded", "active", True, 1.0, None, False)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A node with a running slurmd. Its loaded and new settings and whether jobs run can be changed."""
    played: dict[str, Any] = {"held": {}, "wanted": {}, "jobs": False, "applied": []}

    def read_facts(*_arguments: Any) -> core.Facts:
        held, wanted = played["held"], played["wanted"]
        return core.Facts(SERVICE, Process(7, "8", 1.0), "compute-0", held, wanted, (22, 5), played["jobs"])

    monkeypatch.setattr(core, "read_facts", read_facts)
    monkeypatch.setattr(core, "apply", lambda made, *_rest: played["applied"].append(made.verbs))
    monkeypatch.setattr(core, "describe", lambda made, *_rest: {"waits": list(made.waits)})
    return played


def test_restarts_for_a_key_that_slurmd_reads_only_at_start(run_module: RunModule, node: dict[str, Any]) -> None:
    node["wanted"] = {"slurm.conf TaskPlugin": "b"}
    answer = run_module(slurmd.main)
    assert (answer["changed"], answer["commands"], node["applied"]) == (True, ["restart"], [("restart",)])
    assert "systemctl restart" in answer["diff"]["after"]
    check = run_module(slurmd.main, check_mode=True)
    assert (check["changed"], check["commands"], len(node["applied"])) == (True, ["restart"], 1)


def test_check_mode_predicts_a_restart_for_a_file_to_be_written(run_module: RunModule, node: dict[str, Any]) -> None:
    assert run_module(slurmd.main, check_mode=True, pending=True)["commands"] == ["restart"]
    assert run_module(slurmd.main, pending=True)["commands"] == []


@pytest.mark.parametrize(
    ("controller", "options", "held"),
    [
        ({"files": {"slurm.conf": "new"}}, {"check_mode": True}, "old"),
        ({"files": {"slurm.conf": "new"}, "handed_out": True}, {"check_mode": True}, "new"),
        ({"files": {"slurm.conf": "new"}}, {"check_mode": True, "pending": True}, "new"),
        ({"files": {"slurm.conf": "new"}, "handed_out": True}, {}, "old"),
    ],
)
def test_check_mode_predicts_the_files_that_the_node_would_have(
    run_module: RunModule,
    node: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    controller: dict[str, Any],
    options: dict[str, Any],
    held: str,
) -> None:
    monkeypatch.setattr(core, "describe", lambda *_arguments: {"held": {"slurm.conf": "old"}})
    assert run_module(slurmd.main, controller=controller, **options)["node"]["held"] == {"slurm.conf": held}


def test_warns_that_the_restart_waits_for_jobs(
    run_module: RunModule, node: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    warned: list[str] = []
    monkeypatch.setattr(slurmd.AnsibleModule, "warn", lambda _module, warning: warned.append(warning))
    node.update(wanted={"job_container.conf": "b"}, jobs=True)
    answer = run_module(slurmd.main)
    assert (answer["changed"], answer["commands"]) == (False, [])
    assert answer["node"]["waits"] == answer["waits"] == ["job_container.conf changed and needs a node without jobs"]
    assert warned == ["slurmd is not restarted: job_container.conf changed and needs a node without jobs."]
