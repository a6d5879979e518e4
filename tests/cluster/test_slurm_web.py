# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Slurm-web in the portal of a login node, with the controller's slurmrestd, driven in Chromium.

Runs only with Slurm-web's files (HPCAI_SLURM_WEB_FILES), for the nodes' release of Python.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import chromium
from browser.portal_page import Portal

from simulated.cluster import Cluster, Recap
from simulated.node import wait_for
from simulated.own_cluster import simulated
from simulated.portal_files import portal_files
from simulated.queue import jobs, no_jobs
from simulator.suite import OLDEST, suite

from .portal_cluster import PASSWORDS, USERS

NAME, PORT, NETWORK = "slurm-web", 8508, "10.59.0.0/24"
CONTROLLER, LOGIN, NODE = "10.59.0.4", "10.59.0.5", "10.59.0.6"
HOSTILE = "<img src=x onerror=window.owned=1>"
USER, UID = "hpcai-slurm-web", "549"
GATEWAY, AGENT = "/run/hpcai-slurm-web/gateway.socket", "/run/hpcai-slurm-agent/agent.socket"
LEFT = (
    "sudo find /etc /opt/hpcai /run /usr/lib/hpcai -name '*slurm-web*' -o -name '*hpcai-slurm-agent*' -o -name "
    "'*hpcai_slurm_web*'"
)
SETTINGS: dict[str, Any] = {
    "hpcai_portal": True,
    "slurm_restd": True,
    "slurm_restd_port": 6820,
    "portal_slurm_web_groups": ["bob"],
    "slurm_users": USERS,
}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The portal's settings, with archives for nodes without access to package registries."""
    given = os.environ.get("HPCAI_SLURM_WEB_FILES")
    if not given:
        pytest.skip("HPCAI_SLURM_WEB_FILES names no folder with slurm-web-wheels.tar and slurm-web-files.tar.gz")
    if suite() == OLDEST:
        pytest.skip("Slurm-web needs Slurm 24.05")
    if chromium.find() is None:
        pytest.skip("no browser here: tests/setup/host.sh installs one")
    files = portal_files("3.13", tmp_path_factory.mktemp("files"))
    return {**SETTINGS, "portal_files": str(files), "portal_slurm_web_files": given}


@pytest.fixture(scope="module")
def cluster(settings: dict[str, Any]) -> Iterator[Cluster]:
    """A controller, a login node and a compute node."""
    assert settings
    with simulated(NAME, PORT, NETWORK, "login") as made:
        yield made


