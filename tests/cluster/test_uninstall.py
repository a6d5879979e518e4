# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""uninstall.yml on a cluster: it asks first, removes what the roles wrote, and keeps data; site.yml works again."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulated.cluster import Cluster, Recap
from simulated.node import wait_for
from simulated.own_cluster import simulated
from simulator.backends.containers import base_image
from simulator.backends.containers.places import cache_dir, locked
from simulator.backends.containers.podman import Podman

NAME, PORT, NETWORK = "uninstall", 8498, "10.73.0.0/24"
CONTROLLER, COMPUTE_0, COMPUTE_3 = "10.73.0.4", "10.73.0.5", "10.73.0.6"
NODES = {"ctl": CONTROLLER, "compute_0": COMPUTE_0, "compute_3": COMPUTE_3}
STARTS_S = 60
READY = {"compute-0": "idle", "compute-3": "idle"}
LOOKED_AT = ("/etc", "/usr/local", "/usr/lib/systemd", "/usr/lib/udev", "/usr/libexec", "/opt")

SITE_SCRIPT = "/etc/hpcai/epilog.d/95-site"
# guide_uninstalling.rst names these.
STAYS = {
    "/etc/mysql/mariadb.conf.d/zz-hpcai-slurm.cnf",
    "/etc/systemd/system/mariadb.service.d/hpcai-state.conf",
    "/etc/systemd/system/azure-ephemeral-disk-setup.service",
    SITE_SCRIPT,
}
# What packages' scripts and a machine's first boot make, and no package lists. None of it is ours: a test looks for the
# collection's name.
GENERATED = re.compile(
    r"/etc/("
    r"alternatives/.*|rc[0-6S]\.d/.*|ssl/.*|apparmor\.d/local/.*|mysql/.*|network/.*|netplan/.*|ssh/ssh_host_.*"
    r"|lighttpd/.*|modules|sudoers\.d/.*|default/[\w-]+|(passwd|group|shadow|gshadow|subuid|subgid)-?|hostname|hosts|resolv\.conf"
    r"|machine-id|machine-info|ld\.so\.cache|\.pwd\.lock|\.updated|adjtime|mdadm/mdadm\.conf|nvme/host(nqn|id)"
    r"|idmapd\.conf|exports|systemd/system/[\w.@\\-]+\.(wants|requires)/.*"
    r"|systemd/system/(mysqld?|sshd|dbus-[\w.]+)\.service"
    r"|.*\.dpkg-(old|new|dist)"
    r")"
    r"|/usr/lib/systemd/.*|/usr/lib/udev/.*|/opt/(?!hpcai).*"
)


@pytest.fixture(scope="module")
def original() -> set[str]:
    """The files of the image before any role ran."""
    podman = Podman()
    if not podman.image_exists(base_image.reference()):
        with locked(cache_dir() / "images.lock"):
            base_image.build(podman, print)
    name = f"hpcai-uninstall-{os.getpid()}"
    podman.run("create", "--name", name, "--network=none", base_image.reference(), "true")
    try:
        export = [*podman.argv, "export", name]
        with (
            subprocess.Popen(export, env={**os.environ, **podman.env}, stdout=subprocess.PIPE) as exported,
            tarfile.open(fileobj=exported.stdout, mode="r|") as tar,
        ):
            found = {f"/{os.path.normpath(member.name)}" for member in tar if not member.isdir()}
    finally:
        podman.run("rm", "--force", name)
    assert "/etc/os-release" in found
    return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster that is lost at the end."""
    with simulated(NAME, PORT, NETWORK) as made:
        yield made


@pytest.fixture(scope="module")
def source(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its inventory, after a run of site.yml with slurmrestd. uninstall.yml runs without this option."""
    inventory = cluster.write_inventory(tmp_path_factory.mktemp("uninstall"))
    run = cluster.site(inventory, "-e", '{"slurm_restd": true}')
    assert run.rc == 0, run.output
    cluster.wait_for_nodes(CONTROLLER, READY)
    return inventory


def uninstall(cluster: Cluster, inventory: Path, **variables: str) -> Recap:
    """Run uninstall.yml with these extra variables."""
    given = [word for name, value in variables.items() for word in ("-e", f"{name}={value}")]
    return cluster.playbook("playbooks/uninstall.yml", inventory, *given)


def sh(cluster: Cluster, address: str, command: str, check: bool = True) -> str:
    """Run a command on a node as root."""
    return cluster.ssh(address, f"sudo sh -c {shlex.quote(command)}", check)


def files(cluster: Cluster, address: str) -> set[str]:
    """The files of a node in the folders that roles write to."""
    return set(sh(cluster, address, f"find {' '.join(LOOKED_AT)} ! -type d").splitlines())


def submit(cluster: Cluster) -> str:
    """Start a job on both nodes, wait until it runs, and return its number."""
    job = cluster.ssh(CONTROLLER, "sbatch --parsable --nodes=2 --output=/dev/null --wrap 'srun sleep 600'").strip()
    wait_for(lambda: state_of(cluster, job) == "RUNNING", STARTS_S, lambda: state_of(cluster, job))
    return job


def state_of(cluster: Cluster, job: str) -> str:
    """The state of a job."""
    return cluster.ssh(CONTROLLER, f"squeue --noheader --jobs={job} --format=%T", check=False).strip()


def one_line(run: Recap) -> str:
    """The output without line breaks."""
    return " ".join(run.output.split())


def test_slurmrestd_ran_before(cluster: Cluster, source: Path) -> None:
    sh(cluster, CONTROLLER, "systemctl is-active slurmrestd && test -S /run/slurmrestd/slurmrestd.socket")


