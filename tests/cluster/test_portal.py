# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The portal on a login node, driven in Chromium as users do.

With HPCAI_PORTAL_PICTURES=FOLDER the tests save what users see.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import chromium
from browser.portal_page import NO_ANSWER, Portal
from stand_ins.blob.certificate import Certificate, certificate_for

from simulated.cluster import Cluster, Recap
from simulated.node import wait_for
from simulated.queue import cancels_jobs_of_failed_tests, jobs, no_jobs

from .conftest import simulated
from .portal_cluster import FOLDERS, HASHES, PASSWORDS, USERS, archives, use_notebook

NAME, PORT, NETWORK = "portal", 8504, "10.63.0.0/24"
CONTROLLER, LOGIN, NODE = "10.63.0.4", "10.63.0.5", "10.63.0.6"
SETTINGS: dict[str, Any] = {
    "hpcai_portal": True,
    "portal_operators": ["bob"],
    "health_checks_goodput": {"days": 1},
    # A second partition, and two device files as stand-ins for GPUs, which all simulated machines have.
    "slurm_partitions": {"short": {"Nodes": "compute-0", "MaxTime": 60}},
    "slurm_node_conf": {"Standard_ND96asr_v4": {"Gres": "gpu:2"}},
    "slurm_gres": {"Standard_ND96asr_v4": {"Name": "gpu", "File": "/dev/stand-in-gpu[0-1]"}},
    "slurm_users": USERS,
}
CELL = "import getpass as g, os; print(os.uname().nodename, os.environ['SLURM_JOB_ID'], g.getuser(), 'END'.lower())"

