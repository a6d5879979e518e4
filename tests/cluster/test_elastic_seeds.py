# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Random faults with a real slurmctld: it and the daemon are killed, Azure fails, people drain nodes, delete instances.

After each event, no machine has gone that had a job or a person's drain, unless a person has deleted it. After each
seed, instances are leases are powered-up nodes, and then nothing is left. Instances are counted at the simulated
Resource Manager. A failing seed is in the test's name and is replayed with HPCAI_SEEDS=SEED.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
import requests

from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.hostlist import expand
from simulated.cluster import RESOURCE_GROUP

from . import test_elastic
from .elastic_cluster import (
    JOIN_S,
    SUSPEND_S,
    ElasticCluster,
    elastic_machines,
    is_empty,
    members,
    state_of,
    submit,
    wait_for,
)
from .test_elastic import CONTROLLER, IDLE_S

# The fixtures of that file: the same cluster.
cluster, converged, source = test_elastic.cluster, test_elastic.converged, test_elastic.source
SEEDS = [int(seed) for seed in os.environ.get("HPCAI_SEEDS", "1,2,3").split(",")]
ROUNDS = 12
ENDED = ("COMPLETING", "COMPLETED", "CANCELLED", "")
FAULTS = (
    {"match": "^CREATE ", "action": "omit", "service": "scale", "code": "AllocationFailed"},
    {"match": "^CREATE ", "action": "status", "service": "scale", "code": "OSProvisioningTimedOut"},
    {"match": "^CREATE ", "action": "reuse", "service": "scale"},
    {"match": "^GROW ", "action": "status", "service": "scale", "delay_s": 20},
    {"match": "^DELETE ", "action": "status", "service": "scale", "code": "OperationPreempted"},
    {"match": "PATCH .*virtualmachinescalesets/gpu", "action": "status", "status": 412, "code": "PreconditionFailed"},
    {"match": "virtualmachinescalesets/gpu", "action": "status", "status": 503},
)


class Trouble:
    """What can happen, chosen by a seed."""

    def __init__(self, made: ElasticCluster, seed: int) -> None:
        self.cluster, self.random = made, random.Random(seed)
        self.jobs: list[str] = []
        self.done: list[str] = []
        self.deleted: set[str] = set()
        """The machines that a person has deleted."""
        self.drained: dict[str, str] = {}
        """The machines that a person has drained, by node."""
        self.working: dict[str, set[str]] = {}
        """The machines of each job that was running when the last event had passed."""

    def happen(self) -> None:
        """Let one thing happen, and some time pass."""
        events: list[Callable[[], object]] = [self.job, self.job, self.cancel, self.daemon, self.slurmctld]
        event = self.random.choice([*events, self.restart, self.fault, self.fault, self.delete, self.drain])
        self.done.append(event.__name__)
        event()
        time.sleep(self.random.uniform(1, 15))
        self.judge()

    def judge(self) -> None:
        """Fail if a machine has gone that had a job or a person's drain."""
        left = {*members(self.cluster), *self.deleted}
        for job, machines in self.working.items():
            if not machines <= left:
                # Only a job that has ended can lose its machine.
                assert state_of(self.cluster, job) in ENDED, (job, machines, self.done)
        assert left >= {*self.drained.values()}, (self.drained, self.done)
        held = leases(self.cluster)
        words = "squeue --noheader --partition=gpu --states=RUNNING --format='%i %N'"
        running = [line.split() for line in self._run(words, check=False).splitlines()]
        self.working = {
            line[0]: {held[node] for node in expand(line[1]) if node in held} for line in running if len(line) == 2
        }

    def _run(self, command: str, check: bool = True) -> str:
        return self.cluster.ssh(CONTROLLER, command, check=check)

    def job(self) -> None:
        """Somebody submits a job."""
        nodes, seconds = self.random.randint(1, 2), self.random.randint(5, 40)
        # slurmctld may be starting.
        wait_for(lambda: self._run("scontrol ping", check=False).count("UP") == 1, 60, self.cluster)
        self.jobs.append(submit(self.cluster, seconds, f"--nodes={nodes}", "--constraint=regular", "--requeue"))

    def cancel(self) -> None:
        """Somebody cancels a job."""
        if self.jobs:
            self._run(f"scancel {self.random.choice(self.jobs)}", check=False)

    def daemon(self) -> None:
        """The daemon is killed; systemd starts it again after 10 s."""
        self._run("sudo systemctl kill --signal=KILL hpcai-elastic", check=False)

    def slurmctld(self) -> None:
        """slurmctld is killed, and started again."""
        self._run("sudo systemctl kill --signal=KILL slurmctld; sleep 1; sudo systemctl restart slurmctld", check=False)

    def restart(self) -> None:
        """Somebody restarts slurmctld."""
        self._run("sudo systemctl restart slurmctld", check=False)

    def fault(self) -> None:
        """The next request of a kind fails."""
        rule = {**self.random.choice(FAULTS), "times": self.random.randint(1, 2)}
        requests.post(f"{self.cluster.endpoint}/_simulator/faults", json=rule, timeout=10).raise_for_status()

    def delete(self) -> None:
        """Somebody deletes an instance in the portal."""
        machines = elastic_machines(self.cluster)
        if machines:
            chosen = self.random.choice(machines)
            self.deleted.add(chosen["vm_id"])
            number = chosen["id"].rpartition("/")[2]
            self.cluster.sdk().virtual_machine_scale_set_vms.begin_delete(RESOURCE_GROUP, "gpu", number)

    def drain(self) -> None:
        """Somebody drains a node to examine it."""
        held = leases(self.cluster)
        nodes = sorted(powered_up(self.cluster) & held.keys())
        if nodes:
            node = self.random.choice(nodes)
            self._run(f"sudo scontrol update NodeName={node} State=DRAIN Reason=examined", check=False)
            # Not if slurmctld is away, or if the daemon has begun to delete the machine.
            state = self._run(f"sinfo --noheader --nodes={node} --format=%T", check=False).strip()
            if state in ("drained", "draining"):
                self.drained[node] = held[node]

    def end(self) -> None:
        """Nothing fails any more, and the nodes that somebody has drained are in use again."""
        requests.delete(f"{self.cluster.endpoint}/_simulator/faults", timeout=10).raise_for_status()
        wait_for(lambda: self._run("scontrol ping", check=False).count("UP") == 1, 60, self.cluster)
        for node in self.drained:
            self._run(f"sudo scontrol update NodeName={node} State=UNDRAIN", check=False)
        self.drained.clear()


