# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Slurm's REST API on the controller: who can use it, and as whom."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from simulated.cluster import Cluster, Recap
from simulated.own_cluster import own_cluster
from simulated.queue import jobs, no_jobs
from simulated.slurm_rest import VERSION, rest, token_of
from simulator.suite import suite

NOTHING_FOUND = 9003
NAME, PORT, NETWORK = "rest", 8506, "10.62.0.0/24"
CONTROLLER, LOGIN, NODE = "10.62.0.4", "10.62.0.5", "10.62.0.6"
SETTINGS = ("-e", '{"slurm_restd": true, "slurm_restd_port": 6820}')

cluster, source = own_cluster(NAME, PORT, NETWORK, "login")


@pytest.fixture(scope="module")
def converged(cluster: Cluster, source: Path) -> Recap:
    """The first run of site.yml."""
    run = cluster.site(source, *SETTINGS)
    assert run.rc == 0, run.output
    return run


@pytest.mark.usefixtures("converged")
def test_a_users_token_reads_slurm_through_port_and_socket(cluster: Cluster) -> None:
    token = token_of(cluster, LOGIN, "alice")
    for path in ("/slurm/{v}/nodes", "/slurmdb/{v}/jobs"):
        status, answer = rest(CONTROLLER, path, token)
        # Slurm 22.05 calls an empty list an error.
        assert (status, [one for one in answer["errors"] if one["error_number"] != NOTHING_FOUND]) == (200, [])
    ask = (
        "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect('/run/slurmrestd/slurmrestd.socket');"
        f"s.send(b'GET /slurm/{VERSION}/jobs HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n"
        "X-SLURM-USER-NAME: alice\\r\\nX-SLURM-USER-TOKEN: '+sys.argv[1].encode()+b'\\r\\n\\r\\n'); print(s.recv(99))"
    )
    assert "200 OK" in cluster.ssh(CONTROLLER, f"sudo -u bob python3 -c {shlex.quote(ask)} {token}")
    # Nor is root a user of the API without a token.
    assert "200 OK" not in cluster.ssh(CONTROLLER, f"sudo python3 -c {shlex.quote(ask)} x")


@pytest.mark.usefixtures("converged")
def test_a_request_without_a_valid_token_is_refused(cluster: Cluster) -> None:
    token = token_of(cluster, LOGIN, "alice")
    head, body, _signature = token.split(".")
    for wrong in ("", "x", f"{head}.{body}.AAAA"):
        assert rest(CONTROLLER, "/slurm/{v}/jobs", wrong)[0] in (401, 500, 511)
    refused = cluster.ssh(LOGIN, "sudo -u alice scontrol token username=bob 2>&1", check=False)
    assert "SLURM_JWT" not in refused


@pytest.mark.usefixtures("converged")
def test_a_token_acts_only_as_its_user(cluster: Cluster) -> None:
    job = {
        "script": "#!/bin/sh\nsleep 300",
        "job": {"partition": "compute", "current_working_directory": "/", "environment": ["PATH=/bin"]},
    }
    # Until 23.11 the environment was a mapping.
    if suite() == "bookworm":
        job["job"]["environment"] = {"PATH": "/bin"}  # type: ignore[index]
    status, answer = rest(CONTROLLER, "/slurm/{v}/job/submit", token_of(cluster, LOGIN, "alice"), job)
    assert status == 200, answer
    assert [one[0] for one in jobs(cluster, CONTROLLER)] == ["alice"]
    number = jobs(cluster, CONTROLLER)[0][1]
    rest(CONTROLLER, f"/slurm/{{v}}/job/{number}", token_of(cluster, LOGIN, "bob"), method="DELETE")
    assert [one[:2] for one in jobs(cluster, CONTROLLER)] == [["alice", number]]
    cluster.ssh(CONTROLLER, f"sudo scancel {number}")
    no_jobs(cluster, CONTROLLER)


@pytest.mark.usefixtures("converged")
def test_only_slurm_reads_the_key_and_only_on_the_controller(cluster: Cluster) -> None:
    assert cluster.ssh(CONTROLLER, "sudo stat --format='%a %U' /etc/slurm/jwt_hs256.key").split() == ["600", "slurm"]
    for address in (LOGIN, NODE):
        assert not cluster.ssh(address, "sudo ls /etc/slurm/jwt_hs256.key 2>/dev/null", check=False)
    key = cluster.ssh(CONTROLLER, "sudo cat /etc/slurm/jwt_hs256.key").strip()
    logs = "sudo sh -c 'cat /var/log/slurm/*; journalctl --no-pager'"
    assert key not in cluster.ssh(CONTROLLER, logs)
    assert cluster.ssh(CONTROLLER, "ps -o user= -C slurmrestd").split() == ["slurmrestd"]


@pytest.mark.usefixtures("converged")
def test_a_second_run_changes_nothing(cluster: Cluster, source: Path) -> None:
    again = cluster.slurm(source, *SETTINGS)
    assert again.rc == 0, again.output
    assert again.changed == 0, again.output


@pytest.fixture(scope="module")
def switched_off(cluster: Cluster, source: Path, converged: Recap) -> Recap:
    """A run without the option, after runs with it."""
    assert converged.rc == 0
    run = cluster.slurm(source)
    assert run.rc == 0, run.output
    return run


@pytest.mark.usefixtures("switched_off")
def test_without_the_option_slurmrestd_its_key_and_its_socket_are_removed(cluster: Cluster) -> None:
    states = cluster.ssh(CONTROLLER, "systemctl is-active slurmrestd; systemctl is-enabled slurmrestd", check=False)
    assert states.split() == ["inactive", "disabled"]
    for path in (
        "/etc/slurm/jwt_hs256.key",
        "/etc/systemd/system/slurmrestd.service.d/hpcai.conf",
        "/run/slurmrestd",
    ):
        assert cluster.ssh(CONTROLLER, f"sudo test -e {path} || echo gone", check=False).strip() == "gone", path
    assert "AuthAltTypes" not in cluster.ssh(CONTROLLER, "sudo cat /etc/slurm/slurm.conf /etc/slurm/slurmdbd.conf")
    assert "SLURM_JWT" not in cluster.ssh(LOGIN, "sudo -u alice scontrol token 2>&1", check=False)
    assert cluster.run_job(CONTROLLER, "hostname").strip()


@pytest.mark.usefixtures("switched_off")
def test_a_second_run_without_the_option_changes_nothing(cluster: Cluster, source: Path) -> None:
    again = cluster.slurm(source)
    assert again.rc == 0, again.output
    assert again.changed == 0, again.output
