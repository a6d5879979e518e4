# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Upgrades Slurm on a running cluster from 22.05 to 23.11, and from there to 24.11.

The nodes run Debian 13 from an image without Slurm. Their package sources offer Debian's 22.05.8 and 24.11.5 and
Ubuntu's 23.11.4, one at a time, as a mirror of a site would.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulated.cluster import Cluster, Recap
from simulated.node import admin, send
from simulated.own_cluster import simulated
from simulated.slurm_rest import rest, token_of
from simulator.backends.containers import apt_sources, base_image, images

NAME, PORT, NETWORK, CONTROLLER = "upgrade", 8498, "10.73.0.0/24", "10.73.0.4"
PLAYBOOK = "playbooks/upgrade_slurm.yml"
REST = ("-e", '{"slurm_restd": true, "slurm_restd_port": 6820}')
CONFIRM = ("-e", "upgrade_slurm_confirm=true")
SUITE_OF = {"22.05": "bookworm", "23.11": "noble", "24.11": "trixie"}
"""Releases of Slurm, and the suite of Debian or Ubuntu that has each."""
# debootstrap lists the mirror.
NOBLE = """\
Types: deb
URIs: {mirror}
Suites: noble
Components: main universe
Signed-By: /usr/share/keyrings/ubuntu-archive-keyring.gpg
"""
# What slurmrestd and the plugin for tokens of Debian 12 need, and Debian 13 does not have.
OLD_LIBRARIES = "libjwt0 libhttp-parser2.9"
OWN = "slurm* libslurm* libpam-slurm* libnss-slurm sackd"
JOB = """\
#!/bin/sh
version() { scontrol show config 2>/dev/null | awk '/^SLURM_VERSION/ {print $3}'; }
before=$(version)
while now=$(version); [ -z "$now" ] || [ "$now" = "$before" ]; do sleep 1; done
echo "$before $now"
"""
"""Ends when the controller answers with another version."""


def preferences(suite: str, libraries: bool = True) -> str:
    """Return apt preferences with which Slurm comes from one suite, and all other packages from Debian 13.

    :param libraries: whether Ubuntu's libraries are available, which Ubuntu's Slurm needs.
    """
    stanzas = [
        (OWN, f"{suite}*", 990),
        (OWN, "*", -1),
        (OLD_LIBRARIES, "bookworm*", 100),
        ("*", "bookworm*", -1),
        ("*", "noble*", 100 if libraries else -1),
    ]
    return "\n".join(f"Package: {names}\nPin: release n={n}\nPin-Priority: {pin}\n" for names, n, pin in stanzas)


