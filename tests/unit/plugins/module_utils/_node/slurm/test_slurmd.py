# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeping a node's slurmd on its configuration, without disturbing jobs."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import conf_changes, slurmctld, slurmd

from .played import Machine, keep_time

CONF = "SchedulerParameters=a\nTaskPlugin=task/affinity\nNodeName=compute-[0,3] CPUs=2\n"
PARTITION = "PartitionName=gpu Nodes=ALL\n"
RESTART = "systemctl restart slurmd"
ENV = "/etc/hpcai/slurmd.env"


class Cluster:
    """A node and its controller."""

    def __init__(self, node: Machine, folder: pathlib.Path) -> None:
        self.node = node
        self.controller = Machine(folder)
        node.on_start = self.fetch
        self.controller_has(slurm=CONF)

    def controller_has(self, **files: str) -> None:
        """Write the controller's files; names without ``.conf``."""
        for name, text in files.items():
            self.controller.write(f"/etc/slurm/{name}.conf", text)

    def fetch(self) -> None:
        """Fetch the files, as slurmd does when it starts and when it is reconfigured."""
        for name in conf_changes.file_digests(self.controller.root, "/etc/slurm"):
            text = self.controller.root.text(f"/etc/slurm/{name}")
            self.node.write(f"{slurmd.HELD}/{name}", f"{text}\n")

    def controller_data(self) -> dict[str, Any]:
        """The data that the controller gives to the nodes."""
        facts = slurmctld.read_facts(self.controller.root, self.controller.run)
        return slurmctld.for_slurmd(facts, conf_changes.file_digests(self.controller.root, slurmctld.FOLDER))

    def converge(self, controller: dict[str, Any] | None = None) -> tuple[slurmd.Plan, dict[str, Any]]:
        """One run of the module, some time later."""
        node = self.node
        node.now += 1000
        del node.done[:]
        facts = slurmd.read_facts(
            [ENV], self.controller_data() if controller is None else controller, node.root, node.run
        )
        made = slurmd.plan(facts)
        slurmd.apply(made, facts, 1, node.root, node.run)
        return made, slurmd.describe(made, facts, node.root, node.run)


