# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An elastic set with a real slurmctld: a job makes a node appear, idleness makes it go, and faults in between.

Counts are taken at the simulated Resource Manager, not in the daemon's book.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests

from simulated.cluster import Cluster

from .conftest import simulated

NAME, PORT, NETWORK, CONTROLLER = "elastic", 8488, "10.71.0.0/24", "10.71.0.4"
IDLE_S = 30
JOIN_S = 180
"""An instance is a container that boots within a minute, beside other machines."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A controller, a static node, and an elastic set without instances; the controller reaches Resource Manager."""
    with simulated(NAME, PORT, NETWORK, "elastic") as made:
        made = Cluster(made.endpoint, made.state, key_source="key_vault")
        key = ["-i", str(made.state / "id_ed25519")]
        options = ["-o", "UserKnownHostsFile=/dev/null", "-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR"]
        options += ["-o", "ExitOnForwardFailure=yes", "-o", "ServerAliveInterval=10"]
        command = ["ssh", *options, *key, "-N", "-R", f"{PORT}:127.0.0.1:{PORT}", f"azureuser@{CONTROLLER}"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL) as tunnel:
            try:
                yield made
            finally:
                tunnel.terminate()


@pytest.fixture(scope="module")
def source(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inventory of this cluster, with its elastic set."""
    folder = tmp_path_factory.mktemp("elastic")
    group = next(one["id"] for one in machines(cluster)).partition("/providers/")[0]
    one = {
        "id": f"{group}/providers/Microsoft.Compute/virtualMachineScaleSets/gpu",
        "vm_size": "Standard_ND96asr_v4",
        "max": 4,
        "idle_s": IDLE_S,
        "boot_s": JOIN_S,
        "fallback": ["compute"],
        "price": 30.0,
    }
    settings = {"hpcai_elastic": {"gpu": one}, "elastic_endpoint": f"http://127.0.0.1:{PORT}"}
    (folder / "elastic.json").write_text(json.dumps(settings), encoding="utf-8")
    return cluster.write_inventory(folder)


@pytest.fixture(scope="module", autouse=True)
def converged(cluster: Cluster, source: Path) -> None:
    """The first run of site.yml."""
    run = cluster.site(source, "-e", f"@{source.parent / 'elastic.json'}")
    assert run.rc == 0, run.output


def machines(cluster: Cluster) -> list[dict[str, str]]:
    """All machines of Resource Manager."""
    found: list[dict[str, str]] = requests.get(f"{cluster.endpoint}/_simulator/state", timeout=10).json()["instances"]
    return found


def members(cluster: Cluster) -> list[str]:
    """The vmIds of the elastic set's instances."""
    return [one["vm_id"] for one in machines(cluster) if "/virtualmachinescalesets/gpu/" in one["id"].lower()]


def wait_for(condition: Callable[[], bool], seconds: float, cluster: Cluster) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        status = "sudo hpcnode elastic status; sudo journalctl --no-pager -n 30 -u hpcai-elastic"
        assert time.monotonic() < deadline, cluster.ssh(CONTROLLER, status, check=False)
        time.sleep(2)


def submit(cluster: Cluster, seconds: int, *options: str) -> str:
    """Submit a job to the elastic set, and return its id."""
    words = " ".join(["sbatch", "--parsable", "--partition=gpu", "--output=/dev/null", *options])
    return cluster.ssh(CONTROLLER, f"{words} --wrap 'sleep {seconds}'").strip()


def state_of(cluster: Cluster, job: str) -> str:
    """The state of a job."""
    return cluster.ssh(CONTROLLER, f"squeue --noheader --states=all --jobs={job} --format=%T", check=False).strip()


def is_empty(cluster: Cluster) -> bool:
    """Whether the elastic set has no instance, and Slurm shows no node of it as powered up."""
    shown = cluster.ssh(CONTROLLER, "sinfo --noheader --Node --nodes=gpu-[0-3] --format=%T").split()
    return not members(cluster) and all(state.endswith("~") for state in shown)


def test_a_job_makes_a_node_appear_and_idleness_makes_it_go(cluster: Cluster) -> None:
    job = submit(cluster, 5, "--constraint=nd96asr_v4", "--nodelist=gpu-0")
    wait_for(lambda: state_of(cluster, job) in ("RUNNING", "COMPLETED"), JOIN_S, cluster)
    assert len(members(cluster)) == 1
    assert members(cluster)[0] in cluster.ssh(CONTROLLER, "scontrol show node gpu-0")
    wait_for(lambda: is_empty(cluster), JOIN_S + IDLE_S, cluster)
    assert state_of(cluster, job) in ("COMPLETED", "")


def test_without_capacity_a_job_runs_in_the_fallback_set(cluster: Cluster) -> None:
    rule = {"match": "PATCH .*virtualmachinescalesets/gpu", "action": "status", "status": 409, "times": 1}
    requests.post(
        f"{cluster.endpoint}/_simulator/faults",
        json={**rule, "code": "AllocationFailed", "message": "none"},
        timeout=10,
    )
    # The static node is busy, so that the job asks for an elastic one first.
    other = cluster.ssh(CONTROLLER, "sbatch --parsable --exclusive --partition=compute --wrap 'sleep 20'").strip()
    job = submit(cluster, 1, "--exclusive")
    wait_for(lambda: state_of(cluster, job) in ("RUNNING", "COMPLETED", ""), 90, cluster)
    assert not members(cluster)
    assert "AllocationFailed" in cluster.ssh(CONTROLLER, "sinfo --noheader --list-reasons --format=%E")
    cluster.ssh(CONTROLLER, f"scancel {other}; sudo hpcnode elastic resume gpu")
    wait_for(lambda: is_empty(cluster), 60, cluster)


def test_a_killed_daemon_and_a_restarted_slurmctld_lose_nothing(cluster: Cluster) -> None:
    job = submit(cluster, 10, "--nodelist=gpu-1")
    wait_for(lambda: bool(members(cluster)), 60, cluster)
    cluster.ssh(CONTROLLER, "sudo systemctl kill --signal=KILL hpcai-elastic; sudo systemctl restart slurmctld")
    wait_for(lambda: state_of(cluster, job) in ("RUNNING", "COMPLETED"), JOIN_S, cluster)
    assert len(members(cluster)) == 1
    wait_for(lambda: is_empty(cluster), JOIN_S + IDLE_S, cluster)


def test_a_restart_of_slurmd_under_a_job_is_no_reboot(cluster: Cluster) -> None:
    job = submit(cluster, 60, "--nodelist=gpu-2")
    wait_for(lambda: state_of(cluster, job) == "RUNNING", JOIN_S, cluster)
    address = cluster.ssh(CONTROLLER, "sinfo --noheader --Node --nodes=gpu-2 --format=%o").strip()
    cluster.ssh(address, "sudo systemctl restart slurmd")
    time.sleep(10)
    assert state_of(cluster, job) == "RUNNING"
    cluster.ssh(CONTROLLER, f"scancel {job}")
    wait_for(lambda: is_empty(cluster), JOIN_S + IDLE_S, cluster)


def test_a_drained_node_stays_and_the_programs_return_at_once(cluster: Cluster) -> None:
    job = submit(cluster, 5, "--nodelist=gpu-3")
    wait_for(lambda: state_of(cluster, job) in ("RUNNING", "COMPLETED"), JOIN_S, cluster)
    cluster.ssh(CONTROLLER, "sudo scontrol update NodeName=gpu-3 State=DRAIN Reason='do not touch'")
    time.sleep(2 * IDLE_S + 30)
    assert len(members(cluster)) == 1
    cluster.ssh(CONTROLLER, "sudo scontrol update NodeName=gpu-3 State=RESUME")
    wait_for(lambda: is_empty(cluster), JOIN_S + IDLE_S, cluster)
    # slurmctld runs them without PATH.
    run = "time -p sudo -u slurm env -i /usr/libexec/hpcai/elastic-suspend gpu-3"
    shown = cluster.ssh(CONTROLLER, f"bash -c '{run}' 2>&1")
    assert float(shown.partition("real ")[2].split(maxsplit=1)[0]) < 1.0


def test_the_second_run_changes_nothing(cluster: Cluster, source: Path) -> None:
    run = cluster.site(source, "-e", f"@{source.parent / 'elastic.json'}")
    assert run.rc == 0, run.output
    assert run.changed == 0, run.output
