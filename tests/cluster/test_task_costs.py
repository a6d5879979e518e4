# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run of site.yml costs a node that is as it should be: each task is a round trip to each node."""

from __future__ import annotations

import collections
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from simulated.cluster import REPOSITORY, Cluster

MOST = 60
COMPUTE = "compute000000"
# As the role's README says it: "On a converged compute node it costs 4 tasks."
STATED = re.compile(r"^On a converged compute node (?:it )?costs? (\d+) tasks?\b", re.MULTILINE)


@pytest.fixture(scope="module")
def tasks(cluster: Cluster, inventory: Path, controller: str, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The tasks of the second of two runs on one compute node, skipped ones included."""
    assert controller
    assert cluster.site(inventory).rc == 0
    file = tmp_path_factory.mktemp("costs") / "costs.jsonl"
    run = cluster.playbook(
        "playbooks/site.yml",
        inventory,
        HPCAI_TASK_COSTS=str(file),
        ANSIBLE_CALLBACK_PLUGINS=str(REPOSITORY / "tests/callback"),
        ANSIBLE_CALLBACKS_ENABLED="task_costs",
        ANSIBLE_CONFIG=os.environ.get("ANSIBLE_CONFIG", str(REPOSITORY / "ansible.cfg")),
    )
    assert run.rc == 0, run.output
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line["host"] == COMPUTE]


def test_a_converged_compute_node_costs_few_tasks(tasks: list[Any]) -> None:
    assert len(tasks) > len({task["role"] for task in tasks}) > 1, "the run was not recorded"
    assert len(tasks) < MOST, collections.Counter(task["role"] for task in tasks)
    assert [task["task"] for task in tasks if task["changed"]] == []


def test_each_role_says_what_it_costs(tasks: list[Any]) -> None:
    counted = collections.Counter(task["role"] for task in tasks if task["role"])
    stated = {}
    for role in counted:
        found = STATED.search((REPOSITORY / "roles" / role / "README.md").read_text(encoding="utf-8"))
        stated[role] = int(found[1]) if found else None
    assert stated == dict(counted)