cancelled = cancels_jobs_of_failed_tests(CONTROLLER)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A controller, a login node and a compute node."""
    if chromium.find() is None:
        pytest.skip("no browser here: tests/setup/host.sh installs one")
    with simulated(NAME, PORT, NETWORK, "login") as made:
        yield made


@pytest.fixture(scope="module")
def source(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inventory of this cluster."""
    return cluster.write_inventory(tmp_path_factory.mktemp("portal"))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """The certificate that the portal gets."""
    return certificate_for("portal.example.org", LOGIN, tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def settings(certificate: Certificate, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The portal's settings."""
    given = {"portal_certificate": str(certificate.public), "portal_certificate_key": str(certificate.key)}
    return json.dumps({**SETTINGS, **given, "portal_files": str(archives(tmp_path_factory.mktemp("files")))})


@pytest.fixture(scope="module")
def converged(cluster: Cluster, source: Path, settings: str) -> Recap:
    """The first run of site.yml."""
    run = cluster.site(source, "-e", settings)
    assert run.rc == 0, run.output
    return run


@pytest.fixture(scope="module")
def portal(converged: Recap) -> Iterator[Portal]:
    """A browser at the portal."""
    assert converged
    with chromium.browser() as page:
        yield Portal(page, f"https://{LOGIN}").prepare()


def port_of_notebook(cluster: Cluster) -> int:
    """The port at which the only notebook listens."""
    shown = cluster.ssh(NODE, "ss --listening --tcp --numeric --no-header")
    (port,) = {int(line.split()[3].rpartition(":")[2]) for line in shown.splitlines()} & {*range(21000, 22000)}
    return port


def test_a_notebook_runs_as_its_user_in_a_job_and_is_cleaned_up(portal: Portal, cluster: Cluster) -> None:
    no_jobs(cluster, CONTROLLER)
    portal.log_in("alice", PASSWORDS["alice"])
    portal.wait_for("Partition")
    portal.keep("form")
    portal.start(hours="2")
    portal.wait_for_lab()
    ((owner, number, state, limit),) = jobs(cluster, CONTROLLER)
    assert (owner, state, limit) == ("alice", "RUNNING", "2:00:00")
    host = cluster.ssh(NODE, "hostname").strip()
    assert f"{host} {number} alice end" in portal.run_cell(CELL, f"{number} alice end")
    portal.keep("notebook")
    (folder,) = cluster.ssh(NODE, FOLDERS, check=False).split()
    assert cluster.ssh(NODE, f"sudo stat --format='%a %U' {folder}").split() == ["700", "alice"]
    portal.stop()
    portal.keep("stopped")
    no_jobs(cluster, CONTROLLER)
    assert not cluster.ssh(NODE, FOLDERS, check=False)
    wait_for(lambda: not cluster.ssh(NODE, "pgrep --uid alice", check=False), 60, lambda: "alice has processes")


def test_a_notebook_gets_the_partition_and_the_gpus_that_its_user_chooses(portal: Portal, cluster: Cluster) -> None:
    portal.log_in("bob", PASSWORDS["bob"])
    portal.page.wait("document.querySelector('#partition option[value=short]')?.textContent.includes('2 GPUs')")
    portal.start(hours="1", partition="short", gpus="2")
    portal.wait_for_lab()
    ((owner, number, state, limit),) = jobs(cluster, CONTROLLER)
    assert (owner, state, limit) == ("bob", "RUNNING", "1:00:00")
    job = cluster.ssh(CONTROLLER, f"scontrol show job {number}").split()
    assert "Partition=short" in job
    # Releases write this differently.
    assert {"TresPerJob=gres/gpu:2", "TresPerJob=gres:gpu:2", "TresPerJob=gpu:2"} & {*job}
    cell = "import os; print(os.environ['SLURM_JOB_PARTITION'], os.environ['CUDA_VISIBLE_DEVICES'], 'END'.lower())"
    assert "short 0,1 end" in portal.run_cell(cell, "0,1 end")
    portal.stop()
    no_jobs(cluster, CONTROLLER)


def test_an_account_that_an_administrator_has_locked_is_refused(portal: Portal, cluster: Cluster) -> None:
    cluster.ssh(LOGIN, "sudo usermod --lock bob")
    try:
        portal.log_in("bob", PASSWORDS["bob"])
        portal.wait_for("Invalid username or password")
    finally:
        cluster.ssh(LOGIN, "sudo usermod --unlock bob")


def test_a_wrong_password_and_an_administrator_are_refused(portal: Portal) -> None:
    for user, password in (("alice", "builder"), ("azureuser", "x"), ("root", "x"), ("slurm", ""), ("a;id", "x")):
        portal.log_in(user, password)
        portal.wait_for("Invalid username or password")
    portal.keep("refused")


def test_another_users_token_opens_no_notebook(portal: Portal, cluster: Cluster, certificate: Certificate) -> None:
    tokens = {}
    for user in ("bob", "alice"):
        portal.log_in(user, PASSWORDS[user])
        portal.page.wait("location.pathname !== '/hub/login'")
        tokens[user] = portal.token()
    use_notebook(portal)
    contents = "/user/alice/api/contents"
    # The proxy has the given certificate, which is the only trusted one here.
    assert portal.status(certificate.public, contents, tokens["alice"]) == 200
    assert portal.status(certificate.public, contents, tokens["bob"]) == 403
    assert portal.status(certificate.public, "/user/alice/api/terminals", tokens["bob"], "POST") == 403
    assert portal.status(certificate.public, "/hub/api/users/alice/server", tokens["bob"], "DELETE") in (403, 404)
    assert portal.status(certificate.public, "/hub/api/user", tokens["bob"]) == 200
    # Nor from the hub's host, past the proxy.
    ask = (
        f"import sys,urllib.request as u; r=u.Request('http://{NODE}:{port_of_notebook(cluster)}{contents}',"
        "headers={'Authorization':'token '+sys.argv[1]}); print(u.urlopen(r).status)"
    )
    shown = cluster.ssh(LOGIN, f"sudo -u bob python3 -c {shlex.quote(ask)} {tokens['bob']} 2>&1", check=False)
    assert "403" in shown
    assert ["alice", "RUNNING"] in [[job[0], job[2]] for job in jobs(cluster, CONTROLLER)]


def test_another_user_cannot_use_a_notebook(portal: Portal, cluster: Cluster) -> None:
    use_notebook(portal)
    port = port_of_notebook(cluster)
    portal.log_in("bob", PASSWORDS["bob"])
    portal.wait_for("Partition")
    portal.open("/user/alice/lab")
    portal.wait_for("403")
    portal.keep("forbidden")
    connect = f"python3 -c 'import socket; socket.create_connection((\"{{}}\", {port}), 5)' 2>&1"
    for address in (NODE, "127.0.0.1"):
        # A user of the same node, with or without a token, does not even reach the port.
        assert "ConnectionRefusedError" in cluster.ssh(NODE, f"sudo -u bob {connect.format(address)}", check=False)
    assert "ConnectionRefusedError" in cluster.ssh(CONTROLLER, connect.format(NODE), check=False)
    # The hub's host reaches it, and gets nothing without alice's token.
    ask = f"import urllib.request as u; print(u.urlopen('http://{NODE}:{port}/user/alice/api/contents').status)"
    assert "403" in cluster.ssh(LOGIN, f"sudo -u bob python3 -c {shlex.quote(ask)} 2>&1", check=False)
    assert "Authorization" not in cluster.ssh(NODE, "ps -eo args")
    assert not cluster.ssh(NODE, "ps -eo args | grep -i '[a]pi_token'", check=False)


def test_a_notebook_cannot_change_its_spawner(portal: Portal, cluster: Cluster) -> None:
    use_notebook(portal)
    (number,) = [job[1] for job in jobs(cluster, CONTROLLER)]
    # What a user can do with the token in the own notebook.
    post = (
        "import os,json,urllib.request as u,urllib.error as e,sys\n"
        "env=dict(p.split('=',1) for p in open('/proc/%s/environ'%sys.argv[1]).read().split(chr(0)) if '=' in p)\n"
        "for path, data in json.loads(sys.argv[2]):\n"
        "  try: print(u.urlopen(u.Request(env['JUPYTERHUB_API_URL']+path,json.dumps(data).encode(),"
        "{'Authorization':'token '+env['JUPYTERHUB_API_TOKEN']})).status)\n"
        "  except e.HTTPError as x: print(x.code)\n"
    )
    tries = [
        ["/batchspawner", {"exec_prefix": "touch /tmp/owned;"}],
        ["/hpcai/notebook", {"port": 22}],
        ["/hpcai/notebook", {"port": "8001", "exec_prefix": "touch /tmp/owned;"}],
        ["/hpcai/notebook", {"job_id": "1", "ip": "127.0.0.1"}],
        ["/hpcai/notebook", []],
    ]
    pid = cluster.ssh(NODE, "pgrep --uid alice --newest --full hpcai_portal.singleuser").split()[0]
    answers = cluster.ssh(
        NODE, f"sudo -u alice python3 -c {shlex.quote(post)} {pid} {shlex.quote(json.dumps(tries))}"
    ).split()
    assert answers == ["404", "400", "400", "400", "400"]
    assert [job[1] for job in jobs(cluster, CONTROLLER)] == [number]
    assert not cluster.ssh(LOGIN, "ls /tmp/owned 2>/dev/null", check=False)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("partition=compute%3Bid&gpus=0&cpus=1&hours=1", "There is no partition"),
        ("partition=compute&gpus=0&cpus=1&hours=1000", "Hours: enter a number from 1 to 8"),
        ("partition=compute&gpus=0&cpus=1%0A%23SBATCH&hours=1", "CPU cores: enter a number"),
        ("partition=compute&gpus=0&cpus=1&hours=1&image=--help", "Choose a container from the list"),
        ("partition=compute&gpus=0&cpus=1&hours=1&exec_prefix=id", "unknown field"),
        ("partition=%3Cimg+src%3Dx+onerror%3Dalert(1)%3E&gpus=0&cpus=1&hours=1", "<img src=x onerror"),
    ],
)
def test_the_form_refuses_what_no_browser_sends(portal: Portal, cluster: Cluster, fields: str, message: str) -> None:
    portal.log_in("bob", PASSWORDS["bob"])
    portal.wait_for("Partition")
    portal.open("/hub/spawn?partition=compute&gpus=0&cpus=1&hours=1")
    portal.wait_for("Links cannot start a notebook.")
    portal.send_form(fields)
    portal.wait_for(message)
    assert portal.page.run("document.querySelectorAll('img[src=x]').length") == 0
    assert "bob" not in [job[0] for job in jobs(cluster, CONTROLLER)]


