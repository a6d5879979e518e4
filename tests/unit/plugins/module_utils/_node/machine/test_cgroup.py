# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Control groups of both versions, as Slurm and systemd create them."""

from __future__ import annotations

from pathlib import Path

import pytest
from stand_ins.machine_tree import MachineTree

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import cgroup
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.cpuset import CpuSet
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

V1_JOB = "slurm/uid_1000/job_7"
V2_JOB = "system.slice/slurmstepd.scope/job_7"


@pytest.fixture
def version_1(tmp_path: Path) -> MachineTree:
    """Version 1 with job 7, which has two steps."""
    tree = MachineTree(tmp_path)
    for controller in ("cpuset", "freezer"):
        tree.cgroup(controller, [1]).cgroup(f"{controller}/{V1_JOB}")
        tree.cgroup(f"{controller}/{V1_JOB}/step_extern", [70])
        tree.cgroup(f"{controller}/{V1_JOB}/step_0/task_0", [71, 72])
    tree.write(f"/sys/fs/cgroup/cpuset/{V1_JOB}/cpuset.cpus", "0-5\n")
    tree.write(f"/sys/fs/cgroup/cpuset/{V1_JOB}/cpuset.effective_cpus", "0-3\n")
    return tree


@pytest.fixture
def version_2(tmp_path: Path) -> MachineTree:
    """Version 2 with job 7 as Slurm 23.11 creates it, and another job."""
    tree = MachineTree(tmp_path).cgroup("", cpuset__cpus__effective="0-7", cgroup__controllers="cpuset cpu")
    tree.cgroup(V2_JOB, cpuset__cpus__effective="4-7", cpuset__cpus="4-7")
    tree.cgroup(f"{V2_JOB}/step_0/user/task_0", [71]).cgroup(f"{V2_JOB}/step_0/user/task_1", [72])
    tree.cgroup(f"{V2_JOB}/step_0/slurm", [69]).cgroup(f"{V2_JOB}/step_extern/user/task_special", [70])
    tree.cgroup("system.slice/slurmstepd.scope/job_71/step_0/user/task_0", [99])
    return tree


def root_of(tree: MachineTree) -> Root:
    """The tree as a root."""
    return Root(str(tree.path))


def test_finds_slurms_jobs_in_version_1(version_1: MachineTree) -> None:
    root = root_of(version_1)
    folders = cgroup.find_slurm_job(root, 7)
    assert folders == (f"/sys/fs/cgroup/cpuset/{V1_JOB}", f"/sys/fs/cgroup/freezer/{V1_JOB}")
    assert cgroup.read_pids(root, folders[1], cgroup.SLURM_INTERNAL_GROUPS) == {71, 72}
    assert cgroup.read_cpus_allowed(root, folders[0]) == CpuSet({0, 1, 2, 3})
    assert cgroup.read_cpus_allowed(root, folders[1]) is None


def test_finds_slurms_jobs_in_version_2(version_2: MachineTree) -> None:
    root = root_of(version_2)
    (folder,) = cgroup.find_slurm_job(root, 7)
    assert folder == f"/sys/fs/cgroup/{V2_JOB}"
    assert cgroup.read_pids(root, folder, cgroup.SLURM_INTERNAL_GROUPS) == {71, 72}
    assert cgroup.read_pids(root, folder) == {69, 70, 71, 72}
    assert cgroup.find_slurm_job(root, 8) == ()


def test_finds_jobs_of_several_slurmd(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path).cgroup("system.slice/n1_slurmstepd.scope/job_7/step_0/user/task_0", [5])
    (folder,) = cgroup.find_slurm_job(root_of(tree), 7)
    assert cgroup.read_pids(root_of(tree), folder, cgroup.SLURM_INTERNAL_GROUPS) == {5}


def test_a_group_without_cpuset_has_the_cpus_of_its_parent(version_2: MachineTree) -> None:
    root = root_of(version_2)
    assert cgroup.read_cpus_allowed(root, f"/sys/fs/cgroup/{V2_JOB}/step_0/user/task_0") == CpuSet({4, 5, 6, 7})
    assert cgroup.read_cpus_allowed(root, "/sys/fs/cgroup/user.slice/gone") == CpuSet(range(8))
    assert cgroup.read_cpus_allowed(Root(f"{version_2.path}/nothing"), "/sys/fs/cgroup") is None


@pytest.mark.parametrize("path", [V2_JOB, f"/{V2_JOB}/", f"/sys/fs/cgroup/{V2_JOB}"])
def test_a_group_is_found_with_and_without_its_mount_point(version_2: MachineTree, path: str) -> None:
    assert cgroup.find_cgroups(root_of(version_2), path) == (f"/sys/fs/cgroup/{V2_JOB}",)


def test_a_group_of_version_1_is_found_with_and_without_its_controller(version_1: MachineTree) -> None:
    both = (f"/sys/fs/cgroup/cpuset/{V1_JOB}", f"/sys/fs/cgroup/freezer/{V1_JOB}")
    assert cgroup.find_cgroups(root_of(version_1), V1_JOB) == both
    assert cgroup.find_cgroups(root_of(version_1), f"freezer/{V1_JOB}") == both[1:]


@pytest.mark.parametrize("path", ["nothing", "../../etc", "system.slice/../../../etc"])
def test_paths_that_are_no_group_are_not_found(version_2: MachineTree, path: str) -> None:
    version_2.write("/etc/cgroup.procs", "1\n")
    assert cgroup.find_cgroups(root_of(version_2), path) == ()


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        (f"0::/{V2_JOB}/step_0", f"/sys/fs/cgroup/{V2_JOB}/step_0"),
        ("0::/", "/sys/fs/cgroup"),
        ("0::/../../other", "/sys/fs/cgroup"),
        (f"12:pids:/x\n5:cpuset:/{V1_JOB}\n1:name=systemd:/y\n0::/z", f"/sys/fs/cgroup/cpuset/{V1_JOB}"),
        ("12:pids:/x", None),
        ("", None),
    ],
)
def test_finds_the_group_that_limits_a_processes_cpus(tmp_path: Path, text: str, folder: str | None) -> None:
    tree = MachineTree(tmp_path).process(5, "0", cgroup=text)
    assert cgroup.read_cgroup_of(root_of(tree), 5) == folder
