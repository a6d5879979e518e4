# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""roll.yml on its own simulated cluster: each node gets a new system without losing a job, and a bad image stops it.

All versions of the simulated gallery have the same content, the baked node image. tests/contract/images tests which
nodes are next, and the faults of Azure.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simulated.cluster import OWN_SETTINGS, RESOURCE_GROUP, SCALE_SET, Cluster, Recap
from simulated.gallery import VERSIONS, add_gallery
from simulated.node import Node, admin, wait_for
from simulated.own_cluster import simulated

# Not in `make test`: there, tests/contract/images rolls images through a simulated scale set without machines.
NAME, PORT, NETWORK = "roll", 8492, "10.72.0.0/24"
CONTROLLER = "10.72.0.4"
NODES = {"compute-0": "idle", "compute-3": "idle"}
FIRST, SECOND, THIRD = VERSIONS
OLD_SYSTEM = "/var/tmp/old-system"
BOOT_S = 120


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A controller and two compute nodes, which get the cluster's key from a key vault, and a gallery."""
    with simulated(NAME, PORT, NETWORK, "site") as made:
        made = dataclasses.replace(made, key_source="key_vault")
        add_gallery(made)
        yield made


@pytest.fixture(scope="module")
def inventory(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inventory of this cluster."""
    return cluster.write_inventory(tmp_path_factory.mktemp("roll"))


@pytest.fixture(scope="module")
def converged(cluster: Cluster, inventory: Path) -> Recap:
    """The first run of site.yml. Afterwards each node has a file on its system disk."""
    run = cluster.site(inventory)
    assert run.rc == 0, run.output
    for number in ("0", "3"):
        Node.of(cluster, CONTROLLER, number).sh(f"touch {OLD_SYSTEM}")
    return run


def roll(cluster: Cluster, inventory: Path, image: str, *arguments: str) -> Recap:
    """Run roll.yml."""
    given = {"image": image, "hpcai_roll_boot": BOOT_S, "hpcai_health_report": str(inventory.parent / "report")}
    return cluster.playbook("playbooks/roll.yml", inventory, "-e", json.dumps(given), *arguments)


def images(cluster: Cluster) -> dict[str, str]:
    """The image of each instance, by the node's name."""
    found: dict[str, str] = {}
    for item in cluster.sdk().virtual_machine_scale_set_vms.list(RESOURCE_GROUP, SCALE_SET):
        reference: Any = item.storage_profile and item.storage_profile.image_reference
        found[f"{SCALE_SET}-{item.instance_id}"] = str(reference.id or reference.version)
    return found


def output_of(run: Recap) -> str:
    """The output of a run, on one line."""
    return " ".join(run.output.split())


def job_state(cluster: Cluster, number: str) -> str:
    """The state of a job."""
    shown = cluster.ssh(CONTROLLER, f"scontrol --oneliner show job {number}")
    return dict(word.split("=", 1) for word in shown.split() if "=" in word)["JobState"]


@pytest.fixture(scope="module")
def job(cluster: Cluster, converged: Recap) -> str:
    """The number of a job that runs on the first node while the run begins."""
    words = "sbatch --parsable --nodelist=compute-0 --time=5 --output=/dev/null --wrap 'sleep 45'"
    number = cluster.ssh(CONTROLLER, words).strip()
    wait_for(lambda: job_state(cluster, number) == "RUNNING", 60, lambda: job_state(cluster, number))
    return number


@pytest.fixture(scope="module")
def foreseen(cluster: Cluster, inventory: Path, job: str) -> Recap:
    """A run in check mode."""
    return roll(cluster, inventory, FIRST, "--check")


@pytest.fixture(scope="module")
def rolled(cluster: Cluster, inventory: Path, foreseen: Recap) -> Recap:
    """A run that gives both nodes the first version."""
    return roll(cluster, inventory, FIRST)


def test_check_mode_lists_the_nodes_and_changes_nothing(cluster: Cluster, foreseen: Recap) -> None:
    assert foreseen.rc == 0, foreseen.output
    # The node without a job comes first.
    assert "Would get the image: compute-3, compute-0." in output_of(foreseen)
    assert FIRST not in images(cluster).values()


def test_each_node_gets_a_new_system_and_no_job_is_lost(cluster: Cluster, job: str, rolled: Recap) -> None:
    assert rolled.rc == 0, rolled.output
    assert images(cluster) == dict.fromkeys(NODES, FIRST)
    assert job_state(cluster, job) == "COMPLETED"
    cluster.wait_for_nodes(CONTROLLER, NODES)
    assert cluster.reasons(CONTROLLER) == []
    for number in ("0", "3"):
        node = Node.of(cluster, CONTROLLER, number)
        assert node.sh(f"ls {OLD_SYSTEM} 2>/dev/null", check=False) == ""
        assert node.runs_a_job()


def test_the_first_node_passes_its_checks_before_the_second_is_drained(rolled: Recap) -> None:
    text = rolled.output
    canary = text.index("PLAY [Check the first nodes]")
    assert canary < text.index("PLAY [Reimage the other nodes]")
    assert "ok: [compute000003]" in text[canary : text.index("PLAY [Reimage the other nodes]")]


def test_a_second_run_changes_nothing(cluster: Cluster, inventory: Path, rolled: Recap) -> None:
    again = roll(cluster, inventory, "1.0.0")

    assert (again.rc, again.changed) == (0, 0), again.output


def test_ansible_reaches_the_reimaged_nodes(cluster: Cluster, inventory: Path, rolled: Recap) -> None:
    """Their host keys are new, and known."""
    run = cluster.site(inventory)

    assert run.rc == 0, run.output
    assert run.hosts["ctl"]["changed"] == 0
    assert all(run.changed_tasks(host) <= OWN_SETTINGS for host in ("compute000000", "compute000003")), run.output
    again = cluster.site(inventory)
    assert (again.rc, again.changed) == (0, 0), again.output


@pytest.fixture(scope="module")
def stopped(cluster: Cluster, inventory: Path, rolled: Recap) -> Iterator[Recap]:
    """A run with an image with which nodes do not come back: the reimaged node gets no key."""
    admin(cluster, "post", "faults", {"service": "vault", "match": ".*", "action": "status", "status": 403})
    yield roll(cluster, inventory, SECOND, "-e", "hpcai_roll_at_most=2")
    admin(cluster, "delete", "faults")


def test_a_node_that_does_not_come_back_stops_the_run(cluster: Cluster, stopped: Recap) -> None:
    assert stopped.rc != 0
    output = output_of(stopped)
    assert "Stopped: compute-0 has the image, but its slurmd did not answer" in output
    assert "'systemctl start slurmd' runs the failed steps again" in output
    assert f"To go back, run it -e image={FIRST}." in output
    assert images(cluster) == {"compute-0": SECOND, "compute-3": FIRST}
    assert cluster.nodes(CONTROLLER)["compute-3"] == "idle"
    (reason,) = cluster.reasons(CONTROLLER)
    assert reason.startswith("hpcai: roll: new image node/1.1.0, reimaged")


def test_the_same_command_continues(cluster: Cluster, inventory: Path, stopped: Recap) -> None:
    admin(cluster, "delete", "faults")
    # As the message says: a failed step of the boot does not run again alone.
    Node.of(cluster, CONTROLLER, "0").sh("systemctl start slurmd")

    run = roll(cluster, inventory, SECOND)

    assert run.rc == 0, run.output
    assert images(cluster) == dict.fromkeys(NODES, SECOND)
    cluster.wait_for_nodes(CONTROLLER, NODES)


def test_a_node_that_a_person_drained_is_left_alone(cluster: Cluster, inventory: Path, stopped: Recap) -> None:
    drain = "sudo scontrol update nodename=compute-3 state=drain reason='bad fan, ticket 4711'"
    cluster.ssh(CONTROLLER, drain)

    run = roll(cluster, inventory, THIRD)

    assert run.rc == 0, run.output
    assert "Left out, with another image: compute-3" in output_of(run)
    assert images(cluster) == {"compute-0": THIRD, "compute-3": SECOND}
    assert cluster.reasons(CONTROLLER) == ["bad fan, ticket 4711"]
    cluster.ssh(CONTROLLER, "sudo scontrol update nodename=compute-3 state=resume")


def test_the_same_command_goes_back(cluster: Cluster, inventory: Path, stopped: Recap) -> None:
    run = roll(cluster, inventory, "1.1.0", "-e", "hpcai_roll_at_most=2")

    assert run.rc == 0, run.output
    assert images(cluster) == dict.fromkeys(NODES, SECOND)
    cluster.wait_for_nodes(CONTROLLER, NODES)
