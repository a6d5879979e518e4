# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A second run of site.yml, from the archive that users install, changes nothing and takes few tasks.

Each task costs a round trip to each node.
"""

from __future__ import annotations

import collections
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from simulated.cluster import REPOSITORY, Cluster, Recap
from simulated.ops_repository import OpsRepository

pytestmark = pytest.mark.timeout(900)

TASK_LIMIT = 95
COMPUTE = "compute000000"
STATED = re.compile(r"^A run that changes nothing takes (\d+) tasks? per compute node\b", re.MULTILINE)


@pytest.fixture(scope="module")
def ops_repository(azure: Cluster, tmp_path_factory: pytest.TempPathFactory) -> OpsRepository:
    """A user's repository with the collection installed from its archive."""
    return OpsRepository.create(tmp_path_factory.mktemp("ops"), azure)


@dataclass(frozen=True)
class Second:
    """The run after the one that converged the cluster from the clone.

    :ivar tasks: the tasks on one compute node, including skipped ones.
    """

    run: Recap
    tasks: list[dict[str, Any]]


@pytest.fixture(scope="module")
def second(ops_repository: OpsRepository, inventory_source: Path, tmp_path_factory: pytest.TempPathFactory) -> Second:
    """A run from the archive, with the scenario's inventory."""
    file = tmp_path_factory.mktemp("costs") / "costs.jsonl"
    run = ops_repository.playbook(
        "site.yml",
        inventory=str(inventory_source),
        HPCAI_TASK_COSTS=str(file),
        ANSIBLE_CALLBACK_PLUGINS=str(REPOSITORY / "tests/callback"),
        ANSIBLE_CALLBACKS_ENABLED="task_costs",
    )
    assert run.rc == 0, run.output
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return Second(run, [line for line in lines if line["host"] == COMPUTE])


def test_the_archive_changes_nothing_that_the_clone_configured(second: Second) -> None:
    assert {host: counters["changed"] for host, counters in second.run.hosts.items() if counters["changed"]} == {}
    assert set(second.run.hosts) >= {"ctl", COMPUTE, "compute000003"}


def test_a_converged_compute_node_takes_few_tasks(second: Second) -> None:
    assert len(second.tasks) > len({task["role"] for task in second.tasks}) > 1, "the run was not recorded"
    assert len(second.tasks) < TASK_LIMIT, collections.Counter(task["role"] for task in second.tasks)


def test_each_readme_states_the_roles_number_of_tasks(second: Second) -> None:
    counted = collections.Counter(task["role"] for task in second.tasks if task["role"])
    stated = {}
    for role in counted:
        found = STATED.search((REPOSITORY / "roles" / role / "README.md").read_text(encoding="utf-8"))
        stated[role] = int(found[1]) if found else None
    assert stated == dict(counted)


def test_a_failed_source_fails_the_run_with_an_empty_ansible_cfg(ops_repository: OpsRepository) -> None:
    """Ansible itself only warns about such a source."""
    broken = ops_repository.path / "broken"
    broken.mkdir()
    text = (ops_repository.path / "azure_vmss.yml").read_text(encoding="utf-8")
    (broken / "azure_vmss.yml").write_text(text.replace("simulated-token", "wrong-token"), encoding="utf-8")
    run = ops_repository.playbook("site.yml", inventory="broken/azure_vmss.yml")
    assert run.rc != 0
    assert "could not be read" in run.output
    assert set(run.hosts) == {"localhost"}, "no node may be touched"
