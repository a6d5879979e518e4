# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""replace.yml on the simulated cluster: a faulty node is moved to another physical host, moved again, and then deleted.

The physical host is simulated: at each boot, a unit of the node writes the host's name and settings of intact hardware.
tests/contract/inventory tests which nodes are selected, confirmed and refused.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from simulated.cluster import RESOURCE_GROUP, SCALE_SET, Cluster, Recap
from simulated.node import Node, wait_for

# Not in `make test`: there, tests/contract/inventory moves and marks a node on the simulator.
NUMBER, NAME = "3", "compute-3"
BAD, GOOD = "GGBB1", "GGBB2"
DECIDED_S = 120
"""Seconds until the arbiter has decided. It runs every ten seconds, and a node reports as soon as systemd notices new
results."""
SYSTEM_DISK, LOCAL_DISK = "/var/tmp/kept-by-the-system-disk", "/scratch/kept-by-the-local-disk"
MOVE_IN = """\
#!/usr/bin/python3
import os, shutil
os.makedirs("/var/lib/hyperv", exist_ok=True)
host = open("/root/next-host", "rb").read().strip()
with open("/var/lib/hyperv/.kvp_pool_3", "wb") as pool:
    pool.write(b"PhysicalHostName".ljust(512, b"\\0") + host.ljust(2048, b"\\0"))
shutil.copy("/root/node.json", "/etc/hpcai/node.json")
"""
UNIT = """\
[Unit]
After=local-fs.target
Before=basic.target
DefaultDependencies=no
[Service]
Type=oneshot
ExecStart=/root/move-in
[Install]
WantedBy=basic.target
"""


class Target:
    """The node, and playbook runs that share one folder of reports.

    :ivar vm_id: the node's machine before the first run.
    """

    def __init__(self, cluster: Cluster, controller: str, inventory: Path, report: Path) -> None:
        self.cluster, self.inventory, self.report = cluster, inventory, report
        self.node = Node.of(cluster, controller, NUMBER)
        self.vm_id = self.machine()

    def run(self, playbook: str, *words: str) -> Recap:
        """Run a playbook of the collection."""
        arguments = ["-e", f"hpcai_health_report={self.report}", "-e", "hpcai_replace_boot=180", *words]
        return self.cluster.playbook(f"playbooks/{playbook}.yml", self.inventory, *arguments)

    def machine(self) -> str:
        """The vmId of the instance."""
        instances = self.cluster.sdk().virtual_machine_scale_set_vms
        return str(instances.get(RESOURCE_GROUP, SCALE_SET, NUMBER).vm_id)

    def next_host(self, name: str) -> None:
        """Set the physical host of the next boot."""
        self.node.sh(f"echo {name} > /root/next-host")

    def break_node(self) -> None:
        """Describe two InfiniBand ports that the node lacks: a fault that another machine would repair."""
        settings = dict(json.loads(self.node.sh("cat /etc/hpcai/node.json")))
        for size in settings["vm_sizes"].values():
            size["hca_count"] = 2
        self.node.sh(f"printf %s {shlex.quote(json.dumps(settings))} > /etc/hpcai/node.json")
        self.node.sh("/usr/libexec/hpcai/health", check=False)

    def let_the_arbiter_mark(self) -> None:
        """Let the arbiter mark nodes for replacement, which is off by default."""
        file = "/etc/hpcai/health_arbiter.json"
        settings = json.loads(self.cluster.ssh(self.node.controller, f"sudo cat {file}"))
        text = shlex.quote(json.dumps({**settings, "escalate": True}))
        self.cluster.ssh(self.node.controller, f"printf %s {text} | sudo tee {file} > /dev/null")
        self.cluster.ssh(self.node.controller, "sudo systemctl restart hpcai-health-arbiter")

    def arbiter(self) -> dict[str, Any]:
        """The arbiter's status."""
        status = self.cluster.ssh(self.node.controller, "sudo hpcnode arbiter status --json", check=False)
        return dict(json.loads(status))

    def reason(self) -> str:
        """The node's drain reason."""
        words = f"sinfo --noheader --format=%E --nodes={NAME}"
        return self.cluster.ssh(self.node.controller, words).strip()

    def hosts(self) -> dict[str, Any]:
        """The record of bad hosts."""
        return dict(json.loads((self.report / "hosts.json").read_text(encoding="utf-8"))["hosts"])


@pytest.fixture(scope="module")
def target(cluster: Cluster, controller: str, inventory: Path, tmp_path_factory: pytest.TempPathFactory) -> Target:
    """The node on a bad host. After its next boot, its hardware is intact again on any host.

    A new machine and an arbiter that marks nodes remain afterwards; the next run of site.yml configures both.
    """
    made = Target(cluster, controller, inventory, tmp_path_factory.mktemp("replace") / "report")
    for path, text in (("/root/move-in", MOVE_IN), ("/etc/systemd/system/move-in.service", UNIT)):
        made.node.sh(f"printf %s {shlex.quote(text)} > {path}")
    made.node.sh("cp /etc/hpcai/node.json /root/node.json; chmod 0755 /root/move-in; systemctl enable move-in")
    made.next_host(BAD)
    made.node.sh("/root/move-in")
    made.next_host(GOOD)
    made.let_the_arbiter_mark()
    return made


