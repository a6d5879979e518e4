# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster for one module of tests, and its fixtures."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .cluster import REPOSITORY, Cluster

FIRST_S = 2400
"""Timeout of a test. The first one bakes the node image, creates three nodes and runs two playbooks on them."""

IMAGE_FILES = {
    f"HPCAI_{name.upper()}_FILES": str(REPOSITORY / ".cache" / folder)
    for name, folder in (("enroot", "enroot_pyxis"), ("beegfs", "beegfs"), ("azcopy", "azcopy"))
}
"""Variables with which nodes have the image of the scenario "cluster": with enroot, pyxis, BeeGFS and azcopy."""


def simulator(*arguments: str, **environment: str) -> None:
    """Run the simulator's command."""
    subprocess.run(
        [sys.executable, "-m", "simulator", *arguments],
        env={**os.environ, "PYTHONPATH": "tests", **environment},
        cwd=REPOSITORY,
        check=True,
        timeout=FIRST_S,
        stdin=subprocess.DEVNULL,
    )


@contextlib.contextmanager
def simulated(name: str, port: int, network: str, scenario: str = "push", **environment: str) -> Iterator[Cluster]:
    """Three new nodes, by default ctl, compute_0 and compute_3. site.yml distributes the munge key of this cluster."""
    simulator("down", "--name", name)
    simulator("up", scenario, "--name", name, "--port", str(port), "--network", network, **environment)
    try:
        yield Cluster(f"http://127.0.0.1:{port}", REPOSITORY / ".simulator" / name, key_source="push")
    finally:
        simulator("down", "--name", name)


def own_cluster(name: str, port: int, network: str, scenario: str = "push") -> tuple[Any, Any]:
    """Return the fixtures of a module for its cluster and for the inventory of it.

    The module gives them their names, and the first one must be named ``cluster``.
    """

    @pytest.fixture(scope="module")
    def cluster() -> Iterator[Cluster]:
        """A cluster of this module."""
        with simulated(name, port, network, scenario) as made:
            yield made

    @pytest.fixture(scope="module")
    def inventory(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """Its inventory."""
        return cluster.write_inventory(tmp_path_factory.mktemp(name))

    return cluster, inventory
