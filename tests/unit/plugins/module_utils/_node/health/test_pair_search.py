# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The search under Slurm: it finds the bad nodes and links of a test's cluster, and leaves out nodes with jobs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.pair_search import (
    MPIRUN,
    RunOptions,
    command,
    in_words,
    search,
    trial,
    unavailable_nodes,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.verdict import FAIL, PASS, UNKNOWN
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.hostlist import expand
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.job_control import Job
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.nodes import NodeState

from .deep_playing import recorded

PAIR = ("gpu-0", "gpu-1")
GOOD_OUTPUT = recorded("all_reduce_perf.txt")
NCCL = {"NCCL_TOPO_FILE": "/var/lib/hpcai/nccl-topo.xml", "NCCL_IB_PCI_RELAXED_ORDERING": "1"}


def test_srun_gets_the_nodes_and_every_variable() -> None:
    words = command(PAIR, 8, "8G", environment=NCCL, limit_s=120)
    # The time of the run, and the time that srun may wait for the nodes.
    assert words[:4] == ["timeout", "--kill-after=10", "180", "srun"]
    assert {"--exclusive", "--mem=0", "--time=4", "--immediate=60", "--mpi=pmix", "--kill-on-bad-exit=1"} <= set(words)
    assert {"--nodes=2", "--nodelist=gpu-0,gpu-1", "--ntasks-per-node=8", "--gpus-per-node=8"} <= set(words)
    assert words.index("env") < words.index("NCCL_TOPO_FILE=/var/lib/hpcai/nccl-topo.xml")
    assert words[-11] == "/opt/nccl-tests/build/all_reduce_perf"
    assert " ".join(words[-10:]) == "-b 8G -e 8G -g 1 -c 1 -n 20"


def test_the_time_limit_of_the_job_covers_the_run_in_full_minutes() -> None:
    assert "--time=4" in command(PAIR, 8, "8G", limit_s=61)
    assert "--time=3" in command(PAIR, 8, "8G", limit_s=60)


def test_the_sites_options_come_after_ours() -> None:
    words = command(PAIR, 8, "8G", options=("--partition=hpc", "--mem=64G"))
    assert words.index("--mem=0") < words.index("--mem=64G") < words.index("env")


def test_mpirun_gets_the_nodes_and_every_variable() -> None:
    words = command(PAIR, 4, "16G", MPIRUN, "/x/all_reduce_perf", NCCL)
    assert words[words.index("--host") + 1] == "gpu-0:4,gpu-1:4"
    assert words[words.index("-np") + 1] == "8"
    assert words[2] == "300"
    assert words[words.index("NCCL_TOPO_FILE=/var/lib/hpcai/nccl-topo.xml") - 1] == "-x"


def test_invalid_nodes_launcher_or_size_are_an_error() -> None:
    for nodes, launcher, size in ((PAIR[:1], "srun", "8G"), (PAIR, "ssh", "8G"), (PAIR, "srun", "much")):
        with pytest.raises(ValueError, match=r"at least two nodes|not a launcher|not a message size"):
            command(nodes, 8, size, launcher)


def test_a_run_passes_at_its_limit_and_fails_below() -> None:
    assert trial(PAIR, 0, GOOD_OUTPUT, "", 232.0).verdict == PASS
    below = trial(PAIR, 0, GOOD_OUTPUT, "", 233.0)
    assert (below.verdict, below.value, below.why) == (FAIL, 232.824, "232.8 GB/s, but should be at least 233")
    assert trial(PAIR, 0, GOOD_OUTPUT, "", None).nodes == PAIR


def test_wrong_values_a_crash_and_a_hang_fail() -> None:
    assert trial(PAIR, 0, GOOD_OUTPUT.replace("values : 0 OK", "values : 9 FAILED"), "", None).why == "9 wrong values"
    crash = trial(PAIR, 1, GOOD_OUTPUT, "gpu-1: Test NCCL failure common.cu:958 'unhandled system error'\n", 1.0)
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
def test_the_programs_error_is_reported_and_not_those_of_slurm_and_mpi(stderr: str, why: str) -> None:
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
def test_a_run_that_did_not_start_is_unknown(rc: int, stdout: str, stderr: str) -> None:
    assert trial(PAIR, rc, stdout, stderr, 1.0).verdict == UNKNOWN


def test_a_run_that_hangs_after_it_got_its_nodes_fails() -> None:
    stderr = "srun: job 7 queued and waiting for resources\nsrun: job 7 has been allocated resources\n"
    assert trial(PAIR, 124, "", stderr, 1.0).verdict == FAIL


def test_a_program_without_mpi_is_unknown() -> None:
    assert trial(PAIR, 0, GOOD_OUTPUT, "", None, gpus=4).verdict == PASS
    alone = trial(PAIR, 0, GOOD_OUTPUT, "", None, gpus=8)
    assert (alone.verdict, alone.why) == (UNKNOWN, "it ran on 8 GPUs: is the program built with MPI?")


OPTIONS = RunOptions(8, at_least=175.0, srun=("--partition=hpc",))


def printed(rate: float) -> str:
    """Return the last lines that all_reduce_perf prints."""
    row = (
        f"  8589934592    2147483648     float     sum      -1   91850   93.52  {rate}  0   91790   93.58  {rate}  0\n"
    )
    return f"{row}# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {rate}\n#\n"


