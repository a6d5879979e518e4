# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster with an elastic set, whose controller reaches Resource Manager. Instances are counted there."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulated.cluster import Cluster
from simulated.node import admin
from simulated.own_cluster import simulated

JOIN_S, SUSPEND_S = 180, 90
"""An instance is a container that boots within a minute, beside other machines; a name is usable again after 60 s."""
PRICE = 30.0
"""Of a node for an hour."""


@dataclass(frozen=True)
class ElasticCluster(Cluster):
    """A controller, a static node, and an elastic set ``gpu`` of four nodes; some tests use another one, ``gpu-spot``.

    :ivar controller: the controller's address.
    """

    controller: str = ""

    def run(self, command: str, check: bool = True) -> str:
        """Run a command on the controller."""
        return self.ssh(self.controller, command, check)


@contextlib.contextmanager
def elastic_cluster(name: str, port: int, network: str, controller: str) -> Iterator[ElasticCluster]:
    """A cluster whose elastic set has no instance. The controller reaches Resource Manager as in Azure, over TLS."""
    with simulated(name, port, network, "elastic") as made:
        yield ElasticCluster(made.endpoint, made.state, "key_vault", controller)


def write_source(cluster: ElasticCluster, folder: Path, spot: Mapping[str, Any] | None = None, **options: Any) -> Path:
    """Write the inventory, and next to it elastic.json with the elastic set, and return the inventory's path.

    :param spot: options of the second set, gpu-spot; None if the cluster does not use it.
    """
    group = next(one["id"] for one in machines(cluster)).partition("/providers/")[0]
    sets = {"gpu": options, **({} if spot is None else {"gpu-spot": {"spot": True, **spot}})}
    described = {
        name: {
            "id": f"{group}/providers/Microsoft.Compute/virtualMachineScaleSets/{name}",
            "vm_size": "Standard_ND96asr_v4",
            "max": 4,
            "boot_s": JOIN_S,
            "price": PRICE,
            **more,
        }
        for name, more in sets.items()
    }
    (folder / "elastic.json").write_text(json.dumps({"hpcai_elastic": described}), encoding="utf-8")
    return cluster.write_inventory(folder)


def machines(cluster: Cluster) -> list[dict[str, str]]:
    """All machines of Resource Manager."""
    found: list[dict[str, str]] = admin(cluster, "get", "state")["instances"]
    return found


def elastic_machines(cluster: Cluster, name: str = "gpu") -> list[dict[str, str]]:
    """An elastic set's instances in Resource Manager."""
    return [one for one in machines(cluster) if f"/virtualmachinescalesets/{name}/" in one["id"].lower()]


def members(cluster: Cluster, name: str = "gpu") -> list[str]:
    """The vmIds of an elastic set's instances."""
    return [one["vm_id"] for one in elastic_machines(cluster, name)]


def wait_for(condition: Callable[[], bool], seconds: float, cluster: ElasticCluster) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        status = "sudo hpcnode elastic status; sudo journalctl --no-pager -n 30 -u hpcai-elastic"
        assert time.monotonic() < deadline, cluster.run(status, check=False)
        time.sleep(1)


def settle(cluster: ElasticCluster, *sets: str) -> None:
    """End what a test has begun, even if it failed: nothing fails any more, no job is left, the sets are open."""
    admin(cluster, "delete", "faults")
    for name in sets or ("gpu",):
        cluster.run(f"sudo scancel --partition={name}", check=False)
        cluster.run(f"sudo hpcnode elastic resume {name}", check=False)


def submit(cluster: ElasticCluster, seconds: int, *options: str) -> str:
    """Submit a job to the elastic set, and return its id."""
    words = " ".join(["sbatch", "--parsable", "--partition=gpu", "--output=/dev/null", *options])
    return cluster.run(f"{words} --wrap 'sleep {seconds}'").strip()


def state_of(cluster: ElasticCluster, job: str) -> str:
    """The state of a job."""
    return cluster.run(f"squeue --noheader --states=all --jobs={job} --format=%T", check=False).strip()


def runs(cluster: ElasticCluster, job: str) -> bool:
    """Whether a job runs, or has run."""
    return state_of(cluster, job) in ("RUNNING", "COMPLETED")


def moment(cluster: Cluster, address: str, command: str) -> float:
    """The time that a command prints first, in seconds since the epoch."""
    return float(cluster.ssh(address, f"sudo {command}").split(maxsplit=1)[0])


def is_empty(cluster: ElasticCluster, name: str = "gpu") -> bool:
    """Whether an elastic set has no instance, and Slurm shows no node of it as powered up."""
    shown = cluster.run(f"sinfo --noheader --Node --nodes={name}-[0-3] --format=%T").split()
    return not members(cluster, name) and all(state.endswith("~") for state in shown)