def test_users_see_that_their_job_has_ended(portal: Portal, cluster: Cluster) -> None:
    use_notebook(portal)
    (number,) = [job[1] for job in jobs(cluster, CONTROLLER) if job[0] == "alice"]
    cluster.ssh(CONTROLLER, f"sudo scancel {number}")
    no_jobs(cluster, CONTROLLER)

    def ended() -> bool:
        portal.open("/user/alice/lab")
        return "not running" in portal.text()

    # The hub asks Slurm every 10 s.
    wait_for(ended, 90, portal.text)
    portal.keep("ended")


def test_a_notebook_survives_a_killed_proxy_and_users_see_that_it_is_away(portal: Portal, cluster: Cluster) -> None:
    use_notebook(portal)
    before = jobs(cluster, CONTROLLER)
    # systemd starts a killed proxy after two seconds, but not a stopped one.
    cluster.ssh(LOGIN, "sudo systemctl stop hpcai-portal-proxy")
    try:
        portal.open("/user/alice/lab")
        # The browser's own page: nothing listens at the portal's port.
        assert portal.page.run("location.protocol") == "chrome-error:"
    finally:
        cluster.ssh(LOGIN, "sudo systemctl start hpcai-portal-proxy")
    portal.return_to_lab("alice")
    cluster.ssh(LOGIN, "sudo systemctl kill --signal=KILL hpcai-portal-proxy")
    portal.return_to_lab("alice")
    assert [job[:3] for job in jobs(cluster, CONTROLLER)] == [job[:3] for job in before]