def shown(made: ElasticCluster) -> dict[str, Any]:
    """What the daemon shows of the set."""
    answer: dict[str, Any] = json.loads(made.ssh(CONTROLLER, "sudo hpcnode elastic status --json", check=False))
    return dict(answer["sets"]["gpu"])


def leases(made: ElasticCluster) -> dict[str, str]:
    """The vmIds of the leases, by node."""
    return {one["slot"]: one["vm_id"] for one in shown(made)["slots"] if one.get("vm_id")}


def powered_up(made: ElasticCluster) -> set[str]:
    """The nodes that Slurm uses."""
    lines = made.ssh(CONTROLLER, "sinfo --noheader --Node --nodes=gpu-[0-3] --format='%N %T'", check=False).splitlines()
    pairs = [line.split() for line in lines]
    return {pair[0] for pair in pairs if len(pair) == 2 and pair[1] in ("idle", "allocated", "mixed", "completing")}


def agrees(made: ElasticCluster) -> bool:
    """Whether instances are leases are powered-up nodes."""
    held = leases(made)
    return sorted(members(made)) == sorted(held.values()) and set(held) == powered_up(made)


def open_again(made: ElasticCluster) -> None:
    """Open the set if it is closed: an order of before the end may still fail, and close it for minutes."""
    if shown(made)["closed"]:
        made.ssh(CONTROLLER, "sudo hpcnode elastic resume gpu", check=False)


def is_used(made: ElasticCluster) -> bool:
    """Whether the set has instances, and all agrees."""
    open_again(made)
    return bool(members(made)) and agrees(made)


def is_over(made: ElasticCluster) -> bool:
    """Whether nothing is left. Nodes of a closed set are down, and not powered down."""
    open_again(made)
    return is_empty(made) and not leases(made)


@pytest.mark.parametrize("seed", SEEDS)
def test_after_random_faults_instances_leases_and_nodes_agree(cluster: ElasticCluster, seed: int) -> None:
    trouble = Trouble(cluster, seed)
    for _round in range(ROUNDS):
        trouble.happen()
    trouble.end()
    print(f"seed {seed}: {', '.join(trouble.done)}")
    # It runs until all agrees: the deletion of another machine may still take minutes.
    trouble.jobs.append(submit(cluster, 2 * JOIN_S, "--constraint=regular"))
    wait_for(lambda: is_used(cluster), 2 * JOIN_S, cluster)
    cluster.ssh(CONTROLLER, f"scancel {' '.join(trouble.jobs)}", check=False)
    wait_for(lambda: is_over(cluster), JOIN_S + IDLE_S + 2 * SUSPEND_S, cluster)
