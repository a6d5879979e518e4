# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""replace.yml on the real simulated cluster: a node that fell ill is moved, and moved again; then it is deleted.

The physical host is played: a unit of the node's own moves it in at each boot, with sound hardware. Which nodes are
meant, confirmed and refused is tested in tests/contract/inventory.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from simulated.cluster import RESOURCE_GROUP, SCALE_SET, Cluster, Recap
from simulated.node import Node, wait_for

# A node on a bad host is moved and marked on the simulator daily, in tests/contract/inventory.
NUMBER, NAME = "3", "compute-3"
BAD, GOOD = "GGBB1", "GGBB2"
DECIDED_S = 120
"""The arbiter looks every ten seconds; a node tells when systemd has seen its results."""
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


class Story:
    """The runs of the playbooks, with one folder of reports.

    :ivar vm_id: the machine, before anything was done to it.
    """

    def __init__(self, cluster: Cluster, controller: str, inventory: Path, report: Path) -> None:
        self.cluster, self.inventory, self.report = cluster, inventory, report
        self.node = Node.of(cluster, controller, NUMBER)
        self.vm_id = self.machine()

    def run(self, playbook: str, *words: str) -> Recap:
        """Run a playbook of ours."""
        told = ["-e", f"hpcai_health_report={self.report}", "-e", "hpcai_replace_boot=180", *words]
        return self.cluster.playbook(f"playbooks/{playbook}.yml", self.inventory, *told)

    def machine(self) -> str:
        """Which machine the instance is."""
        instances = self.cluster.sdk().virtual_machine_scale_set_vms
        return str(instances.get(RESOURCE_GROUP, SCALE_SET, NUMBER).vm_id)

    def next_host(self, name: str) -> None:
        """The host that the next boot is on."""
        self.node.sh(f"echo {name} > /root/next-host")

    def fall_ill(self) -> None:
        """The node's size is expected to have two ports that are not there: a fault that another machine would mend."""
        settings = dict(json.loads(self.node.sh("cat /etc/hpcai/node.json")))
        for size in settings["vm_sizes"].values():
            size["hca_count"] = 2
        self.node.sh(f"printf %s {shlex.quote(json.dumps(settings))} > /etc/hpcai/node.json")
        self.node.sh("/usr/libexec/hpcai/health", check=False)

    def let_the_arbiter_mark(self) -> None:
        """It marks nothing unless it is told to."""
        file = "/etc/hpcai/health_arbiter.json"
        settings = json.loads(self.cluster.ssh(self.node.controller, f"sudo cat {file}"))
        text = shlex.quote(json.dumps({**settings, "escalate": True}))
        self.cluster.ssh(self.node.controller, f"printf %s {text} | sudo tee {file} > /dev/null")
        self.cluster.ssh(self.node.controller, "sudo systemctl restart hpcai-health-arbiter")

    def arbiter(self) -> dict[str, Any]:
        """What the arbiter says."""
        told = self.cluster.ssh(self.node.controller, "sudo hpcnode arbiter status --json", check=False)
        return dict(json.loads(told))

    def reason(self) -> str:
        """Why the node is out."""
        words = f"sinfo --noheader --format=%E --nodes={NAME}"
        return self.cluster.ssh(self.node.controller, words).strip()

    def hosts(self) -> dict[str, Any]:
        """The record of bad hosts."""
        return dict(json.loads((self.report / "hosts.json").read_text(encoding="utf-8"))["hosts"])


