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
    # These look, and run jobs.
    "test_cluster.py",
    "test_packages.py",
    "test_keys.py",
    "test_scheduling.py",
    "test_users.py",
    "test_image.py",
    # Other ways to the cluster as it is: the archive's, and a user's own inventory.
    "test_second_run.py",
    "test_jump_host.py",
    "test_host_keys.py",
    # A second slurmctld with thousands of nodes, on ports of its own.
    "test_large.py",
    "test_pairs.py",
    # These drain a node and resume it.
    "test_hooks.py",
    "test_beeond.py",
    "test_training.py",
    "test_health.py",
    # What job users try against the node, the controller and each other: tests/adversary.
    ADVERSARY,
    # This changes slurm.conf, restarts daemons and puts all back.
    "test_changes.py",
    # These harm hpcnode on a node, and a node's ssh; site.yml mends it.
    "test_node_tools.py",
    "test_own_units.py",
    "test_dead_node.py",
    # These change what the cluster is made of, the second with what the first one adds, and leave two idle nodes,
    # compute-0 and compute-3, behind.
    "test_joining.py",
    "test_members.py",
    "test_munge.py",
    # A node is rebooted.
    "test_containers.py",
    # The controller loses its state, and gets it back.
    "test_accounting.py",
    # slurmctld is killed, and a machine loses power.
    "test_survival.py",
)
"""The files, in the order in which they run. What restarts daemons, reboots nodes or has others come and go is last, so
that it cannot spoil what only looks."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the files in their order; one that nobody has given a place is an error."""
    homeless = sorted({place(item) for item in items} - set(ORDER))
    if homeless:
        raise pytest.UsageError(f"give {', '.join(homeless)} a place in ORDER of molecule/cluster/tests/conftest.py")
    items.sort(key=lambda item: (ORDER.index(place(item)), item.path.name))


def place(item: pytest.Item) -> str:
    """The name in ORDER of the file, or of the folder, that a test is in."""
    return ADVERSARY if item.path.parent.name == ADVERSARY else item.path.name
