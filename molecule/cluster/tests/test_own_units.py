# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""site.yml does not report a node as configured if units of the collection have failed on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from simulated.cluster import Cluster
from simulated.node import Node

CONTROLLER = "10.78.0.4"
UNIT = "/run/systemd/system/hpcai-played.service"
ALWAYS = ("--tags", "no-role-at-all")
"""Only the plays around the roles."""
pytestmark = pytest.mark.thorough


@pytest.fixture
def failed(azure: Cluster, node: Callable[[str], Node], inventory_source: Path) -> Iterator[Node]:
    """A node on which a unit of the collection has failed; afterwards it is back in scheduling."""
    one = node("3")
    one.sh(f"printf '[Service]\\nExecStart=/bin/false\\n' > {UNIT} && systemctl daemon-reload")
    one.sh("systemctl start hpcai-played", check=False)
    yield one
    one.sh(f"rm -f {UNIT}; systemctl reset-failed; systemctl daemon-reload")
    run = azure.site(inventory_source, *ALWAYS)
    assert run.rc == 0, run.output
    azure.wait_for_nodes(CONTROLLER, {"compute-0": "idle", "compute-3": "idle"})


def test_the_node_and_its_failed_unit_are_named(azure: Cluster, inventory_source: Path, failed: Node) -> None:
    run = azure.site(inventory_source, *ALWAYS)
    words = " ".join(run.output.split())
    assert run.rc != 0
    assert "Units of this node have failed: hpcai-played.service" in words
    assert "2 of 3 nodes are configured. These are not: compute000003." in run.summary
    assert azure.nodes(CONTROLLER)["compute-3"].startswith("drain")


def test_other_failed_units_do_not_matter(
    azure: Cluster, node: Callable[[str], Node], inventory_source: Path
) -> None:
    one = node("3")
    one.sh("systemd-run --unit=somebodys /bin/false", check=False)
    try:
        run = azure.site(inventory_source, *ALWAYS)
    finally:
        one.sh("systemctl reset-failed somebodys", check=False)
    assert run.rc == 0, run.output
