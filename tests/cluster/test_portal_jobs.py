# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Notebooks of the portal as jobs: what srun gets in them, a container, and how they end, driven in Chromium.

enroot and pyxis are the release files or stand-ins, as in the scenario "cluster". The container's image is made of the
node's own Python, and of ipykernel from the portal's archive.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import chromium
from browser.portal_page import Portal

from simulated.cluster import REPOSITORY, Cluster, Recap
from simulated.node import send, wait_for
from simulated.own_cluster import IMAGE_FILES, simulated
from simulated.queue import cancels_jobs_of_failed_tests, jobs, no_jobs

from .portal_cluster import FOLDERS, PASSWORDS, USERS, archives, use_notebook

NAME, PORT, NETWORK = "portal-jobs", 8516, "10.58.0.0/24"
CONTROLLER, LOGIN, NODE = "10.58.0.4", "10.58.0.5", "10.58.0.6"
MAKE_IMAGE = REPOSITORY / "tests/site/make_image.sh"
IMAGE, IMAGE_NAME = "/var/tmp/hpcai-notebook.sqsh", "Image of the tests"
PYTHON = "/opt/hpcai/portal/venv/bin/python"
IDLE_MINUTES, WAIT_MINUTES = 2, 3
SETTINGS: dict[str, Any] = {
    "hpcai_portal": True,
    "hpcai_containers": True,
    "portal_idle_minutes": IDLE_MINUTES,
    "portal_wait_minutes": WAIT_MINUTES,
    "portal_containers": {IMAGE_NAME: IMAGE},
    "portal_announcement": "Maintenance on Friday",
    "portal_partitions": ["offered"],
    # In addition to that of the scale set, which is not offered.
    "slurm_partitions": {"offered": {"Nodes": "compute-0"}},
    "slurm_users": USERS,
}
BUSY = "import time; print('BEGUN'.lower(), flush=True); time.sleep(3000)"