class Cluster:
    """Nodes, some of them or of their links bad: pairs with these are slow, and larger groups fail."""

    def __init__(self, bad: Sequence[str] = (), links: Sequence[frozenset[str]] = (), never: bool = False) -> None:
        self.bad, self.links, self.never = {*bad}, links, never
        self.ran: list[list[str]] = []
        self.words: list[str] = []

    def run(self, words: Sequence[str], seconds: float) -> Result:
        """Stand in for the runner."""
        # The run's own timeout must be shorter, so that srun can clean up.
        assert seconds > OPTIONS.seconds
        self.words = list(words)
        names = expand(next(word for word in words if word.startswith("--nodelist=")).partition("=")[2])
        self.ran.append(names)
        if self.never:
            return Result(tuple(words), 1, "", "srun: error: Unable to allocate resources: Requested nodes are busy")
        spoiled = bool(self.bad & {*names}) or any(link <= {*names} for link in self.links)
        if spoiled and len(names) > 2:
            return Result(tuple(words), 1, "", "NCCL WARN Call to ibv_modify_qp failed")
        return Result(tuple(words), 0, printed(80.0 if spoiled else 187.3), "")


def names(count: int) -> list[str]:
    """Return names of nodes."""
    return [f"compute-{number}" for number in range(count)]


@pytest.mark.parametrize(
    ("count", "culprits"), [(3, (0,)), (4, (1,)), (4, (0, 2)), (7, (6,)), (7, (0, 2)), (16, (1,)), (16, (0, 2, 9))]
)
def test_finds_the_bad_nodes(count: int, culprits: tuple[int, ...]) -> None:
    played = Cluster(bad=[f"compute-{number}" for number in culprits])
    found = search(names(count), OPTIONS, played.run)
    assert set(found.step.bad) == played.bad
    assert set(found.step.good) == {*names(count)} - played.bad
    assert found.rounds <= 6


def test_the_sites_options_go_to_srun() -> None:
    played = Cluster()
    search(names(2), OPTIONS, played.run)
    assert played.words.index("srun") < played.words.index("--partition=hpc") < played.words.index("env")


def test_if_all_pairs_work_all_nodes_are_tried_together() -> None:
    played = Cluster()
    found = search(names(6), OPTIONS, played.run)
    assert sorted(played.ran[-1]) == names(6)
    assert (found.step.bad, found.step.unclear) == ((), ())
    assert found.step.words == "all nodes work with each other"


def test_finds_the_bad_link_of_a_large_group() -> None:
    link = frozenset({"compute-1", "compute-6"})
    found = search(names(8), OPTIONS, Cluster(links=[link]).run)
    assert [frozenset(pair) for pair in found.step.links] == [link]
    assert found.step.bad == ()


def test_two_nodes_are_tried_once() -> None:
    played = Cluster()
    search(names(2), OPTIONS, played.run)
    assert len(played.ran) == 1


def test_runs_that_never_start_end_the_search_and_blame_no_node() -> None:
    found = search(names(4), OPTIONS, Cluster(never=True).run)
    assert found.step.bad == ()
    assert set(found.step.unclear) == {*names(4)}


def test_the_limit_for_pairs_does_not_apply_to_larger_groups() -> None:
    found = search(names(4), OPTIONS, lambda words, _seconds: Result(tuple(words), 0, printed(180.0), ""))
    assert found.step.bad == ()
    slow = RunOptions(8, at_least=175.0)

    def in_a_group(words: Sequence[str], _seconds: float) -> Result:
        return Result(tuple(words), 0, printed(180.0 if "--nodes=2" in words else 90.0), "")

    assert search(names(4), slow, in_a_group).step.words == "all nodes work with each other"


def test_each_run_of_each_round_is_reported() -> None:
    reported: list[str] = []
    search(names(6), OPTIONS, Cluster().run, report=reported.append)
    first = [f"round 1: pair {done} of 3 done" for done in range(4)]
    assert reported == [*first, *["round 2: 6 nodes together"] * 2]


def test_a_report_that_fails_ends_the_search_after_the_current_runs() -> None:
    cluster = Cluster()

    def report(words: str) -> None:
        if "pair 1" in words:
            raise RuntimeError("nobody waits")

    with pytest.raises(RuntimeError, match="nobody waits"):
        search(names(6), OPTIONS, cluster.run, report=report)
    assert len(cluster.ran) == 3


def test_a_run_is_described_in_one_line() -> None:
    slow = search(names(2), OPTIONS, Cluster(bad=["compute-0"]).run).trials[0]
    assert in_words(slow) == "compute-[0-1]: fail, 80 GB/s, but should be at least 175"
    assert in_words(search(names(2), OPTIONS, Cluster().run).trials[0]) == "compute-[0-1]: pass, 187.3 GB/s"


def test_nodes_with_jobs_or_out_of_scheduling_are_left_out() -> None:
    known = {
        "n-0": NodeState("n-0", ("IDLE",), ""),
        "n-1": NodeState("n-1", ("MIXED",), ""),
        "n-2": NodeState("n-2", ("IDLE", "DRAIN"), "bad fan"),
        "n-3": NodeState("n-3", ("IDLE", "NOT_RESPONDING"), ""),
        "n-4": NodeState("n-4", ("COMPLETING",), ""),
        "n-6": NodeState("n-6", ("IDLE",), ""),
    }
    jobs = [Job("4711", "alice", "RUNNING", ("n-1", "n-6"))]
    assert unavailable_nodes(known, jobs, [f"n-{number}" for number in range(7)]) == {
        "n-1": "jobs run there: 4711 (alice, running)",
        "n-2": "it is IDLE+DRAIN (bad fan), so no job starts there",
        "n-3": "it is IDLE+NOT_RESPONDING, so no job starts there",
        "n-4": "it is COMPLETING, not idle",
        "n-5": "slurmctld does not know it",
        "n-6": "jobs run there: 4711 (alice, running)",
    }