@pytest.fixture(scope="module")
def faulty(target: Target) -> Recap:
    """A run of health_check.yml after the node became faulty; afterwards the arbiter has marked the node."""
    target.break_node()
    checked = target.run("health_check")
    wait_for(lambda: bool(target.arbiter().get("replace")), DECIDED_S, lambda: (target.reason(), target.arbiter()))
    return checked


@pytest.fixture(scope="module")
def moved(target: Target, faulty: Recap) -> Recap:
    """A run of replace.yml without node names, which moves the marked node to another host."""
    target.node.sh(f"touch {SYSTEM_DISK} {LOCAL_DISK}")
    return target.run("replace", "-e", "hpcai_replace_confirm=true")


@pytest.fixture(scope="module")
def moved_back(target: Target, moved: Recap) -> Recap:
    """A run of replace.yml that moves the healthy node back to the bad host."""
    wait_for(target.node.runs_a_job, DECIDED_S, lambda: (target.reason(), target.arbiter()))
    target.next_host(BAD)
    return target.run("replace", "-e", f"hpcai_replace={NAME}", "-e", "hpcai_replace_confirm=true")


@pytest.fixture(scope="module")
def job(target: Target, moved_back: Recap) -> str:
    """The number of a job that runs on the node, so that the deletion must wait."""
    submit = f"sbatch --parsable --nodelist={NAME} --time=5 --output=/dev/null --wrap 'sleep 20'"
    number = target.cluster.ssh(target.node.controller, submit).strip()
    wait_for(lambda: job_state(target, number) == "RUNNING", 60, lambda: job_state(target, number))
    return number


@pytest.fixture(scope="module")
def deleted(target: Target, job: str) -> Recap:
    """A run of replace.yml that deletes the node's instance and creates another one."""
    named = ("-e", f"hpcai_replace={NAME}", "-e", "hpcai_replace_how=delete", "-e", "hpcai_replace_confirm=true")
    return target.run("replace", *named)


def job_state(target: Target, number: str) -> str:
    """The state of a job."""
    shown = target.cluster.ssh(target.node.controller, f"scontrol --oneliner show job {number}")
    return dict(word.split("=", 1) for word in shown.split() if "=" in word)["JobState"]


def output_of(run: Recap) -> str:
    """The output of a run, on one line."""
    return " ".join(run.output.split())


def test_a_bad_host_is_recorded_and_its_node_marked(target: Target, faulty: Recap) -> None:
    assert faulty.rc != 0
    assert list(target.hosts()) == [BAD]
    assert "ib_ports" in [fault["check"] for fault in target.hosts()[BAD]]
    (marked,) = target.arbiter()["replace"]
    assert (marked["node"], marked["vm_id"].lower(), marked["host"]) == (NAME, target.vm_id.lower(), BAD)
    assert target.reason().startswith("hpcai: health: replace: ib_ports: 0 of 2")


def test_a_marked_node_is_moved_and_loses_only_its_scratch(target: Target, moved: Recap) -> None:
    assert moved.rc == 0, moved.output
    assert "To be replaced: compute-3." in output_of(moved)
    assert target.machine() == target.vm_id
    kept = target.node.sh(f"ls -U {SYSTEM_DISK} {LOCAL_DISK} 2>/dev/null", check=False).split()
    assert kept == [SYSTEM_DISK]
    assert "the physical host" not in output_of(moved)


def test_the_arbiter_resumes_the_node_when_it_reports_from_its_new_host(target: Target, moved: Recap) -> None:
    wait_for(target.node.runs_a_job, DECIDED_S, lambda: (target.reason(), target.arbiter()))
    assert target.arbiter()["replace"] == []


def test_a_move_to_a_known_bad_host_is_reported_and_the_node_resumed(target: Target, moved_back: Recap) -> None:
    assert moved_back.rc == 0, moved_back.output
    assert f"{NAME} is still on the physical host {BAD}, which had a hardware fault" in output_of(moved_back)
    assert f"Moved and resumed: {NAME}." in output_of(moved_back)
    wait_for(target.node.runs_a_job, 60, target.reason)


def test_a_node_is_deleted_after_its_job_and_another_one_joins(
    target: Target, cluster: Cluster, controller: str, job: str, deleted: Recap
) -> None:
    assert deleted.rc == 0, deleted.output
    assert job_state(target, job) == "COMPLETED"
    numbers = cluster.instance_ids()
    assert len(numbers) == 2
    assert NUMBER not in numbers
    assert NAME not in cluster.nodes(controller)
    assert cluster.nodes(controller)["compute-0"] == "idle"
    (new,) = set(numbers) - {"0"}
    # Here site.yml distributes the key, see test_joining_push.py; in a cluster with a key vault, a node joins
    # automatically.
    run = cluster.slurm(target.inventory)
    assert run.rc == 0, run.output
    wait_for(Node.of(cluster, controller, new).runs_a_job, 60, lambda: cluster.nodes(controller))