@pytest.fixture(scope="module")
def source(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inventory of this cluster."""
    return cluster.write_inventory(tmp_path_factory.mktemp("slurm-web"))


@pytest.fixture(scope="module")
def checked(cluster: Cluster, source: Path, settings: dict[str, Any]) -> Recap:
    """A run in check mode before the first one."""
    return cluster.site(source, "-e", json.dumps(settings), "--check")


@pytest.fixture(scope="module")
def converged(cluster: Cluster, source: Path, settings: dict[str, Any], checked: Recap) -> Recap:
    """The first run of site.yml."""
    assert checked.output
    run = cluster.site(source, "-e", json.dumps(settings))
    assert run.rc == 0, run.output
    return run


@pytest.fixture(scope="module")
def portal(converged: Recap) -> Iterator[Portal]:
    """A browser at the portal."""
    assert converged
    with chromium.browser() as page:
        yield Portal(page, f"https://{LOGIN}").prepare()


def only_portal(cluster: Cluster, source: Path, settings: dict[str, Any], **changes: Any) -> Recap:
    """Run the portal's tasks of site.yml."""
    return cluster.site(source, "-e", json.dumps({**settings, **changes}), "--tags", "portal")


def logged_in(portal: Portal, user: str) -> None:
    """Log in with a password."""
    portal.log_in(user, PASSWORDS[user])
    portal.page.wait("location.pathname !== '/hub/login'")


def test_check_mode_works_before_the_first_run(checked: Recap) -> None:
    assert checked.rc == 0, checked.output


def opened(portal: Portal, user: str) -> str:
    """Log in, open the page, and return the path of the cluster there."""
    logged_in(portal, user)
    portal.open("/services/slurm/")
    portal.page.wait("location.pathname.endsWith('/dashboard')")
    return portal.at().removesuffix("/dashboard")


def test_members_see_the_queue_and_the_nodes(portal: Portal, cluster: Cluster) -> None:
    no_jobs(cluster, CONTROLLER)
    sbatch = f"sbatch --parsable --output=/dev/null --job-name={shlex.quote(HOSTILE)} --wrap='sleep 900'"
    number = cluster.ssh(LOGIN, f"cd / && sudo -u alice {sbatch}").strip()
    host = next(iter(cluster.nodes(CONTROLLER)))
    base = opened(portal, "bob")
    portal.wait_for("Running jobs")
    portal.page.events.clear()
    for view, shown in (
        *(("jobs", number), ("resources", host), (f"node/{host}", number), (f"job/{number}", HOSTILE)),
        *(("qos", "normal"), ("reservations", "Reservations"), ("accounts", "root")),
    ):
        portal.open(f"{base}/{view}")
        # slurmdbd learns of a job some seconds later.
        portal.wait_for(shown, 60)
        portal.keep(f"slurm-{view.partition('/')[0]}")
        assert "Unable to retrieve" not in portal.text()
    assert portal.page.run("window.owned") is None
    assert not [words for words in portal.page.complaints() if "favicon" not in words]
    cluster.ssh(CONTROLLER, f"sudo scancel {number}")
    no_jobs(cluster, CONTROLLER)


def test_a_user_outside_of_the_groups_gets_nothing(portal: Portal) -> None:
    logged_in(portal, "alice")
    for path in ("", "config.json", "api/anonymous", "api/clusters"):
        portal.open(f"/services/slurm/{path}")
        portal.wait_for("403")
    portal.keep("slurm-forbidden")


@pytest.mark.usefixtures("converged")
@pytest.mark.parametrize("path", [GATEWAY, AGENT])
def test_other_users_of_the_login_node_do_not_reach_slurm_web(cluster: Cluster, path: str) -> None:
    connect = f'python3 -c \'import socket; socket.socket(socket.AF_UNIX).connect("{path}"); print("connected")\' 2>&1'
    for user in ("alice", "bob", "nobody"):
        assert "PermissionError" in cluster.ssh(LOGIN, f"cd / && sudo -u {user} {connect}", check=False)
    # The portal's hub reaches the gateway, with the group that its unit gives to it, and not the agent.
    hub = "sudo systemd-run --quiet --wait --pipe --uid=hpcai-portal --property=SupplementaryGroups=hpcai-slurm-web"
    shown = cluster.ssh(LOGIN, f"{hub} {connect.removesuffix(' 2>&1')} 2>&1", check=False)
    assert ("connected" in shown.splitlines()) == (path == GATEWAY), shown
    ports = cluster.ssh(LOGIN, "sudo ss --listening --tcp --numeric --processes --no-header")
    assert "slurm_web" not in ports
    assert not [port for port in (5011, 5012) if f":{port} " in ports]


@pytest.mark.usefixtures("converged")
def test_the_agent_is_an_ordinary_user_of_slurm(cluster: Cluster) -> None:
    for address in (CONTROLLER, LOGIN):
        assert cluster.ssh(address, f"id --user {USER}").strip() == UID
    assert not cluster.ssh(LOGIN, "sudo ls /etc/slurm/jwt_hs256.key 2>/dev/null", check=False)
    assert cluster.ssh(LOGIN, "sudo stat --format='%a %U' /etc/hpcai/slurm-web/jwt.key").split() == ["600", USER]
    become = f"cd / && sudo -u {USER}"
    assert "SLURM_JWT" not in cluster.ssh(LOGIN, f"{become} scontrol token username=root 2>&1", check=False)
    node = next(iter(cluster.nodes(CONTROLLER)))
    cluster.ssh(LOGIN, f"{become} scontrol update NodeName={node} State=DRAIN Reason=x", check=False)
    assert "drain" not in cluster.nodes(CONTROLLER)[node].lower()
    # Neither tokens nor keys are in the logs.
    logged = cluster.ssh(LOGIN, "sudo journalctl --no-pager --unit=hpcai-slurm-web --unit=hpcai-slurm-agent")
    assert "eyJ" not in logged
    assert cluster.ssh(LOGIN, "sudo cat /etc/hpcai/slurm-web/jwt.key").strip() not in logged
    for unit in ("hpcai-slurm-web", "hpcai-slurm-agent"):
        pid = cluster.ssh(LOGIN, f"systemctl show --property=MainPID --value {unit}").strip()
        assert cluster.ssh(LOGIN, f"ps -o user:20= -p {pid}").strip() == USER


def test_a_controller_that_is_away_and_back(portal: Portal, cluster: Cluster) -> None:
    base = opened(portal, "bob")
    cluster.ssh(CONTROLLER, "sudo systemctl stop slurmctld")
    try:
        portal.open(f"{base}/jobs")
        portal.wait_for("Unable to retrieve", 120)
        portal.keep("slurm-away")
    finally:
        cluster.ssh(CONTROLLER, "sudo systemctl start slurmctld")
    portal.open(f"{base}/resources")
    portal.wait_for(next(iter(cluster.nodes(CONTROLLER))), 120)


def test_restarted_and_killed_programs_are_found_again(portal: Portal, cluster: Cluster) -> None:
    base = opened(portal, "bob")
    node = next(iter(cluster.nodes(CONTROLLER)))
    cluster.ssh(LOGIN, "sudo systemctl kill --signal=KILL hpcai-slurm-agent")
    portal.open(f"{base}/resources")
    portal.wait_for(node, 60)
    cluster.ssh(LOGIN, "sudo systemctl restart hpcai-slurm-web")

    def shown() -> bool:
        # Until the gateway listens, the page says that its server does not answer, and does not load itself again.
        portal.open(f"{base}/resources")
        with contextlib.suppress(AssertionError):
            portal.wait_for(node, 10)
        return node in portal.text()

    wait_for(shown, 60, portal.text)


@pytest.mark.usefixtures("converged")
def test_a_second_run_changes_nothing(cluster: Cluster, source: Path, settings: dict[str, Any]) -> None:
    assert not jobs(cluster, CONTROLLER)
    again = cluster.site(source, "-e", json.dumps(settings))
    assert again.rc == 0, again.output
    assert again.changed == 0, again.output


@pytest.mark.usefixtures("converged")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slurm_restd": False}, "Slurm-web needs slurmrestd: set slurm_restd to true"),
        ({"slurm_restd_port": 0}, "slurm_restd_port if the portal is not on the controller"),
        ({"portal_slurm_web_files": "/nonexistent"}, "(portal_slurm_web_files) has no slurm-web-wheels.tar"),
    ],
)
def test_what_slurm_web_lacks_is_named(
    cluster: Cluster, source: Path, settings: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    run = only_portal(cluster, source, settings, **changes)
    assert run.rc != 0
    assert message in " ".join(run.output.split())


def test_without_its_files_slurm_web_is_removed(
    portal: Portal, cluster: Cluster, source: Path, settings: dict[str, Any]
) -> None:
    run = only_portal(cluster, source, settings, portal_slurm_web_files="")
    assert run.rc == 0, run.output
    assert not cluster.ssh(LOGIN, LEFT, check=False).split()
    logged_in(portal, "bob")
    portal.open("/services/slurm/")
    portal.wait_for("404")
    again = only_portal(cluster, source, settings, portal_slurm_web_files="")
    assert (again.rc, again.changed) == (0, 0), again.output


@pytest.mark.usefixtures("converged")
def test_uninstalling_leaves_nothing_of_slurm_web(cluster: Cluster, source: Path, settings: dict[str, Any]) -> None:
    given = json.dumps(settings)
    back = cluster.site(source, "-e", given, "--tags", "portal")
    assert back.rc == 0, back.output
    assert cluster.ssh(LOGIN, LEFT, check=False).split()
    run = cluster.playbook("playbooks/uninstall.yml", source, "-e", given, "-e", "uninstall_confirm=true")
    assert run.rc == 0, run.output
    for address in (CONTROLLER, LOGIN):
        assert not cluster.ssh(address, LEFT, check=False).split()
