# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Diagnostics, goodput and recovery on a cluster with real slurmctld and slurmdbd, in which nodes are killed.

The tests run in order: the ledger is computed for the window in which the others killed a node.
"""

from __future__ import annotations

import json
import shlex
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simulated.cluster import Cluster, Recap
from simulated.node import Node, wait_for

from .conftest import simulated

NAME, PORT, NETWORK = "watch", 8482, "10.68.0.0/24"
CONTROLLER, VICTIM = "10.68.0.4", "0"
SECRETS = {
    "/var/log/slurm/planted.log": "password=PlantedInTheLog",
    "/etc/hpcai/planted.json": '{"schema": 1, "token": "PlantedInSettings"}',
}
JOB = """\
#!/bin/sh
#SBATCH --nodes=1 --requeue --open-mode=append --output=/tmp/watch-%j.log
#SBATCH --comment=hpcai:recover,hpcai:training=trial
sleep 300
"""
NOTICED_S, AGAIN_S = 300, 240
"""Until slurmctld notices a dead node, and until its job runs again, in seconds."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster of this module."""
    with simulated(NAME, PORT, NETWORK) as made:
        yield made


@pytest.fixture(scope="module")
def inventory(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its inventory."""
    return cluster.write_inventory(tmp_path_factory.mktemp("inventory"))


@pytest.fixture(scope="module")
def site(cluster: Cluster, inventory: Path) -> Recap:
    """A run of site.yml with accounting, ledger and recovery."""
    variables = {
        "slurm_accounting": True,
        "health_checks_goodput": {"days": 1, "metrics": "/var/lib/hpcai/metrics"},
        "health_checks_recovery": {"interval_s": 5},
        "health_checks_capture": {"on_fault": True, "keep": 2},
        "slurm_conf": {"SlurmdTimeout": 20},
    }
    return cluster.site(inventory, "-e", json.dumps(variables))


def root(cluster: Cluster, command: str, check: bool = True) -> str:
    """Run a command on the controller as root."""
    return cluster.ssh(CONTROLLER, f"sudo sh -c {shlex.quote(command)}", check=check)


def job_of(cluster: Cluster, number: str) -> dict[str, str]:
    """The fields of a job."""
    shown = cluster.ssh(CONTROLLER, f"scontrol --oneliner show job {number}")
    return dict(word.split("=", 1) for word in shown.split() if "=" in word)


@pytest.fixture(scope="module")
def killed(cluster: Cluster, site: Recap) -> dict[str, Any]:
    """A job on a node that dies, and when it died and when the job ran again, in seconds since the epoch."""
    assert site.rc == 0, site.output
    began = time.time()
    cluster.ssh(CONTROLLER, f"printf %s {shlex.quote(JOB)} > /tmp/job.sh")
    number = cluster.ssh(CONTROLLER, "sbatch --parsable --nodelist=compute-0 /tmp/job.sh").strip()
    wait_for(lambda: job_of(cluster, number)["JobState"] == "RUNNING", 90, lambda: job_of(cluster, number))
    # The node list of the first run must not bind the second one.
    cluster.ssh(CONTROLLER, f"scontrol update JobId={number} ReqNodeList=", check=False)
    node = Node.of(cluster, CONTROLLER, VICTIM)
    died = time.time()
    node.sh("systemctl kill --signal=KILL slurmd; pkill -KILL slurmstepd", check=False)
    wait_for(
        lambda: job_of(cluster, number).get("Restarts") == "1" or job_of(cluster, number)["JobState"] == "FAILED",
        NOTICED_S,
        lambda: job_of(cluster, number),
    )
    noticed = time.time()
    wait_for(
        lambda: job_of(cluster, number)["JobState"] == "RUNNING" and job_of(cluster, number)["Restarts"] != "0",
        AGAIN_S,
        lambda: (job_of(cluster, number), root(cluster, "journalctl -u hpcai-recovery --no-pager", check=False)),
    )
    again = time.time()
    return {"job": number, "began": began, "died": died, "noticed": noticed, "again": again}


def test_a_second_run_changes_nothing(cluster: Cluster, inventory: Path, site: Recap) -> None:
    assert site.rc == 0, site.output
    variables = {"slurm_accounting": True, "health_checks_goodput": {"days": 1, "metrics": "/var/lib/hpcai/metrics"}}
    variables |= {"health_checks_recovery": {"interval_s": 5}, "health_checks_capture": {"on_fault": True, "keep": 2}}
    again = cluster.site(inventory, "-e", json.dumps({**variables, "slurm_conf": {"SlurmdTimeout": 20}}))
    assert (again.rc, again.changed) == (0, 0), again.output


def test_a_job_of_a_dead_node_runs_again_on_another_one(cluster: Cluster, killed: dict[str, Any]) -> None:
    job = job_of(cluster, killed["job"])
    assert job["NodeList"] != "compute-0"
    assert "compute-0" in job["ExcNodeList"]
    decisions = json.loads(root(cluster, "hpcnode recover status --json"))["decisions"]
    (mine,) = [one for one in decisions if str(one["job"]) == killed["job"]]
    assert (mine["action"], mine["problem"]) == ("requeue", "")


def test_the_ledger_adds_up_and_has_the_run(cluster: Cluster, killed: dict[str, Any]) -> None:
    since = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(killed["began"] - 60))
    found = json.loads(root(cluster, f"hpcnode goodput --json --since {since}"))
    total = sum(bucket["node_seconds"] for bucket in found["buckets"].values())
    assert total + found["absent_node_seconds"] == pytest.approx(found["nodes"] * found["seconds"], abs=1)
    assert found["requeues"] == 1
    assert found["buckets"]["unknown"]["node_seconds"] > 0
    assert found["buckets"]["down"]["node_seconds"] > 0
    (work,) = [one for one in found["work"] if one["name"] == "trial"]
    assert (work["ettr"], work["interruptions"]) == (None, 1)
    assert found["reliability"]["all"]["failures"] >= 1


def test_the_timer_writes_metrics(cluster: Cluster, killed: dict[str, Any]) -> None:
    root(cluster, "systemctl start hpcai-goodput.service")
    assert 'hpcai_goodput_node_seconds{bucket="idle"}' in root(cluster, "cat /var/lib/hpcai/metrics/hpcai_goodput.prom")


def test_the_ledger_survives_a_restart_of_slurmctld(cluster: Cluster, killed: dict[str, Any]) -> None:
    window = " ".join(
        f"--{name} {time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(when))}"
        for name, when in (("since", killed["began"]), ("until", killed["noticed"]))
    )
    before = json.loads(root(cluster, f"hpcnode goodput --json {window}"))
    root(cluster, "systemctl restart slurmctld")
    wait_for(lambda: "UP" in cluster.ssh(CONTROLLER, "scontrol ping", check=False), 60, lambda: "no slurmctld")
    after = json.loads(root(cluster, f"hpcnode goodput --json {window}"))
    assert after["buckets"] == before["buckets"]


def test_without_slurmdbd_there_is_an_error(cluster: Cluster, killed: dict[str, Any]) -> None:
    root(cluster, "systemctl stop slurmdbd")
    try:
        answer = json.loads(root(cluster, "hpcnode goodput --json; true"))
        assert answer["status"] == 1
        assert "slurmdbd" in answer["error"]
    finally:
        root(cluster, "systemctl start slurmdbd")


def test_diagnostics_contain_no_planted_secret(
    cluster: Cluster, inventory: Path, killed: dict[str, Any], tmp_path: Path
) -> None:
    for path, text in SECRETS.items():
        root(cluster, f"printf '%s\\n' {shlex.quote(text)} > {path}")
    root(cluster, "cat /etc/hpcai/planted.json >> /var/log/slurm/slurmctld.log")
    root(cluster, "ln -sf /etc/munge/munge.key /var/log/slurm/slurmdbd.log.link")
    run = cluster.playbook(
        "playbooks/diagnose.yml", inventory, "-e", f"hpcai_diagnose_folder={tmp_path}", "-e", "hpcai_diagnose=compute_3"
    )
    (bundle,) = tmp_path.glob("hpcai-incident-*.tar.gz")
    with tarfile.open(bundle) as archive:
        names = archive.getnames()
        texts = [file.read() for file in map(archive.extractfile, archive.getmembers()) if file]
    assert any(name.endswith("/items/slurmctld_log.txt") for name in names), run.output
    munge_key = root(cluster, "base64 --wrap=0 /etc/munge/munge.key").strip()
    everything = b"\n".join(texts).decode("utf-8", "replace")
    assert "PlantedIn" not in everything
    assert munge_key[:40] not in everything


def test_a_node_collects_its_diagnostics_when_it_finds_a_fault(cluster: Cluster, killed: dict[str, Any]) -> None:
    node = Node.of(cluster, CONTROLLER, "3")
    settings = json.loads(node.sh("cat /etc/hpcai/node.json"))
    broken = json.loads(json.dumps(settings))
    for size in broken["vm_sizes"].values():
        size["hca_count"] = 2
    node.sh(f"printf %s {shlex.quote(json.dumps(broken))} > /etc/hpcai/node.json")
    try:
        node.sh("/usr/libexec/hpcai/health; systemctl start hpcai-health-report.service", check=False)
        wait_for(
            lambda: "hpcai-diag-" in node.sh("ls /var/lib/hpcai/diag", check=False),
            120,
            lambda: node.sh("journalctl -u hpcai-diag --no-pager | tail -20", check=False),
        )
    finally:
        node.sh(f"printf %s {shlex.quote(json.dumps(settings))} > /etc/hpcai/node.json")
        node.sh("/usr/libexec/hpcai/health", check=False)
