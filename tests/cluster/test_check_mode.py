# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""For changes that restart daemons and add spares, ``--check`` predicts the changes of the run after it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulated.cluster import Cluster
from simulator.suite import OLDEST, suite

CHANGES = {
    # More node names require a restart of slurmctld, after which the new nodes are set to down.
    "slurm_spare_nodes": 35,
    # Less memory for jobs: each slurmd compares it with the node's memory when it starts.
    "slurm_memory_margin_percent": 7,
    "slurm_conf": {
        "ProctrackType": "proctrack/linuxproc",
        "JobAcctGatherType": "jobacct_gather/linux",
        # A plugin that slurmd loads when it starts.
        "TaskPlugin": [],
    },
    # slurmdbd reads it when it starts.
    "slurm_dbd_conf": {"DebugLevel": "verbose"},
}


@pytest.fixture
def restore(cluster: Cluster, controller: str, inventory: Path) -> Iterator[None]:
    """Restore the cluster's configuration after the test."""
    yield
    run = cluster.slurm(inventory)
    assert run.rc == 0, run.output


def test_check_mode_predicts_each_change_of_the_run(
    cluster: Cluster, controller: str, inventory: Path, restore: None
) -> None:
    arguments = ("--extra-vars", json.dumps(CHANGES))
    predicted = cluster.slurm(inventory, "--check", *arguments)
    assert predicted.rc == 0, predicted.output

    made = cluster.slurm(inventory, *arguments)

    assert made.rc == 0, made.output
    counted = {host: counters["changed"] for host, counters in made.hosts.items()}
    assert {host: counters["changed"] for host, counters in predicted.hosts.items()} == counted, predicted.output
    # From Slurm 23.11 on, slurmd restarts automatically when slurmctld tells it that the configuration has changed.
    changed = ("ctl", "compute000000", "compute000003") if suite() == OLDEST else ("ctl",)
    assert all(counted[host] > 0 for host in changed), made.output
    assert "A real run may make more changes than shown" in predicted.summary
    assert "Check mode" not in made.summary