def test_a_notebook_works_while_the_hub_is_away_and_after_it(portal: Portal, cluster: Cluster) -> None:
    use_notebook(portal)
    before = jobs(cluster, CONTROLLER)
    cluster.ssh(LOGIN, "sudo systemctl stop hpcai-portal")
    try:
        portal.open("/hub/home")
        portal.wait_for(NO_ANSWER)
        portal.keep("hub_away")
        # The proxy sends requests for notebooks to their nodes, past the hub.
        portal.open("/user/alice/lab")
        portal.wait_for_lab(60)
        portal.open("/hub/home")
        portal.wait_for(NO_ANSWER)
    finally:
        cluster.ssh(LOGIN, "sudo systemctl start hpcai-portal")
    # The page of errors reloads automatically.
    portal.page.wait("document.querySelector('#stop') !== null", 90)
    portal.return_to_lab("alice")
    assert [job[:3] for job in jobs(cluster, CONTROLLER)] == [job[:3] for job in before]


def test_users_see_that_the_controller_is_away_and_notebooks_continue(portal: Portal, cluster: Cluster) -> None:
    use_notebook(portal)
    before = [job[:2] for job in jobs(cluster, CONTROLLER)]
    cluster.ssh(CONTROLLER, "sudo systemctl stop slurmctld")
    try:
        # Longer than the hub's interval, and than the age of the list of partitions.
        time.sleep(65)
        portal.open("/user/alice/lab")
        portal.wait_for_lab(30)
        portal.log_in("bob", PASSWORDS["bob"])
        portal.wait_for("Slurm's controller does not answer", 60)
        portal.keep("controller_away")
    finally:
        cluster.ssh(CONTROLLER, "sudo systemctl start slurmctld")
    cluster.wait_for_nodes(CONTROLLER, {"compute-0": "mixed"})
    assert [job[:2] for job in jobs(cluster, CONTROLLER)] == before


