# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two elastic sets with a real slurmctld: fallback in order, spot or regular, one fabric, lost machines, a dead daemon,
and the playbooks roll.yml and replace.yml.

Instances are counted at the simulated Resource Manager.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from simulated.cluster import RESOURCE_GROUP, Recap
from simulated.gallery import VERSIONS, add_gallery
from simulated.node import admin

from .elastic_cluster import (
    JOIN_S,
    SUSPEND_S,
    ElasticCluster,
    elastic_cluster,
    elastic_machines,
    is_empty,
    members,
    runs,
    settle,
    state_of,
    submit,
    wait_for,
    write_source,
)

NAME, PORT, NETWORK, CONTROLLER = "sets", 8518, "10.57.0.0/24", "10.57.0.4"
IDLE_S, BOOT_S = 30, 120
AGAIN_S = 130
"""slurmctld puts the start of a requeued job off by 121 s."""
REGULAR, SPOT = "gpu", "gpu-spot"


@pytest.fixture(scope="module")
def cluster() -> Iterator[ElasticCluster]:
    """A controller, a static node, two elastic sets without instances, and a gallery."""
    with elastic_cluster(NAME, PORT, NETWORK, CONTROLLER) as made:
        add_gallery(made)
        yield made


@pytest.fixture(scope="module")
def source(cluster: ElasticCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inventory. Jobs of the regular set fall back to the spot set first, and then to the static node."""
    times = {"idle_s": IDLE_S, "boot_s": BOOT_S}
    return write_source(cluster, tmp_path_factory.mktemp(NAME), spot=times, **times, fallback=[SPOT, "compute"])


@pytest.fixture(scope="module", autouse=True)
def converged(cluster: ElasticCluster, source: Path) -> None:
    """The first run of site.yml."""
    run = cluster.site(source, "-e", f"@{source.parent / 'elastic.json'}")
    assert run.rc == 0, run.output


@pytest.fixture(autouse=True)
def settled(cluster: ElasticCluster, converged: None) -> Iterator[None]:
    """After each test, nothing fails any more, and no instance is left."""
    yield
    settle(cluster, REGULAR, SPOT, "compute")
    cluster.run("sudo scontrol update NodeName=gpu-[0-3],gpu-spot-[0-3] State=UNDRAIN", check=False)
    for name in (REGULAR, SPOT):
        wait_for(partial(is_empty, cluster, name), JOIN_S + IDLE_S + 2 * SUSPEND_S, cluster)


def refuse(cluster: ElasticCluster, name: str) -> None:
    """Let Azure have no capacity for a set."""
    rule = {"match": f"PATCH .*virtualmachinescalesets/{name}[?]", "action": "status", "status": 409}
    admin(cluster, "post", "faults", {**rule, "code": "AllocationFailed", "message": "none"})


def nodes_of(cluster: ElasticCluster, job: str) -> str:
    """The nodes of a job."""
    return cluster.run(f"squeue --noheader --states=all --jobs={job} --format=%N").strip()


def starts(cluster: ElasticCluster, job: str, seconds: float = JOIN_S) -> None:
    """Wait until a job runs."""
    wait_for(partial(runs, cluster, job), seconds, cluster)


# Fallback


def test_a_refused_job_runs_in_the_first_fallback_set_that_has_capacity(cluster: ElasticCluster) -> None:
    # Slurm uses a running node before it orders one, so the static node is busy.
    other = submit(cluster, 600, "--exclusive", "--partition=compute")
    starts(cluster, other, 30)
    refuse(cluster, REGULAR)
    job = submit(cluster, 20)
    starts(cluster, job, 2 * JOIN_S)
    assert nodes_of(cluster, job).startswith(f"{SPOT}-")
    assert (len(members(cluster, SPOT)), members(cluster)) == (1, [])
    assert "AllocationFailed" in cluster.run(f"sinfo --noheader --partition={REGULAR} --list-reasons --format=%E")


def test_a_job_that_both_sets_refuse_runs_on_the_static_node_within_15_s(cluster: ElasticCluster) -> None:
    other = submit(cluster, 600, "--exclusive", "--partition=compute")
    starts(cluster, other, 30)
    refuse(cluster, REGULAR)
    refuse(cluster, SPOT)
    job = submit(cluster, 20)
    reasons = f"sinfo --noheader --partition={SPOT} --list-reasons --format=%E"
    wait_for(lambda: "AllocationFailed" in cluster.run(reasons), 120, cluster)
    assert state_of(cluster, job) == "PENDING"
    cluster.run(f"scancel {other}")
    began = time.monotonic()
    starts(cluster, job, 90)
    took = time.monotonic() - began
    print(f"started {took:.1f} s after the static node was free")
    assert nodes_of(cluster, job).startswith("compute-")
    assert not members(cluster)
    assert not members(cluster, SPOT)
    assert took < 15


# Spot and regular


@pytest.mark.parametrize(("feature", "name"), [("spot", SPOT), ("regular", REGULAR)])
def test_a_job_gets_the_kind_of_node_that_it_asks_for(cluster: ElasticCluster, feature: str, name: str) -> None:
    job = submit(cluster, 5, f"--constraint={feature}")
    starts(cluster, job)
    assert nodes_of(cluster, job).startswith(f"{name}-")
    assert [len(members(cluster, one)) for one in (REGULAR, SPOT)] == [int(one == name) for one in (REGULAR, SPOT)]


def test_a_job_never_gets_nodes_of_two_sets(cluster: ElasticCluster) -> None:
    # Two nodes of each set remain, and one of them is busy: only both sets together have two.
    cluster.run("sudo scontrol update NodeName=gpu-[2-3],gpu-spot-[2-3] State=DRAIN Reason='not in this test'")
    busy = [submit(cluster, 600, "--exclusive", f"--constraint={feature}") for feature in ("regular", "spot")]
    for one in busy:
        starts(cluster, one)
    job = submit(cluster, 20, "--nodes=2", "--exclusive")
    time.sleep(45)
    assert state_of(cluster, job) == "PENDING"
    cluster.run(f"scancel {busy[0]}")
    starts(cluster, job)
    assert nodes_of(cluster, job) == "gpu-[0-1]"


# Lost machines and a dead daemon


def test_a_machine_that_somebody_deletes_under_a_job_is_replaced(cluster: ElasticCluster) -> None:
    job = submit(cluster, 900, "--requeue", "--constraint=regular")
    starts(cluster, job)
    [lost] = elastic_machines(cluster)
    number = lost["id"].rpartition("/")[2]
    scale_set: Any = cluster.sdk().virtual_machine_scale_set_vms
    scale_set.begin_delete(RESOURCE_GROUP, REGULAR, number).result()
    # The daemon reads a set with a job every two minutes. slurmctld may need longer to notice.
    wait_for(lambda: state_of(cluster, job) != "RUNNING", 200, cluster)
    wait_for(lambda: state_of(cluster, job) == "RUNNING", AGAIN_S + SUSPEND_S + JOIN_S, cluster)
    [machine] = members(cluster)
    assert machine != lost["vm_id"]
    assert "Restarts=1" in cluster.run(f"scontrol --oneliner show job {job}")


def test_without_the_daemon_a_request_fails_at_once_and_says_why(cluster: ElasticCluster) -> None:
    heartbeat = "/run/hpcai/elastic/heartbeat"
    cluster.run(f"sudo systemctl stop hpcai-elastic; echo $(($(date +%s) - 700)) | sudo tee {heartbeat} >/dev/null")
    try:
        job = submit(cluster, 5, "--constraint=regular")
        reasons = f"sinfo --noheader --partition={REGULAR} --list-reasons --format=%E"
        wait_for(lambda: "hpcai: elastic: NoDaemon" in cluster.run(reasons), 60, cluster)
        assert not members(cluster)
    finally:
        cluster.run("sudo systemctl start hpcai-elastic")
    # The daemon gives the node back.
    starts(cluster, job, AGAIN_S + SUSPEND_S + JOIN_S)


# Playbooks


def play(cluster: ElasticCluster, source: Path, name: str, *words: str) -> Recap:
    """Run a playbook of the collection with the elastic sets."""
    return cluster.playbook(f"playbooks/{name}.yml", source, "-e", f"@{source.parent / 'elastic.json'}", *words)


def images(cluster: ElasticCluster) -> list[str]:
    """The images of the regular set's machines."""
    found = []
    for item in cluster.sdk().virtual_machine_scale_set_vms.list(RESOURCE_GROUP, REGULAR):
        reference: Any = item.storage_profile and item.storage_profile.image_reference
        found.append(str(reference.id or reference.version))
    return found


@pytest.fixture
def kept(cluster: ElasticCluster) -> Iterator[str]:
    """A node of the regular set that does not go when it is idle; its machine's vmId."""
    job = submit(cluster, 1, "--nodelist=gpu-0")
    starts(cluster, job)
    cluster.run("sudo hpcnode elastic keep gpu-[0-3] --for 2h")
    [machine] = members(cluster)
    yield machine
    cluster.run("sudo hpcnode elastic keep gpu-[0-3] --for 0", check=False)


def roll(cluster: ElasticCluster, source: Path, image: str) -> Recap:
    """Give the regular set another image."""
    words = (f"image={image}", f"hpcai_roll_sets={REGULAR}", f"hpcai_roll_boot={BOOT_S}", "hpcai_roll_timeout=600")
    return play(cluster, source, "roll", *(part for word in words for part in ("-e", word)))


def test_roll_checks_one_new_machine_before_the_old_one_goes(cluster: ElasticCluster, source: Path, kept: str) -> None:
    run = roll(cluster, source, VERSIONS[0])
    assert run.rc == 0, run.output
    assert kept not in members(cluster)
    assert set(images(cluster)) <= {VERSIONS[0]}
    again = roll(cluster, source, VERSIONS[0])
    assert (again.rc, again.changed) == (0, 0), again.output


def test_roll_stops_if_the_new_machine_does_not_join(cluster: ElasticCluster, source: Path, kept: str) -> None:
    admin(cluster, "post", "faults", {"service": "vault", "match": ".*", "action": "status", "status": 403})
    run = roll(cluster, source, VERSIONS[1])
    assert run.rc != 0
    assert "The machines with another image stay" in " ".join(run.output.split())
    assert kept in members(cluster)
    starts(cluster, submit(cluster, 1, "--nodelist=gpu-0"), 60)
    assert kept in members(cluster)


def test_replace_gives_a_node_another_machine(cluster: ElasticCluster, source: Path, kept: str) -> None:
    run = play(cluster, source, "replace", "-e", "hpcai_replace=gpu-0", "-e", "hpcai_replace_confirm=true")
    assert run.rc == 0, run.output
    assert kept not in members(cluster)
    job = submit(cluster, 5, "--nodelist=gpu-0")
    starts(cluster, job, SUSPEND_S + JOIN_S)
    assert len(members(cluster)) == 1
