# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""If site.yml distributes the munge key, a new instance waits for it, and reports that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from simulated.cluster import Cluster
from simulated.node import Node, wait_for

# test_joining.py tests a node that joins automatically, with the key from a vault.
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


def test_a_new_instance_waits_only_for_the_key(waiting: Node) -> None:
    assert waiting.boot()["blocking"] == ["key"]
    assert waiting.verdicts()["instance"] == "pass"
    assert waiting.slurmd() == "inactive"


def test_a_waiting_instance_reports_why_it_waits(waiting: Node) -> None:
    assert "waits for site.yml" in waiting.sh("hpcnode boot status", check=False)
    assert "waits for site.yml" in waiting.sh("journalctl --no-pager -u hpcai-key.service")


def test_site_yml_adds_the_waiting_instance(cluster: Cluster, inventory: Path, waiting: Node) -> None:
    run = cluster.site(inventory)
    assert run.rc == 0, run.output
    assert waiting.boot()["state"] == "ready"
    assert waiting.state() == "idle"
    assert waiting.runs_a_job()