cancelled = cancels_jobs_of_failed_tests(CONTROLLER)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A controller, a login node and a compute node."""
    if chromium.find() is None:
        pytest.skip("no browser here: tests/setup/host.sh installs one")
    with simulated(NAME, PORT, NETWORK, "login", **IMAGE_FILES) as made:
        yield made


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the portal's archives."""
    return archives(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def converged(cluster: Cluster, files: Path, tmp_path_factory: pytest.TempPathFactory) -> Recap:
    """The first run of site.yml."""
    source = cluster.write_inventory(tmp_path_factory.mktemp(NAME))
    given = json.dumps({**SETTINGS, "portal_files": str(files)})
    enroot = IMAGE_FILES["HPCAI_ENROOT_FILES"]
    run = cluster.playbook("playbooks/site.yml", source, "-e", given, HPCAI_ENROOT_FILES=enroot)
    assert run.rc == 0, run.output
    return run


@pytest.fixture(scope="module")
def portal(converged: Recap) -> Iterator[Portal]:
    """A browser at the portal."""
    assert converged
    with chromium.browser() as page:
        yield Portal(page, f"https://{LOGIN}").prepare()


@pytest.fixture(scope="module")
def image(cluster: Cluster, converged: Recap, files: Path) -> None:
    """An image with Python and ipykernel on the compute node."""
    assert converged
    wheels = (files / "portal-wheels.tar").read_bytes()
    send(cluster, NODE, wheels, "mkdir /var/tmp/wheels && tar --extract --directory /var/tmp/wheels")
    install = "install --quiet --no-index --find-links /var/tmp/wheels --target /var/tmp/kernel ipykernel"
    cluster.ssh(NODE, f"sudo {PYTHON} -m pip {install}", limit=600)
    version = cluster.ssh(NODE, f"{PYTHON} -c 'import sys; print(\"python%d.%d\" % sys.version_info[:2])'").strip()
    copied = [f"/usr/bin/{version}:/usr/bin/python3", f"/usr/lib/{version}:/usr/lib/{version}"]
    copied.append(f"/var/tmp/kernel:/usr/local/lib/{version}/dist-packages")
    send(cluster, NODE, MAKE_IMAGE.read_bytes(), "cat > /var/tmp/make_image.sh")
    cluster.ssh(NODE, f"sudo bash /var/tmp/make_image.sh {IMAGE} {' '.join(copied)}", limit=600)


def run_cell(portal: Portal, code: str, ends_with: str, kernel_s: float = 90) -> str:
    """Run a cell in a new file. JupyterLab opens the files of the user's previous notebook otherwise."""
    portal.open("/user/alice/lab?reset")
    portal.wait_for_lab()
    return portal.run_cell(code, ends_with, kernel_s)


def open_form(portal: Portal, user: str) -> None:
    """Log in as a user without a notebook."""
    portal.log_in(user, PASSWORDS[user])
    portal.wait_for("Partition")


def has_ended(portal: Portal, cluster: Cluster, limit_s: float) -> None:
    """Wait until alice's job is gone, with its folder and processes, and until the portal shows that."""
    wait_for(lambda: not jobs(cluster, CONTROLLER), limit_s, lambda: jobs(cluster, CONTROLLER))
    assert not cluster.ssh(NODE, FOLDERS, check=False)
    wait_for(lambda: not cluster.ssh(NODE, "pgrep --uid alice", check=False), 60, lambda: "alice has processes")

    def shown() -> bool:
        portal.open("/user/alice/lab")
        return "not running" in portal.text()

    # The hub asks Slurm every 10 s.
    wait_for(shown, 90, portal.text)


def state_of(cluster: Cluster, number: str) -> str:
    """The state of a job, also of one that has ended."""
    shown = cluster.ssh(CONTROLLER, f"scontrol show job {number}").split()
    return next(word.partition("=")[2] for word in shown if word.startswith("JobState="))


def test_users_see_the_announcement_and_only_the_offered_partitions(portal: Portal) -> None:
    portal.open("/hub/login")
    portal.wait_for("Maintenance on Friday")
    open_form(portal, "alice")
    offered = portal.page.run("[...document.querySelectorAll('#partition option')].map(one => one.value)")
    assert offered == ["offered"]


def test_srun_in_a_notebook_passes_on_the_users_variables(portal: Portal, cluster: Cluster) -> None:
    use_notebook(portal)
    cell = (
        "import os, subprocess as s; os.environ['CHOSEN'] = 'by-user'; "
        "print(*s.run(['srun', '--overlap', 'sh', '-c', 'echo $HOME $CHOSEN $SLURM_STEP_ID'], "
        "capture_output=True, text=True).stdout.split(), 'END'.lower())"
    )
    assert "/home/alice by-user 0 end" in run_cell(portal, cell, " end")
    portal.stop()
    no_jobs(cluster, CONTROLLER)


@pytest.mark.usefixtures("image")
def test_a_notebook_runs_in_the_chosen_container(portal: Portal, cluster: Cluster) -> None:
    open_form(portal, "alice")
    portal.start(container=IMAGE_NAME)
    portal.wait_for_lab()
    cell = (
        "import os; e = os.environ; print(open('/etc/os-release').read().split()[0], os.getcwd(), e['HOME'], "
        "e['SLURM_JOB_ID'], e['JUPYTERHUB_USER'], 'JUPYTERHUB_API_TOKEN' in e, 'END'.lower())"
    )
    ((_owner, number, _state, _limit),) = jobs(cluster, CONTROLLER)
    shown = run_cell(portal, cell, " end", kernel_s=300)
    assert f"ID=hpcai-image /home/alice /home/alice {number} alice False end" in shown
    portal.keep("container")
    portal.stop()
    no_jobs(cluster, CONTROLLER)
    wait_for(lambda: not cluster.ssh(NODE, "pgrep --uid alice", check=False), 60, lambda: "alice has processes")


def test_a_notebook_ends_at_its_time_limit_although_it_computes(portal: Portal, cluster: Cluster) -> None:
    use_notebook(portal)
    run_cell(portal, BUSY, "begun")
    (number,) = [job[1] for job in jobs(cluster, CONTROLLER)]
    cluster.ssh(CONTROLLER, f"sudo scontrol update JobId={number} TimeLimit=1")
    # Slurm looks every 30 s, and kills 30 s after SIGTERM.
    has_ended(portal, cluster, 240)
    assert state_of(cluster, number) == "TIMEOUT"


def test_an_idle_notebook_ends_although_a_browser_shows_it(portal: Portal, cluster: Cluster) -> None:
    use_notebook(portal)
    run_cell(portal, "print('BEGUN'.lower())", "begun")
    (number,) = [job[1] for job in jobs(cluster, CONTROLLER)]
    # The server looks once a minute: at its kernel, then at itself.
    has_ended(portal, cluster, 60 * (2 * IDLE_MINUTES + 3))
    assert state_of(cluster, number) == "COMPLETED"


def test_a_job_that_waits_too_long_is_cancelled_and_its_user_sees_why(portal: Portal, cluster: Cluster) -> None:
    cluster.ssh(CONTROLLER, "sudo scontrol update NodeName=compute-0 State=DRAIN Reason=test")
    try:
        open_form(portal, "bob")
        portal.start()
        portal.wait_for("waits in the queue", 60)
        ((owner, number, state, _limit),) = jobs(cluster, CONTROLLER)
        assert (owner, state) == ("bob", "PENDING")
        portal.wait_for(f"Job {number} did not start within {WAIT_MINUTES} minutes", 60 * WAIT_MINUTES + 60)
        portal.keep("waited_too_long")
        no_jobs(cluster, CONTROLLER)
        assert state_of(cluster, number) == "CANCELLED"
    finally:
        cluster.ssh(CONTROLLER, "sudo scontrol update NodeName=compute-0 State=RESUME")
