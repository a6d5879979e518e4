# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which processes are selected by name, ID, control group and Slurm job, and which never are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from stand_ins.machine_tree import MachineTree

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.cpuset import CpuSet
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.select import (
    Selected,
    Selection,
    SelectionError,
    own_cpus,
    select,
)

JOB = "system.slice/slurmstepd.scope/job_7"


@pytest.fixture
def tree(tmp_path: Path) -> MachineTree:
    """Job 7 with two ranks and its launcher, and a process outside."""
    tree = MachineTree(tmp_path).cgroup("", cpuset__cpus__effective="0-7")
    tree.cgroup(JOB, cpuset__cpus__effective="4-7")
    tree.cgroup(f"{JOB}/step_0/user/task_0", [71]).cgroup(f"{JOB}/step_0/user/task_1", [72])
    tree.cgroup(f"{JOB}/step_0/slurm", [69]).cgroup(f"{JOB}/step_batch/user/task_0", [68])
    tree.process(69, "0-7", "slurmstepd").process(68, "4-7", "bash", command="bash job.sh xhpl", cgroup=f"0::/{JOB}")
    tree.process(71, "4-5", environment={"SLURM_JOB_ID": "7"}, cgroup=f"0::/{JOB}/step_0/user/task_0")
    tree.process(72, "6-7", environment={"SLURM_JOB_ID": "7"}, cgroup=f"0::/{JOB}/step_0/user/task_1")
    tree.process(99, "0-7", "other", environment={"SLURM_JOB_ID": "71"}, cgroup="0::/user.slice")
    return tree


def select_pids(tree: MachineTree, selection: Selection) -> list[int]:
    """Return the IDs of the selected processes."""
    return [process.pid for process in select_from(tree, selection).processes]


def select_from(tree: MachineTree, selection: Selection) -> Selected:
    """Select processes of a tree."""
    return select(Root(str(tree.path)), selection)


def test_selects_by_name_and_by_command_line(tree: MachineTree) -> None:
    assert select_pids(tree, Selection("^xhpl$")) == [71, 72]
    assert select_pids(tree, Selection("xhpl")) == [68, 71, 72]
    assert select_pids(tree, Selection(r"job\.sh")) == [68]
    assert select_pids(tree, Selection("nothing")) == []


def test_selects_by_process_id_and_lists_missing_ones(tree: MachineTree) -> None:
    selected = select_from(tree, Selection(pids=(99, 71, 12345)))
    assert [process.pid for process in selected.processes] == [71, 99]
    assert selected.missing == (12345,)


def test_selects_by_control_group_with_those_below(tree: MachineTree) -> None:
    assert select_pids(tree, Selection(cgroup=JOB)) == [68, 71, 72]
    assert select_pids(tree, Selection(cgroup=f"{JOB}/step_0/user/task_1")) == [72]
    assert select_pids(tree, Selection(cgroup="nothing")) == []


def test_a_pattern_narrows_another_selection(tree: MachineTree) -> None:
    assert select_pids(tree, Selection("^xhpl", cgroup=JOB)) == [71, 72]
    assert select_pids(tree, Selection("^xhpl", pids=(71, 99))) == [71]
    assert select_pids(tree, Selection("^bash", slurm_job=7)) == [68]


def test_selects_a_slurm_job_by_control_groups_without_slurmstepd(tree: MachineTree) -> None:
    assert select_pids(tree, Selection(slurm_job=7)) == [68, 71, 72]
    assert select_pids(tree, Selection(slurm_job=8)) == []


def test_selects_a_slurm_job_by_environment_without_control_groups(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path).process(5, "0", environment={"SLURM_JOB_ID": "7"})
    tree.process(6, "0", environment={"SLURM_JOBID": "7"}).process(7, "0", environment={"SLURM_JOB_ID": "77"})
    tree.process(8, "0").process(9, "0", "slurmstepd", environment={"SLURM_JOB_ID": "7"})
    assert select_pids(tree, Selection(slurm_job=7)) == [5, 6]


def test_the_selection_has_the_cpus_that_the_control_groups_allow(tree: MachineTree) -> None:
    assert select_from(tree, Selection(slurm_job=7)).cpus == CpuSet({4, 5, 6, 7})
    assert select_from(tree, Selection(pids=(71,))).cpus == CpuSet({4, 5, 6, 7})
    # The control group of the other process allows all CPUs.
    assert select_from(tree, Selection(pids=(71, 99))).cpus == CpuSet(range(8))
    # The control group of the last process is not known.
    tree.process(100, "0")
    assert select_from(tree, Selection(pids=(71, 100))).cpus is None


@pytest.mark.parametrize(
    "options",
    [
        {"pids": (1,), "cgroup": "x"},
        {"cgroup": "x", "slurm_job": 1},
        {"pids": (1,), "slurm_job": 1},
        {"pattern": "("},
        {"pattern": ""},
    ],
)
def test_refuses_invalid_selections(options: dict[str, object]) -> None:
    with pytest.raises(SelectionError):
        Selection(**options)  # type: ignore[arg-type]


def test_an_empty_selection_is_false() -> None:
    assert not Selection()
    assert Selection(cgroup="job")
    assert Selection(slurm_job=0)


def test_never_selects_itself_or_its_ancestors_by_name() -> None:
    mark = f"hpcai-test-{os.getpid()}"
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", mark]) as child:
        try:
            # The pattern is in our own command line, too, if hpcnode got it as an argument, as here.
            ours = {process.pid for process in select(Root(), Selection("python|pytest")).processes}
            assert child.pid in ours
            assert not ours & {os.getpid(), os.getppid(), 1}
            assert [process.pid for process in select(Root(), Selection(mark)).processes] == [child.pid]
            assert select(Root(), Selection(pids=(os.getpid(),))).processes
        finally:
            child.kill()


def test_own_cpus_are_known_on_this_machine_only(tree: MachineTree) -> None:
    assert own_cpus(Root(str(tree.path))) is None
    allowed = own_cpus(Root())
    assert allowed is None or os.sched_getaffinity(0) <= allowed
