# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Slurm shows of its nodes, and which resources the jobs of ordinary users get."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from testinfra.host import Host

from simulated.cluster import Cluster
from simulator.backends.containers.abilities import FILE, Abilities


@pytest.fixture(scope="module")
def shown(controller: Host) -> dict[str, str]:
    """What `scontrol show node` shows of compute-0, by key."""
    line = controller.check_output("scontrol --oneliner show node compute-0")
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


@pytest.fixture(scope="module")
def abilities(azure: Cluster) -> Abilities:
    """The features that Slurm can use in containers on this host, as the simulator has probed them."""
    return Abilities(**json.loads((azure.state / FILE).read_text(encoding="utf-8")))


def test_sinfo_shows_one_partition_for_the_scale_set(controller: Host) -> None:
    """The fields are partition, availability, time limit, node count, state and names. A tilde marks missing nodes.

    For a while after a reconfiguration, slurmctld shows an asterisk instead, which marks nodes that do not answer.
    """
    lines = controller.check_output("sinfo --noheader --format='%%P %%a %%l %%D %%t %%N'").splitlines()
    assert sorted(line.replace("down*", "down~") for line in lines) == [
        "compute* up infinite 2 idle compute-[0,3]",
        "compute* up infinite 34 down~ compute-[1-2,4-35]",
    ]


def test_scontrol_shows_the_resources_of_the_vm_size(shown: dict[str, str]) -> None:
    """Two CPUs and 2048 MiB less 5 %, as described for simulated nodes, and the stand-ins for GPUs."""
    wanted = {
        "NodeName": "compute-0",
        "CPUTot": "2",
        "RealMemory": "1945",
        "AvailableFeatures": "nd96asr_v4,beeond",
        "Gres": "gpu:2",
        "State": "IDLE",
        "Partitions": "compute",
    }
    assert {key: shown.get(key) for key in wanted} == wanted


def test_mpi_ranks_of_an_ordinary_user_see_each_other_on_two_nodes(alice: Any) -> None:
    program = "from mpi4py import MPI; c = MPI.COMM_WORLD; print(c.allreduce(c.rank + 1), MPI.Get_processor_name())"
    lines = alice.srun("--mpi=pmix --nodes=2 --ntasks=4 --ntasks-per-node=2", f'python3 -c "{program}"').splitlines()
    assert sorted(lines) == ["10 compute000000"] * 2 + ["10 compute000003"] * 2


def test_ranks_can_resolve_the_names_of_slurm_nodes(alice: Any) -> None:
    """enroot's hook for PyTorch sets MASTER_ADDR to the name of the job's first node."""
    master = "scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1"
    lines = alice.srun("--mpi=none --nodes=2 --ntasks-per-node=1", f"sh -c 'getent hosts $({master})'").splitlines()
    assert [line.split()[1] for line in lines] == ["compute-0", "compute-0"]
    assert len({line.split()[0] for line in lines}) == 1
    assert not lines[0].startswith("127.")


def test_a_dead_rank_ends_its_step(alice: Any) -> None:
    """The rank dies after 3 s: earlier, srun's signal may find no step on the other node, and srun retries after 32 s.

    That is STEP_ABORT_TIME and KillWait in src/api/step_launch.c of Slurm.
    """
    began = time.monotonic()
    body = "if [ $SLURM_PROCID = 1 ]; then sleep 3; exit 3; fi; exec sleep 280"
    done = alice.run(f"srun --mpi=none --time=6 --nodes=2 --ntasks-per-node=1 sh -c '{body}'", 240)
    assert done.rc not in (0, 124)
    assert time.monotonic() - began < 200


@pytest.fixture(scope="module")
def config(controller: Host) -> dict[str, str]:
    """What `scontrol show config` shows, by key."""
    lines = controller.check_output("scontrol show config").splitlines()
    return {key.strip(): value.strip() for key, _mark, value in (line.partition("=") for line in lines)}


def test_jobs_have_cgroups_where_this_host_has_them(
    alice: Any, controller: Host, abilities: Abilities, config: dict[str, str]
) -> None:
    conf = controller.file("/etc/slurm/cgroup.conf").content_string.splitlines()
    able = bool(abilities.cgroups)
    assert f"CgroupPlugin={abilities.cgroups or 'cgroup/v1'}" in conf
    assert [f"Constrain{what}=YES" in conf for what in ("Cores", "RAMSpace", "Devices")] == [able] * 3
    assert config["ProctrackType"] == ("proctrack/cgroup" if able else "proctrack/linuxproc")
    assert ("task/cgroup" in config["TaskPlugin"]) is able
    # What the kernel says: the cgroup of the job's process is that of the job.
    number, *groups = alice.srun("--mpi=none --ntasks=1", "sh -c 'echo $SLURM_JOB_ID; cat /proc/self/cgroup'").split()
    assert any(f"/job_{number}/" in group for group in groups) is able, groups


def test_jobs_have_a_tmp_of_their_own_where_this_host_can_mount_it(
    alice: Any, computes: list[Host], abilities: Abilities, config: dict[str, str]
) -> None:
    assert (config["JobContainerType"] == "job_container/tmpfs") is abilities.private_tmp
    job = (
        "--mpi=none --ntasks=1 --nodelist=compute-0",
        "sh -c 'touch /tmp/of-$SLURM_JOB_ID; echo $SLURM_JOB_ID; ls /tmp'",
    )
    first, *_own = alice.srun(*job).split()
    second, *names = alice.srun(*job).split()
    on_node = computes[0].check_output("ls /tmp").split()
    computes[0].check_output("rm -f /tmp/of-%s /tmp/of-%s", first, second)
    assert f"of-{second}" in names
    # A shared /tmp shows the file of the first job, in the second one and on the node.
    shared = not abilities.private_tmp
    assert [f"of-{first}" in names, f"of-{first}" in on_node, f"of-{second}" in on_node] == [shared] * 3


def test_two_jobs_share_a_node_and_see_different_gpus(alice: Any, abilities: Abilities) -> None:
    """Both jobs start before either ends. If Slurm constrains devices, each job counts its GPUs from 0, and cannot open
    the other's.
    """
    constrained = bool(abilities.cgroups)
    job = "srun --time=2 --mpi=none --nodelist=compute-0 --ntasks=1 --mem=200 --gres=gpu:1"
    denied = "$(for n in 0 1; do head -c 1 /dev/stand-in-gpu$n 2>&1 | grep -c permitted; done)"
    say = f"echo began $SLURM_STEP_GPUS $CUDA_VISIBLE_DEVICES {denied}; sleep 8; echo ended"
    lines = alice.check_output(f"{job} sh -c '{say}' & {job} sh -c '{say}' & wait").splitlines()
    assert sorted(lines[:2]) == (
        ["began 0 0 0 1", "began 1 0 1 0"] if constrained else ["began 0 0 0 0", "began 1 1 0 0"]
    )
    assert lines[2:] == ["ended"] * 2


def test_job_without_a_gpu_sees_none(alice: Any) -> None:
    assert alice.srun("--mpi=none --ntasks=1", "sh -c 'echo ${CUDA_VISIBLE_DEVICES:-none}'") in ("none", "NoDevFiles")


def test_more_gpus_than_a_node_has_are_refused_at_once(alice: Any) -> None:
    done = alice.run("srun --mpi=none --nodes=1 --gres=gpu:3 true")
    assert done.rc != 0
    assert "Requested node configuration is not available" in done.stderr
