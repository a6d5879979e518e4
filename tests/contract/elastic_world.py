# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The daemon of elastic sets against the simulated Resource Manager; slurmctld is a model, and time is simulated."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from unit.plugins.module_utils._node.elastic.slurm_model import Job, cluster

from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic import spool
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.daemon import RESUME, Daemon
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.scale_sets import ScaleSets
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.settings import ElasticSet, Settings
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import imds
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.arm import ResourceManager
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from simulator.resources import Instance
from simulator.testing import Simulator

START, STEP_S, BOOT_S = 1_700_000_000.0, 15.0, 30.0


class World:
    """A controller with its daemon, a cluster, and Azure.

    :param name: the scale set.
    :param controller: the machine whose identity the daemon has.
    :param others: further sets, of the same size, in which nothing happens.
    """

    def __init__(
        self,
        simulator: Simulator,
        endpoint: str,
        folder: Path,
        size: int = 6,
        name: str = "gpu",
        controller: str = "controller",
        others: Sequence[str] = (),
        **options: Any,
    ) -> None:
        self.simulator, self.now = simulator, START
        self.name, self._controller = name, controller
        names = (name, *others)
        self.slurm = cluster(**dict.fromkeys(names, size))
        self.slurm.tick(self.now)
        self.lines: list[str] = []
        self.asked: list[float] = []
        self._started: dict[str, float] = {}
        sets = {one: ElasticSet(simulator.scale_set(one).id, size, **options) for one in names}
        settings = Settings(sets, endpoint=endpoint, metrics="")
        manager = ResourceManager(endpoint, self.token)
        self._root = Root(str(folder / "root"))
        self.daemon = Daemon(self._root, _no_command, settings, self.slurm, ScaleSets(manager))
        simulator.faults.clock = lambda: self.now

    def token(self) -> str:
        caller = {"X-Simulator-Instance": self._controller}
        resource = "https://management.azure.com/"
        return imds.read_token(resource, limit_s=10, endpoint=self.simulator.imds_endpoint, headers=caller)

    @property
    def members(self) -> list[Instance]:
        """The set's instances in Resource Manager."""
        return list(self.simulator.scale_set(self.name).members.values())

    @property
    def capacity(self) -> int:
        """The set's capacity in Resource Manager."""
        return self.simulator.scale_set(self.name).capacity

    def changes(self, method: str) -> list[int]:
        """The statuses of the daemon's changes: PATCH is a growth, POST a deletion."""
        return [one["status"] for one in self.simulator.requests() if one["method"] == method]

    def advance(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass, with a pass of the daemon each 15 s; return whether the condition was met."""
        end = self.now + seconds
        while self.now < end and not (until is not None and until()):
            self.now += STEP_S
            self._machines_register()
            self.slurm.tick(self.now)
            self.one_pass()
        return until is None or until()

    def one_pass(self) -> None:
        """The daemon makes a pass, and Azure does what does not hang."""
        before = len(self.simulator.requests())
        done, lines = self.daemon.one_pass(self.now, self.now)
        self.lines += lines
        self.asked += [self.now] * (len(self.simulator.requests()) - before)
        for operation in self.simulator.operations():
            operation.finished.wait(0.1)
        if done.again:
            self.one_pass()

    def open_again(self) -> None:
        """An administrator opens the set."""
        os.makedirs(self._root.at(spool.CONTROL), exist_ok=True)
        spool.write(self._root, spool.CONTROL, RESUME, [self.name], self.now)

    def _machines_register(self) -> None:
        """Each machine that has booted looks its lease up, and starts slurmd."""
        up = set()
        for one in self.members:
            if one.provisioning_state == "Succeeded" and one.power_state == "running" and not one.dead:
                since = self._started.setdefault(one.vm_id, self.now)
                if self.now - since >= BOOT_S:
                    up.add(one.vm_id)
        for node in self.slurm.nodes.values():
            alive = node.lease in up
            if alive and node.power not in ("POWERED_DOWN", "POWERING_DOWN"):
                self.slurm.register(node.name)
            self.slurm.is_alive(node.name, alive)

    def runs(self, job: Job) -> Callable[[], bool]:
        """Whether a job runs."""
        return lambda: job.state == "RUNNING"

    def differences(self) -> list[str]:
        """Instances must be the leases that Slurm shows, and those its powered-up nodes."""
        instances = {one.vm_id for one in self.members}
        up = {node.lease for node in self.slurm.nodes.values() if not node.power and not node.down}
        found = [] if instances == up else [f"instances {sorted(instances)} are not Slurm's nodes {sorted(up)}"]
        if self.capacity != len(instances):
            found.append(f"the capacity is {self.capacity}, but {len(instances)} instances exist")
        return found


def _no_command(command: Any) -> Result:
    raise AssertionError(f"the daemon called {command}")