def test_without_a_confirmation_it_only_shows_what_it_would_remove(cluster: Cluster, source: Path) -> None:
    before = {name: files(cluster, address) for name, address in NODES.items()}
    run = uninstall(cluster, source)
    assert run.rc != 0
    assert "add -e uninstall_confirm=true" in one_line(run)
    for host, path in (
        ("ctl", "/etc/slurm/slurm.conf"),
        ("compute000000", "/etc/hpcai/slurmd.env"),
        ("compute000003", "/etc/hpcai/slurmd.env"),
    ):
        assert f"changed: [{host}] => (item={path})" in run.output
    assert {name: files(cluster, address) for name, address in NODES.items()} == before
    assert cluster.nodes(CONTROLLER) == READY


def test_it_refuses_while_a_job_runs_and_names_it(cluster: Cluster, source: Path) -> None:
    job = submit(cluster)
    run = uninstall(cluster, source, uninstall_confirm="true")
    assert run.rc != 0
    assert f"because jobs run: {job} (azureuser, running)" in one_line(run)
    assert run.changed == 0, run.output
    assert state_of(cluster, job) == "RUNNING"
    cluster.ssh(CONTROLLER, f"scancel {job}")


@pytest.fixture(scope="module")
def uninstalled(cluster: Cluster, source: Path) -> Recap:
    """The run that uninstalls, with a job that it cancels and files that it must keep."""
    cluster.run_job(CONTROLLER, "hostname", "--nodes=2", "--job-name=recorded")
    sh(cluster, COMPUTE_0, "echo data > /scratch/kept; mkdir -p /home/azureuser; echo data > /home/azureuser/kept")
    sh(cluster, COMPUTE_3, f"printf '#!/bin/sh\\nexit 0\\n' > {SITE_SCRIPT}; chmod 755 {SITE_SCRIPT}")
    job = submit(cluster)
    run = uninstall(cluster, source, uninstall_confirm="true", uninstall_running_jobs="true")
    assert job.isdecimal()
    return run


def test_it_passes_and_says_what_stays(uninstalled: Recap) -> None:
    assert uninstalled.rc == 0, uninstalled.output
    assert f"No role wrote these files, so they stay: {SITE_SCRIPT}" in one_line(uninstalled)
    assert re.search(r"The roles installed these packages\..* munge\b.* slurmd\b", one_line(uninstalled))


@pytest.mark.parametrize("name", NODES)
def test_no_file_of_the_roles_is_left(cluster: Cluster, uninstalled: Recap, original: set[str], name: str) -> None:
    owned = set(sh(cluster, NODES[name], "cat /var/lib/dpkg/info/*.list").splitlines())
    # A package may list /lib/x, which is /usr/lib/x.
    owned |= {f"/usr{path}" for path in owned}
    left = files(cluster, NODES[name]) - original - owned - STAYS
    assert sorted(path for path in left if not GENERATED.fullmatch(path)) == []


@pytest.mark.parametrize("name", NODES)
def test_no_file_names_the_collection(cluster: Cluster, uninstalled: Recap, original: set[str], name: str) -> None:
    folders = " ".join(LOOKED_AT)
    search = f"grep -rlI hpcai {folders}; find {folders} -name '*hpcai*' ! -type d"
    shown = sh(cluster, NODES[name], search, check=False)
    assert set(shown.splitlines()) - original - STAYS == set()


@pytest.mark.parametrize("name", NODES)
def test_no_unit_of_it_runs_or_starts_at_boot(cluster: Cluster, uninstalled: Recap, name: str) -> None:
    shown = sh(cluster, NODES[name], "systemctl list-units --all --plain --no-legend 'hpcai-*'", check=False)
    assert [line for line in shown.splitlines() if "not-found" not in line] == []
    daemons = "munge slurmd slurmctld slurmdbd slurmrestd"
    states = sh(cluster, NODES[name], f"systemctl is-active {daemons}; systemctl is-enabled {daemons}", check=False)
    assert not {"active", "enabled"} & set(states.split()), states
    assert sh(cluster, NODES[name], "command -v hpcnode || echo none").strip() == "none"
    assert sh(cluster, NODES[name], "test -e /run/slurmrestd || echo none").strip() == "none"


def test_data_and_users_stay(cluster: Cluster, uninstalled: Recap) -> None:
    assert sh(cluster, COMPUTE_0, "cat /scratch/kept /home/azureuser/kept").split() == ["data", "data"]
    assert sh(cluster, COMPUTE_3, f"head -n 1 {SITE_SCRIPT}").strip() == "#!/bin/sh"
    for address in NODES.values():
        assert sh(cluster, address, "id -u alice").strip() == "4001"
    assert "job_state" in sh(cluster, CONTROLLER, "ls /var/lib/slurm/slurmctld")
    statement = "select job_name from slurm_acct_db.sim_job_table"
    assert "recorded" in sh(cluster, CONTROLLER, f"mariadb --batch -e '{statement}'").split()


def test_a_second_run_changes_nothing(cluster: Cluster, source: Path, uninstalled: Recap) -> None:
    again = uninstall(cluster, source, uninstall_confirm="true")
    assert again.rc == 0, again.output
    assert again.changed == 0, again.output


def test_site_yml_sets_up_the_cluster_again(cluster: Cluster, source: Path, uninstalled: Recap) -> None:
    run = cluster.site(source)
    assert run.rc == 0, run.output
    cluster.wait_for_nodes(CONTROLLER, READY)
    assert len(set(cluster.run_job(CONTROLLER, "cat /etc/machine-id", "--nodes=2").split())) == 2
    assert "recorded" in sh(cluster, CONTROLLER, "sacct --allusers --noheader --format=jobname%20")
