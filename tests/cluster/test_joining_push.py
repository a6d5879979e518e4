# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the key is brought by site.yml, a new instance waits for it, and says that it does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from simulated.cluster import Cluster
from simulated.node import Node, wait_for

# A node that joins by itself, with the key from a vault, is looked at in test_joining.py.
WAITING_S = 60
"""Seconds from the instance's first answer until its boot phase has ended."""


@pytest.fixture(scope="module")
def waiting(cluster: Cluster, controller: str, inventory: Path) -> Iterator[Node]:
    """A new instance at the end of its boot phase; two nodes again afterwards."""
    before = set(cluster.instance_ids())
    cluster.set_capacity(len(before) + 1)
    (number,) = set(cluster.instance_ids()) - before
    node = Node.of(cluster, controller, number)
    wait_for(lambda: node.boot()["state"] == "blocked", WAITING_S, node.boot)
    yield node
    cluster.delete_instances(number)
    run = cluster.site(inventory)
    assert run.rc == 0, run.output


def test_it_knows_its_cluster_and_waits_for_the_key_alone(waiting: Node) -> None:
    assert waiting.boot()["blocking"] == ["key"]
    assert waiting.verdicts()["instance"] == "pass"
    assert waiting.slurmd() == "inactive"


def test_it_says_what_it_waits_for(waiting: Node) -> None:
    assert "waits for site.yml" in waiting.sh("hpcnode boot status", check=False)
    assert "waits for site.yml" in waiting.sh("journalctl --no-pager -u hpcai-key.service")


def test_site_yml_brings_it_in(cluster: Cluster, inventory: Path, waiting: Node) -> None:
    run = cluster.site(inventory)
    assert run.rc == 0, run.output
    assert waiting.boot()["state"] == "ready"
    assert waiting.state() == "idle"
    assert waiting.runs_a_job()