@pytest.fixture
def cluster(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A node whose slurmd was never started."""
    node = Machine(tmp_path / "node")
    keep_time(node, monkeypatch)
    node.write(ENV, 'SLURMD_OPTIONS="-N compute-3 --conf-server 10.0.0.4"\n')
    return Cluster(node, tmp_path / "controller")


@pytest.fixture
def running(cluster: Cluster) -> Cluster:
    """A node that was converged."""
    cluster.converge()
    return cluster


def test_slurmd_is_started_and_then_left_alone(cluster: Cluster) -> None:
    assert cluster.converge()[0].verbs == ("enable", "restart")
    made, described = cluster.converge()
    assert (made.verbs, cluster.node.done) == ((), [])
    assert described["held"].keys() == {"slurm.conf"}
    assert described["hardware"]["RealMemory"] == 24043
    assert (described["missing_files"], described["waits"]) == ([], [])


def test_a_new_partition_does_not_restart_slurmd(running: Cluster) -> None:
    running.controller_has(slurm=f"{CONF}{PARTITION}")
    assert running.converge()[0].verbs == ()


@pytest.mark.parametrize(
    ("before", "after", "key"), [("task/affinity", "task/none", "TaskPlugin"), ("=a", "=b", "SchedulerParameters")]
)
def test_a_changed_key_restarts_an_old_slurmd_once(running: Cluster, before: str, after: str, key: str) -> None:
    running.controller_has(slurm=CONF.replace(before, after))
    made, described = running.converge()
    assert made.verbs == ("restart",)
    assert made.reasons[0].startswith(f"slurm.conf {key} changed (")
    assert described["held"] == conf_changes.file_digests(running.node.root, slurmd.HELD)
    assert running.converge()[0].verbs == ()


def test_a_plugin_that_came_with_a_reconfigure_still_restarts_slurmd(running: Cluster) -> None:
    """The files are already correct, but the process still uses the old plugin."""
    running.controller_has(slurm=CONF.replace("task/affinity", "task/none"))
    running.node.now += 1000
    running.fetch()
    assert running.converge()[0].verbs == ("restart",)


def test_another_name_or_controller_restarts_slurmd(running: Cluster) -> None:
    running.node.write(ENV, 'SLURMD_OPTIONS="-N compute-3 --conf-server 10.0.0.9"\n')
    made, _described = running.converge()
    assert made.verbs == ("restart",)
    assert ENV in made.reasons[0]


def test_a_node_that_joined_automatically_is_not_restarted(cluster: Cluster) -> None:
    cluster.node.enabled = True
    cluster.node.start()
    assert cluster.converge()[0].verbs == ()
    assert cluster.converge()[0].verbs == ()


def test_a_node_that_was_reconfigured_before_the_first_run_is_restarted(cluster: Cluster) -> None:
    cluster.node.enabled = True
    cluster.node.start()
    cluster.node.now += 1000
    cluster.fetch()
    made, _described = cluster.converge()
    assert made.verbs == ("restart",)
    assert "there is no record of the configuration that it started with" in made.reasons[0]
    assert cluster.converge()[0].verbs == ()


def test_with_a_recorded_start_a_reconfigured_node_is_not_restarted(cluster: Cluster) -> None:
    cluster.node.enabled = True
    cluster.node.start()
    assert slurmd.record_start(cluster.node.root, cluster.node.run)
    cluster.node.now += 1000
    cluster.controller_has(slurm=f"{CONF}{PARTITION}")
    cluster.fetch()
    assert cluster.converge()[0].verbs == ()


def test_a_start_is_not_recorded_before_the_configuration_is_fetched(cluster: Cluster) -> None:
    cluster.node.on_start = lambda: None
    cluster.node.start()
    assert not slurmd.record_start(cluster.node.root, cluster.node.run)
    assert not cluster.node.root.exists("/run/hpcai/slurmd.taken.json")


def test_no_start_is_recorded_if_slurmd_does_not_run(cluster: Cluster) -> None:
    assert not slurmd.record_start(cluster.node.root, cluster.node.run)


def test_the_lines_of_other_nodes_do_not_restart_slurmd(running: Cluster) -> None:
    running.controller_has(slurm=CONF.replace("[0,3] CPUs=2", "3 CPUs=2\nNodeName=compute-0 CPUs=4"))
    assert running.converge()[0].verbs == ()
    running.controller_has(slurm=CONF.replace("CPUs=2", "CPUs=4"))
    assert running.converge()[0].verbs == ("restart",)


GRES = "NodeName=compute-[0,3] Name=gpu File=/dev/nvidia[0-1]\n"


@pytest.mark.parametrize(
    ("gres", "restarts"),
    [
        ("NodeName=compute-[0,3,4-35] Name=gpu File=/dev/nvidia[0-1]\n", False),
        (GRES + "NodeName=compute-4 Name=gpu File=/dev/nvidia[0-3]\n", False),
        (GRES.replace("[0,3]", "0"), True),
        (GRES + "NodeName=compute-3 Name=shard Count=8\n", True),
        (GRES + "Name=shard Count=8\n", True),
        (GRES + "NodeName=c[o]mpute-[1-2][0-4] Name=shard Count=8\n", True),
        (GRES.replace("[0-1]", "[0-2]"), True),
    ],
)
def test_only_the_nodes_own_lines_of_gres_conf_restart_slurmd(cluster: Cluster, gres: str, restarts: bool) -> None:
    cluster.controller_has(gres=GRES)
    cluster.converge()
    cluster.controller_has(gres=gres)
    made, _described = cluster.converge()
    assert made.verbs == (("restart",) if restarts else ())
    assert cluster.converge()[0].verbs == ()


def test_a_changed_job_container_conf_waits_for_jobs_to_end(running: Cluster) -> None:
    running.node.write("/proc/77/stat", "77 (slurmstepd) S 1 " + " ".join(["0"] * 48))
    running.node.write("/proc/77/status", "Uid:\t0\t0\n")
    running.controller_has(job_container="BasePath=/scratch/tmp\n", slurm=CONF.replace("affinity", "none"))
    made, described = running.converge()
    assert (made.verbs, running.node.done) == ((), [])
    assert described["waits"] == ["job_container.conf changed and needs a node without jobs"]
    (running.node.folder / "proc/77/stat").unlink()
    made, described = running.converge()
    assert (made.verbs, described["waits"]) == (("restart",), [])


def test_without_the_controller_the_fetched_files_are_compared(running: Cluster) -> None:
    running.controller_has(slurm=CONF.replace("task/affinity", "task/none"))
    assert running.converge(controller={})[0].verbs == ()
    running.fetch()
    assert running.converge(controller={})[0].verbs == ("restart",)


def test_a_slurmd_that_does_not_stay_up_is_an_error(cluster: Cluster) -> None:
    cluster.node.on_start = lambda: setattr(cluster.node, "active", "failed")
    with pytest.raises(CommandFailed, match="slurmd is failed"):
        cluster.converge()