def test_the_health_report_and_goodput_are_open_to_operators_only(
    portal: Portal, cluster: Cluster, source: Path, settings: str, tmp_path: Path
) -> None:
    portal.log_in("bob", PASSWORDS["bob"])
    portal.wait_for("Partition")
    portal.open("/services/health/")
    portal.wait_for("It may not have been written yet")
    given = json.dumps({"hpcai_health_report": str(tmp_path / "report"), "hpcai_health_fail_on": "never"})
    run = cluster.playbook("playbooks/health_check.yml", source, "-e", settings, "-e", given)
    assert run.rc == 0, run.output
    portal.open("/services/health/")
    portal.page.wait("document.documentElement.dataset.painted !== undefined")
    portal.wait_for("compute")
    portal.keep("health")
    portal.open("/services/goodput/")
    portal.wait_for("node-hours")
    portal.keep("goodput")
    portal.log_in("alice", PASSWORDS["alice"])
    portal.page.wait("location.pathname !== '/hub/login'")
    for name in ("health", "goodput"):
        portal.open(f"/services/{name}/")
        portal.wait_for("403")


def test_secrets_are_neither_readable_nor_logged(portal: Portal, cluster: Cluster) -> None:
    assert portal
    shown = cluster.ssh(LOGIN, "sudo stat --format='%n %a %U:%G' /etc/hpcai/portal/* /var/lib/hpcai/portal")
    modes = {line.split()[0].rpartition("/")[2]: line.split()[1:] for line in shown.splitlines()}
    assert modes["proxy.env"] == ["600", "root:root"]
    assert modes["secrets.env"] == ["600", "root:root"]
    assert modes["tls.key"] == ["640", "root:hpcai-proxy"]
    assert modes["portal"] == ["700", "hpcai-portal:hpcai-portal"]
    log = cluster.ssh(LOGIN, "sudo journalctl --no-pager --unit=hpcai-portal --unit=hpcai-portal-proxy")
    secret = cluster.ssh(LOGIN, "sudo cat /etc/hpcai/portal/proxy.env").strip().partition("=")[2]
    assert secret not in log
    assert not any(secret in log for secret in (*PASSWORDS.values(), *HASHES.values()))
    shadow = cluster.ssh(LOGIN, "sudo grep '^alice:' /etc/shadow")
    assert shadow.split(":")[1] == HASHES["alice"]
    host = cluster.host(LOGIN)
    for unit, user in (("hpcai-portal", "hpcai-portal"), ("hpcai-portal-proxy", "hpcai-proxy")):
        assert host.service(unit).is_enabled
        pid = host.service(unit).systemd_properties["MainPID"]
        assert cluster.ssh(LOGIN, f"ps -o user:20= -p {pid}").strip() == user


def test_a_second_run_changes_nothing(portal: Portal, cluster: Cluster, source: Path, settings: str) -> None:
    assert portal
    cluster.ssh(CONTROLLER, "sudo scancel --user=alice")
    no_jobs(cluster, CONTROLLER)
    again = cluster.site(source, "-e", settings)
    assert again.rc == 0, again.output
    assert again.changed == 0, again.output


@pytest.mark.usefixtures("converged")
def test_uninstalling_leaves_nothing_of_the_portal(cluster: Cluster, source: Path, settings: str) -> None:
    run = cluster.playbook("playbooks/uninstall.yml", source, "-e", settings, "-e", "uninstall_confirm=true")
    assert run.rc == 0, run.output
    left = (
        "sudo find /etc /opt/hpcai /usr/lib/hpcai /usr/libexec/hpcai /var/lib/hpcai -name '*portal*' "
        "-o -name jwt_hs256.key -o -path /usr/libexec/hpcai/notebook"
    )
    for address in (CONTROLLER, LOGIN, NODE):
        assert not [line for line in cluster.ssh(address, left, check=False).split() if "/passwd" not in line]
    assert "hpcai_portal" not in cluster.ssh(NODE, "sudo /usr/sbin/nft list tables")
