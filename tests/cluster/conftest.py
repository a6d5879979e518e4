# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests that need their own cluster. Most share one that is configured from an installed archive.

Tests that can use a running cluster are in molecule/cluster/tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from collection import import_as_ansible_does
from simulated.cluster import Cluster, Recap
from simulated.ops_repository import OpsRepository
from simulated.own_cluster import FIRST_S, simulated

import_as_ansible_does()

NAME, PORT, NETWORK = "functional", 8490, "10.79.0.0/24"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests as thorough, because their nodes take minutes. `make test` runs only the oldest suite."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            if item.path.name != "test_oldest_nodes.py":
                item.add_marker("thorough")
            item.add_marker(pytest.mark.timeout(FIRST_S))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The cluster that the tests of this folder share."""
    with simulated(NAME, PORT, NETWORK) as made:
        yield made


@pytest.fixture(scope="session")
def inventory(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An inventory of that cluster."""
    return cluster.write_inventory(tmp_path_factory.mktemp("inventory"))


@pytest.fixture(scope="session")
def ops_repository(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> OpsRepository:
    """A user's repository: the collection installed from its archive, an inventory, and a site.yml of one line."""
    return OpsRepository.create(tmp_path_factory.mktemp("ops"), cluster)


@pytest.fixture(scope="session")
def checked_before(cluster: Cluster, ops_repository: OpsRepository) -> Recap:
    """A run in check mode on nodes that are not configured yet."""
    return ops_repository.site("--check", "--diff")


@pytest.fixture(scope="session")
def controller(cluster: Cluster, inventory: Path, ops_repository: OpsRepository, checked_before: Recap) -> str:
    """The controller's address, after the first run has converged the cluster from the installed archive."""
    run = ops_repository.site()
    assert run.rc == 0, run.output
    return "10.79.0.4"