@pytest.fixture(scope="module")
def story(cluster: Cluster, controller: str, inventory: Path, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """The node on a bad host; whatever host it is on at its next boot, it is sound there.

    What is left behind, another machine and an arbiter that marks nodes, the next run of site.yml takes for its own.
    """
    told = Story(cluster, controller, inventory, tmp_path_factory.mktemp("replace") / "report")
    for path, text in (("/root/move-in", MOVE_IN), ("/etc/systemd/system/move-in.service", UNIT)):
        told.node.sh(f"printf %s {shlex.quote(text)} > {path}")
    told.node.sh("cp /etc/hpcai/node.json /root/node.json; chmod 0755 /root/move-in; systemctl enable move-in")
    told.next_host(BAD)
    told.node.sh("/root/move-in")
    told.next_host(GOOD)
    told.let_the_arbiter_mark()
    return told


@pytest.fixture(scope="module")
def ill(story: Story) -> Recap:
    """A look at all nodes after one fell ill, as soon as the arbiter has marked it."""
    story.fall_ill()
    looked = story.run("health_check")
    wait_for(lambda: bool(story.arbiter().get("replace")), DECIDED_S, lambda: (story.reason(), story.arbiter()))
    return looked


@pytest.fixture(scope="module")
def moved(story: Story, ill: Recap) -> Recap:
    """The node, which nobody named, on another host."""
    story.node.sh(f"touch {SYSTEM_DISK} {LOCAL_DISK}")
    return story.run("replace", "-e", "hpcai_replace_confirm=true")


@pytest.fixture(scope="module")
def moved_back(story: Story, moved: Recap) -> Recap:
    """The node, which is well, on the bad host again."""
    wait_for(story.node.runs_a_job, DECIDED_S, lambda: (story.reason(), story.arbiter()))
    story.next_host(BAD)
    return story.run("replace", "-e", f"hpcai_replace={NAME}", "-e", "hpcai_replace_confirm=true")


@pytest.fixture(scope="module")
def job(story: Story, moved_back: Recap) -> str:
    """A job that is in the way of the deletion: its number."""
    submit = f"sbatch --parsable --nodelist={NAME} --time=5 --output=/dev/null --wrap 'sleep 20'"
    number = story.cluster.ssh(story.node.controller, submit).strip()
    wait_for(lambda: job_state(story, number) == "RUNNING", 60, lambda: job_state(story, number))
    return number


@pytest.fixture(scope="module")
def deleted(story: Story, job: str) -> Recap:
    """The node's instance deleted, and another one in its place."""
    named = ("-e", f"hpcai_replace={NAME}", "-e", "hpcai_replace_how=delete", "-e", "hpcai_replace_confirm=true")
    return story.run("replace", *named)


def job_state(story: Story, number: str) -> str:
    """What slurmctld has of a job."""
    shown = story.cluster.ssh(story.node.controller, f"scontrol --oneliner show job {number}")
    return dict(word.split("=", 1) for word in shown.split() if "=" in word)["JobState"]


def said(run: Recap) -> str:
    """What it printed, on one line."""
    return " ".join(run.output.split())


def test_bad_host_is_recorded_and_the_node_marked(story: Story, ill: Recap) -> None:
    assert ill.rc != 0
    assert list(story.hosts()) == [BAD]
    assert "ib_ports" in [fault["check"] for fault in story.hosts()[BAD]]
    (marked,) = story.arbiter()["replace"]
    assert (marked["node"], marked["vm_id"].lower(), marked["host"]) == (NAME, story.vm_id.lower(), BAD)
    assert story.reason().startswith("hpcai: health: replace: ib_ports: 0 of 2")


def test_marked_node_is_moved_and_is_the_same_machine_without_its_scratch(story: Story, moved: Recap) -> None:
    assert moved.rc == 0, moved.output
    assert "To be replaced: compute-3." in said(moved)
    assert story.machine() == story.vm_id
    kept = story.node.sh(f"ls -U {SYSTEM_DISK} {LOCAL_DISK} 2>/dev/null", check=False).split()
    assert kept == [SYSTEM_DISK]
    assert "the physical host" not in said(moved)


def test_arbiter_returns_it_when_it_reports_from_its_new_host(story: Story, moved: Recap) -> None:
    wait_for(story.node.runs_a_job, DECIDED_S, lambda: (story.reason(), story.arbiter()))
    assert story.arbiter()["replace"] == []


def test_bad_host_that_came_back_is_named_and_the_node_works(story: Story, moved_back: Recap) -> None:
    assert moved_back.rc == 0, moved_back.output
    assert f"{NAME} is still on the physical host {BAD}, which had a hardware fault" in said(moved_back)
    assert f"Moved and resumed: {NAME}." in said(moved_back)
    wait_for(story.node.runs_a_job, 60, story.reason)


def test_deleted_node_had_ended_its_job_and_another_machine_comes(
    story: Story, cluster: Cluster, controller: str, job: str, deleted: Recap
) -> None:
    assert deleted.rc == 0, deleted.output
    assert job_state(story, job) == "COMPLETED"
    numbers = cluster.instance_ids()
    assert len(numbers) == 2
    assert NUMBER not in numbers
    assert NAME not in cluster.nodes(controller)
    assert cluster.nodes(controller)["compute-0"] == "idle"
    (new,) = set(numbers) - {"0"}
    # Its key is brought by site.yml here, see test_joining_push.py; in a cluster with a key vault it joins by itself.
    run = cluster.slurm(story.inventory)
    assert run.rc == 0, run.output
    wait_for(Node.of(cluster, controller, new).runs_a_job, 60, lambda: cluster.nodes(controller))
