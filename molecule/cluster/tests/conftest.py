# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One converged cluster for all files of tests, and the order in which they run on it."""

from __future__ import annotations

import pytest

from simulated.hosts import alice, azure, bob, computes, controller, eventually, inventory, inventory_source, node

__all__ = ["alice", "azure", "bob", "computes", "controller", "eventually", "inventory", "inventory_source", "node"]

ADVERSARY = "adversary"
ORDER = (
    # These only read state, and run jobs.
    "test_cluster.py",
    "test_packages.py",
    "test_keys.py",
    "test_scheduling.py",
    "test_users.py",
    "test_image.py",
    # These reach the same cluster with the installed archive, and with a user's inventory.
    "test_second_run.py",
    "test_jump_host.py",
    "test_host_keys.py",
    # A second slurmctld with thousands of nodes, on other ports.
    "test_large.py",
    "test_pairs.py",
    # These drain a node and resume it.
    "test_hooks.py",
    "test_beeond.py",
    "test_training.py",
    "test_health.py",
    # Attacks of job users on the node, the controller and each other: tests/adversary.
    ADVERSARY,
    # This changes slurm.conf, restarts daemons, and restores everything.
    "test_changes.py",
    # These damage hpcnode on a node, and a node's ssh; site.yml repairs both.
    "test_node_tools.py",
    "test_own_units.py",
    "test_dead_node.py",
    # These add and remove nodes; test_members.py uses the node that test_joining.py adds. Afterwards, the nodes are
    # compute-0 and compute-3, both idle.
    "test_joining.py",
    "test_members.py",
    "test_munge.py",
    # A node is rebooted.
    "test_containers.py",
    # The controller loses its state, and the test restores it.
    "test_accounting.py",
    # slurmctld is killed, and a machine loses power.
    "test_survival.py",
)
"""The files, in the order in which they run. Tests that restart daemons, reboot nodes, or add and remove nodes are
last, so that they cannot disturb tests that only read state."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests by ORDER; a file that is not in ORDER is an error."""
    unlisted = sorted({name_in_order(item) for item in items} - set(ORDER))
    if unlisted:
        raise pytest.UsageError(f"add {', '.join(unlisted)} to ORDER in molecule/cluster/tests/conftest.py")
    items.sort(key=lambda item: (ORDER.index(name_in_order(item)), item.path.name))


def name_in_order(item: pytest.Item) -> str:
    """The name in ORDER of a test's file or folder."""
    return ADVERSARY if item.path.parent.name == ADVERSARY else item.path.name
