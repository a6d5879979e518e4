# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The nodes, services, keys and commands of a converged cluster."""

from __future__ import annotations

import json

import pytest
from testinfra.host import Host


def run_job(controller: Host, options: str, command: str) -> str:
    """Return what a job prints. Without free nodes, srun would wait forever: its own time limit starts with the job."""
    return str(controller.check_output(f"timeout 60 srun {options} --time=2 {command}"))


def test_there_are_two_compute_nodes(computes: list[Host]) -> None:
    assert len(computes) == 2


def test_all_nodes_are_idle(controller: Host) -> None:
    shown = controller.check_output("sinfo --Node --noheader --states=idle --format=%%N:%%T:%%P")
    assert sorted(shown.split()) == ["compute-0:idle:compute*", "compute-3:idle:compute*"]


def test_spares_are_declared_and_get_no_jobs(controller: Host) -> None:
    shown = controller.check_output("sinfo --noheader --states=down --format='%%N|%%E'")
    assert shown == "compute-[1-2,4-35]|hpcai: no such instance"


def test_two_node_job_runs_on_two_machines(controller: Host, computes: list[Host]) -> None:
    ran = run_job(controller, "--mpi=none --nodes=2 --ntasks-per-node=1", "cat /etc/machine-id").split()
    machine_ids = [host.file("/etc/machine-id").content_string.strip() for host in computes]
    assert sorted(ran) == sorted(machine_ids)
    assert len(set(ran)) == 2


def test_mpi_ranks_see_each_other(controller: Host) -> None:
    program = "from mpi4py import MPI; c = MPI.COMM_WORLD; print(c.allreduce(c.rank + 1))"
    sums = run_job(controller, "--mpi=pmix --nodes=2 --ntasks=4", f"python3 -c '{program}'").split()
    assert sums == ["10"] * 4


def test_a_nodes_resources_are_those_of_its_description(controller: Host) -> None:
    """The inventory describes the size of simulated nodes: 2 CPUs, and 2048 MiB less 5 %."""
    shown = controller.check_output("scontrol --oneliner show node compute-0")
    assert " CPUTot=2 " in shown
    assert " RealMemory=1945 " in shown
    assert " AvailableFeatures=nd96asr_v4,beeond " in shown


def test_every_node_has_the_controllers_configuration(controller: Host, computes: list[Host]) -> None:
    wanted = controller.file("/etc/slurm/slurm.conf").sha256sum
    for host in computes:
        assert host.file("/var/lib/slurm/slurmd/conf-cache/slurm.conf").sha256sum == wanted
        assert not host.file("/etc/slurm/slurm.conf").exists


def test_services_run_where_they_belong_and_start_at_boot(controller: Host, computes: list[Host]) -> None:
    for host, runs, rests in (
        (controller, "slurmctld", "slurmd"),
        *((host, "slurmd", "slurmctld") for host in computes),
    ):
        assert host.service(runs).is_running
        assert host.service(runs).is_enabled
        assert host.service("munge").is_running
        assert not host.service(rests).is_running
        # The image enables slurmd, for nodes that join automatically; without /etc/hpcai/slurmd.env it does not start.
        assert host.service(rests).is_enabled == (rests == "slurmd")


def test_all_machines_have_the_same_private_munge_key(controller: Host, computes: list[Host]) -> None:
    keys = set()
    for host in (controller, *computes):
        key = host.file("/etc/munge/munge.key")
        assert (key.user, key.group, oct(key.mode)) == ("munge", "munge", "0o400")
        keys.add(key.sha256sum)
    assert len(keys) == 1
    # Each machine fetches the key from the vault with its own identity, so the controller needs no second copy.
    assert not controller.file("/etc/hpcai/munge.key").exists


@pytest.mark.thorough
def test_recorded_packages_are_installed(controller: Host, computes: list[Host]) -> None:
    for host in (controller, *computes):
        recorded = json.loads(host.file("/etc/ansible/facts.d/hpcai_slurm.fact").content_string)["packages"]
        assert recorded
        for package in recorded:
            assert host.package(package).is_installed, package


def test_hpcnode_works_on_every_machine(controller: Host, computes: list[Host]) -> None:
    """Ordinary users can call it, too."""
    for host in (controller, *computes):
        with host.sudo("nobody"):
            answer = json.loads(host.check_output("hpcnode --version --json"))
        assert (answer["schema"], answer["command"], answer["status"]) == (1, "version", 0)
        sizes = json.loads(host.check_output("hpcnode sku --all --json"))["sizes"]
        assert sizes["Standard_ND96amsr_A100_v4"]["gpu_count"] == 8
        assert host.run("hpcnode sku no_such_size").rc == 2
        assert host.run("hpcnode no-such-command").rc == 3


def test_hpcnode_reads_the_vm_size_from_its_settings(computes: list[Host]) -> None:
    for host in computes:
        answer = json.loads(host.check_output("hpcnode sku --json"))
        assert (answer["vm_size"], answer["origin"]) == ("Standard_ND96asr_v4", "node.json")
        # From the inventory's description of simulated nodes.
        assert answer["facts"]["vcpus"] == 2


def test_hpcnodes_units_start_at_boot_before_slurmd(controller: Host, computes: list[Host]) -> None:
    for host in (controller, *computes):
        for unit in ("hpcai-boot.target", "hpcai-scratch.service", "hpcai-clocks.service", "hpcai-nccl.service"):
            assert host.check_output(f"systemctl is-enabled {unit}") == "enabled"
        assert host.run("systemctl is-failed hpcai-boot.target 'hpcai-*.service'").rc != 0
    for host in computes:
        assert "hpcai-scratch.service" in host.check_output("systemctl show --property=Requires slurmd")


def test_all_machines_have_the_settings_of_the_same_cluster(controller: Host, computes: list[Host]) -> None:
    controllers = set()
    for host, function in ((controller, "controller"), *((host, "compute") for host in computes)):
        file = host.file("/etc/hpcai/cluster.json")
        assert (file.user, oct(file.mode)) == ("root", "0o644")
        settings = json.loads(file.content_string)
        assert function in settings["functions"]
        controllers.add(tuple(settings["controllers"]))
    assert controllers == {("10.78.0.4",)}


def test_azcopy_and_its_settings_belong_to_root_and_grants_are_private(controller: Host, computes: list[Host]) -> None:
    for host in (controller, *computes):
        files = [host.file(f"/etc/hpcai/{name}.json") for name in ("blob", "grants")]
        assert [(file.user, oct(file.mode)) for file in files] == [("root", "0o644"), ("root", "0o600")]
        program = host.file(json.loads(files[0].content_string)["azcopy"])
        assert (program.is_file, program.user, oct(program.mode)) == (True, "root", "0o755")