class Site:
    """A cluster whose package sources offer one release of Slurm.

    :ivar login: whether its inventory lists the login node. Slurm has a daemon for login nodes since 23.11.
    """

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.login = False
        self.addresses = {item["name"]: item["private_ipv4"] for item in admin(cluster, "get", "state")["instances"]}

    @property
    def source(self) -> Path:
        """The inventory."""
        source = self.cluster.write_inventory(self.folder)
        if not self.login:
            source.write_text(source.read_text(encoding="utf-8") + "query: azure_computer_name != 'login'\n", "utf-8")
        return source

    def offer(self, release: str, libraries: bool = True) -> None:
        """Let the package sources of all nodes offer a release, with or without the libraries that it needs."""
        for address in self.addresses.values():
            send(
                self.cluster,
                address,
                preferences(SUITE_OF[release], libraries).encode(),
                "sudo tee /etc/apt/preferences.d/upgrade >/dev/null",
            )

    def add_sources(self) -> None:
        """Add the sources of all releases."""
        read_mirror = r"sed -nE 's/.*default_mirror (.*archive\..*)/\1/p' /usr/share/debootstrap/scripts/gutsy"
        for address in self.addresses.values():
            self.cluster.ssh(address, "sudo apt-get -q update && sudo apt-get -qy install debootstrap ubuntu-keyring")
            noble = NOBLE.format(mirror=self.cluster.ssh(address, read_mirror).strip())
            sources = "\n".join([*apt_sources.for_suite("bookworm"), noble])
            send(
                self.cluster,
                address,
                sources.encode(),
                "sudo tee /etc/apt/sources.list.d/upgrade.sources >/dev/null",
            )

    def configure(self, release: str) -> Recap:
        """Run site.yml."""
        return self.cluster.site(self.source, "-e", f"slurm_version='{release}'", *REST)

    def upgrade(self, release: str, *arguments: str, libraries: bool = True) -> Recap:
        """Run the playbook."""
        self.offer(release, libraries)
        return self.cluster.playbook(
            PLAYBOOK, self.source, "-e", f"slurm_version='{release}'", "-e", "upgrade_slurm_batch=1", *REST, *arguments
        )

    def rest_status(self) -> int:
        """Return the status of a user's request to slurmrestd."""
        return rest(CONTROLLER, "/openapi/v3", token_of(self.cluster, CONTROLLER, "alice"))[0]

    def versions(self) -> set[str]:
        """Return the releases of the daemons and commands on all nodes of the inventory."""
        commands = {"ctl": "sudo slurmctld -V; sudo slurmdbd -V; /usr/sbin/slurmrestd -V", "login": "sinfo --version"}
        shown = [
            self.cluster.ssh(address, f"({commands.get(name, 'sudo slurmd -V')}) 2>&1")
            for name, address in self.addresses.items()
            if self.login or name != "login"
        ]
        return {*re.findall(r"\d\d\.\d\d", " ".join(shown))}

    def submit(self, *options: str) -> str:
        """Submit a job, and return its id."""
        words = " ".join(("sbatch --parsable --output=/var/tmp/%j.out", *options))
        return self.cluster.ssh(CONTROLLER, words).strip()

    def states(self, *jobs: str) -> list[str]:
        """Return the states of jobs from the accounting."""
        command = f"sudo sacct --allusers --allocations --noheader --parsable2 --format=state --jobs={','.join(jobs)}"
        return self.cluster.ssh(CONTROLLER, command).split()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A controller, a login node and two compute nodes, without Slurm."""
    images.prepare(print)
    with simulated(NAME, PORT, NETWORK, "login", **{images.PINNED: base_image.reference()}) as cluster:
        cluster.set_capacity(2)
        made = Site(cluster, tmp_path_factory.mktemp("upgrade"))
        made.add_sources()
        made.offer("22.05")
        yield made


def test_site_installs_the_offered_release(site: Site) -> None:
    run = site.configure("22.05")
    assert run.rc == 0, run.output
    assert site.versions() == {"22.05"}
    assert site.rest_status() == 200


def test_without_confirmation_nothing_changes(site: Site) -> None:
    run = site.upgrade("23.11")
    words = " ".join(run.output.split())
    assert run.rc != 0
    assert "Nothing was changed. Machines to upgrade to Slurm 23.11: compute000000, compute000002, ctl." in words
    assert run.changed == 0, run.output
    assert site.versions() == {"22.05"}


def test_a_release_that_cannot_read_the_state_is_refused(site: Site) -> None:
    run = site.upgrade("24.11", *CONFIRM)
    assert run.rc != 0
    assert "First upgrade to a release between 23.02 and 24.11 that reads 22.05." in " ".join(run.output.split())
    assert run.changed == 0, run.output
    assert site.versions() == {"22.05"}


def test_a_part_of_the_cluster_is_refused(site: Site) -> None:
    run = site.upgrade("23.11", *CONFIRM, "--limit", "ctl")
    assert run.rc != 0
    assert "Run this playbook without --limit." in " ".join(run.output.split())


def test_if_packages_cannot_be_installed_nothing_is_stopped(site: Site) -> None:
    run = site.upgrade("23.11", *CONFIRM, libraries=False)
    assert run.rc != 0
    assert "libmysqlclient" in run.output
    assert site.versions() == {"22.05"}
    assert site.cluster.ssh(CONTROLLER, "systemctl is-active slurmdbd slurmctld slurmrestd").split() == ["active"] * 3


def test_queue_accounting_and_running_jobs_survive(site: Site) -> None:
    cluster = site.cluster
    cluster.run_job(CONTROLLER, "hostname")
    before = cluster.ssh(CONTROLLER, "sudo sacct --allusers --allocations --noheader --parsable2 --format=jobid,state")
    send(cluster, CONTROLLER, JOB.encode(), "cat > job.sh")
    running = site.submit("--time=15", "--nodelist=compute-0", "job.sh")
    queued = site.submit("--time=1", f"--dependency=afterok:{running}", "--wrap=hostname")

    run = site.upgrade("23.11", *CONFIRM)

    assert run.rc == 0, run.output
    assert site.versions() == {"23.11"}
    assert site.rest_status() == 200
    cluster.wait_for_nodes(CONTROLLER, {"compute-0": "idle", "compute-2": "idle"})
    assert site.states(running, queued) == ["COMPLETED", "COMPLETED"]
    output = cluster.ssh(site.addresses["compute_0"], f"cat /var/tmp/{running}.out").split()
    assert [version[:5] for version in output] == ["22.05", "23.11"]
    after = cluster.ssh(CONTROLLER, "sudo sacct --allusers --allocations --noheader --parsable2 --format=jobid,state")
    assert after.startswith(before)


def test_a_login_node_joins_and_a_second_run_of_site_changes_nothing(site: Site) -> None:
    site.login = True
    run = site.configure("23.11")
    assert run.rc == 0, run.output
    again = site.configure("23.11")
    assert again.rc == 0, again.output
    assert again.changed == 0, again.output


def test_a_node_with_a_running_job_keeps_its_release(site: Site) -> None:
    job = site.submit("--time=30", "--nodelist=compute-2", "--wrap='sleep 1700'")

    run = site.upgrade("24.11", *CONFIRM, "-e", "upgrade_slurm_timeout=20")

    assert run.rc != 0
    assert "These machines were not upgraded: compute000002." in " ".join(run.output.split())
    assert site.versions() == {"23.11", "24.11"}
    assert site.states(job) == ["RUNNING"]
    assert site.cluster.nodes(CONTROLLER) == {"compute-0": "idle", "compute-2": "draining"}
    site.cluster.ssh(CONTROLLER, f"scancel {job}")


def test_a_second_run_upgrades_the_remaining_node(site: Site) -> None:
    run = site.upgrade("24.11", *CONFIRM)
    assert run.rc == 0, run.output
    assert site.versions() == {"24.11"}
    assert site.rest_status() == 200
    site.cluster.wait_for_nodes(CONTROLLER, {"compute-0": "idle", "compute-2": "idle"})
    assert len({*site.cluster.run_job(CONTROLLER, "hostname", "--nodes=2").split()}) == 2


def test_a_repeated_upgrade_and_site_change_nothing(site: Site) -> None:
    for run in (site.upgrade("24.11", *CONFIRM), site.configure("24.11")):
        assert run.rc == 0, run.output
        assert run.changed == 0, run.output
