# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command of a run over two nodes, and what its output says of them."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.pair import FAIL, PASS, UNKNOWN
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.pair_run import MPIRUN, command, trial

from .deep_playing import recorded

PAIR = ("gpu-0", "gpu-1")
WELL = recorded("all_reduce_perf.txt")
NCCL = {"NCCL_TOPO_FILE": "/var/lib/hpcai/nccl-topo.xml", "NCCL_IB_PCI_RELAXED_ORDERING": "1"}


def test_srun_gets_the_nodes_and_every_variable() -> None:
    words = command(PAIR, 8, "8G", environment=NCCL, limit_s=120)
    # Its own time, and what srun may wait for the nodes.
    assert words[:4] == ["timeout", "--kill-after=10", "180", "srun"]
    assert {"--exclusive", "--mem=0", "--time=4", "--immediate=60", "--mpi=pmix", "--kill-on-bad-exit=1"} <= set(words)
    assert {"--nodes=2", "--nodelist=gpu-0,gpu-1", "--ntasks-per-node=8", "--gpus-per-node=8"} <= set(words)
    assert words.index("env") < words.index("NCCL_TOPO_FILE=/var/lib/hpcai/nccl-topo.xml")
    assert words[-11] == "/opt/nccl-tests/build/all_reduce_perf"
    assert " ".join(words[-10:]) == "-b 8G -e 8G -g 1 -c 1 -n 20"


def test_the_time_is_rounded_up_to_minutes_and_longer_than_the_run_may_take() -> None:
    assert "--time=4" in command(PAIR, 8, "8G", limit_s=61)
    assert "--time=3" in command(PAIR, 8, "8G", limit_s=60)


def test_the_sites_options_count_more_than_ours() -> None:
    words = command(PAIR, 8, "8G", options=("--partition=hpc", "--mem=64G"))
    assert words.index("--mem=0") < words.index("--mem=64G") < words.index("env")


def test_mpirun_gets_them_too() -> None:
    words = command(PAIR, 4, "16G", MPIRUN, "/x/all_reduce_perf", NCCL)
    assert words[words.index("--host") + 1] == "gpu-0:4,gpu-1:4"
    assert words[words.index("-np") + 1] == "8"
    assert words[2] == "300"
    assert words[words.index("NCCL_TOPO_FILE=/var/lib/hpcai/nccl-topo.xml") - 1] == "-x"


def test_what_cannot_be_run_is_an_error() -> None:
    for nodes, launcher, size in ((PAIR[:1], "srun", "8G"), (PAIR, "ssh", "8G"), (PAIR, "srun", "much")):
        with pytest.raises(ValueError, match=r"two of them|no launcher|no message size"):
            command(nodes, 8, size, launcher)


def test_a_good_run_passes_at_its_limit_and_fails_below() -> None:
    assert trial(PAIR, 0, WELL, "", 232.0).verdict == PASS
    below = trial(PAIR, 0, WELL, "", 233.0)
    assert (below.verdict, below.value, below.why) == (FAIL, 232.824, "232.8 GB/s, and should be at least 233")
    assert trial(PAIR, 0, WELL, "", None).nodes == PAIR


def test_wrong_values_a_crash_and_a_hang_fail() -> None:
    assert trial(PAIR, 0, WELL.replace("values : 0 OK", "values : 9 FAILED"), "", None).why == "9 wrong values"
    crash = trial(PAIR, 1, WELL, "gpu-1: Test NCCL failure common.cu:958 'unhandled system error'\n", 1.0)
    assert (crash.verdict, crash.why) == (FAIL, "gpu-1: Test NCCL failure common.cu:958 'unhandled system error'")
    assert trial(PAIR, 124, "", "", None).verdict == FAIL


@pytest.mark.parametrize(
    ("stderr", "why"),
    [
        (
            "gpu-1: Test CUDA failure common.cu:1 'x'\n  Error: Operation now in progress (115)\n",
            "gpu-1: Test CUDA failure",
        ),
        (
            "it broke\nslurmstepd: error: *** STEP 7.0 ON gpu-1 CANCELLED\nsrun: Force Terminated StepId=7.0\n",
            "it broke",
        ),
        ("srun: error: gpu-1: tasks 0-1: Exited with exit code 1\n", "srun: error: gpu-1: tasks 0-1: Exited"),
        ("", "exit status 1"),
    ],
)
def test_a_run_that_breaks_says_why_before_what_slurm_and_mpi_say_of_it(stderr: str, why: str) -> None:
    assert trial(PAIR, 1, "", stderr, None).why.startswith(why)


@pytest.mark.parametrize(
    ("rc", "stdout", "stderr"),
    [
        (0, "", ""),
        (127, "", "env: srun: No such file or directory\n"),
        (1, "", "srun: error: Unable to allocate resources: Requested nodes are busy\n"),
        (1, "", "srun: error: Unable to create step for job 7: More processors requested than permitted\n"),
        (1, "", "srun: fatal: Invalid MPI type 'pmix', --mpi=list for acceptable types\n"),
        (1, "", "slurmstepd: error: *** JOB 7 ON gpu-0 CANCELLED AT 2026-11-22T16:40:00 DUE TO PREEMPTION ***\n"),
        (124, "", "srun: job 7 queued and waiting for resources\n"),
        (1, "", "all_reduce_perf: error while loading shared libraries: libmpi.so.40: cannot open\n"),
    ],
)
def test_a_run_that_did_not_come_about_says_nothing(rc: int, stdout: str, stderr: str) -> None:
    assert trial(PAIR, rc, stdout, stderr, 1.0).verdict == UNKNOWN


def test_a_run_that_waited_for_its_nodes_and_hung_then_fails() -> None:
    said = "srun: job 7 queued and waiting for resources\nsrun: job 7 has been allocated resources\n"
    assert trial(PAIR, 124, "", said, 1.0).verdict == FAIL


def test_a_program_without_mpi_has_not_left_its_node() -> None:
    assert trial(PAIR, 0, WELL, "", None, gpus=4).verdict == PASS
    alone = trial(PAIR, 0, WELL, "", None, gpus=8)
    assert (alone.verdict, alone.why) == (UNKNOWN, "it ran on 8 GPUs: was it built with MPI?")
