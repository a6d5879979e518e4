# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The search for the bad node among several, under Slurm: rounds of runs, until nothing more can be found out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Callable

from ..machine.run import Result
from ..machine.verdict import FAIL, PASS, UNKNOWN
from ..slurm.hostlist import compress
from ..slurm.job_control import Job
from ..slurm.nodes import NodeState
from . import nccl_tests
from .pair import Step, Trial, next_step

# A collective over several nodes: the command that runs it, and the trial that its output means.

SRUN, MPIRUN = LAUNCHERS = ("srun", "mpirun")
PROGRAM = "/opt/nccl-tests/build/all_reduce_perf"

_UNUSABLE = (126, 127)
_NOT_THE_NODES = (
    "Unable to allocate resources",
    "Unable to create step for job",
    "--mpi=list for acceptable types",
    "DUE TO PREEMPTION",
    "Invalid node name specified",
    "Requested nodes are busy",
    "Job violates accounting",
    "error while loading shared libraries",
    "execve():",
)
"""Messages of srun and slurmstepd (src/srun and src/slurmd of Slurm) which mean that the program did not run."""
_FAILURES = ("Test NCCL failure", "Test CUDA failure")
"""What nccl-tests prints when a call fails (src/common.h), after the name of the host."""
_OF_SLURM = ("srun: ", "slurmstepd: ")
"""Beginnings of Slurm's lines about a failed run, which follow the program's own error message."""
_QUEUED, _ALLOCATED = "queued and waiting for resources", "has been allocated resources"
WAIT_S = 60
"""How long a run may wait for its nodes, in seconds: the epilog of the run before may still be running."""


def command(
    nodes: Sequence[str],
    gpus: int,
    size: str,
    launcher: str = SRUN,
    program: str = PROGRAM,
    environment: Mapping[str, str] | None = None,
    iterations: int = 20,
    limit_s: int = 300,
    mpi: str = "pmix",
    options: Sequence[str] = (),
) -> list[str]:
    """Return the command line of a collective over these nodes, with one process per GPU.

    :param gpus: GPUs of each node.
    :param size: message size, e.g. ``8G``.
    :param environment: variables of NCCL, e.g. the size's ``nccl_settings`` and ``NCCL_TOPO_FILE``.
    :param limit_s: timeout in seconds, after which the exit status is 124. With srun, which first waits for the nodes,
        the timeout is ``WAIT_S`` longer.
    :param mpi: srun's MPI type.
    :param options: more options for srun. They come last, so they override the others.
    :raises ValueError: fewer than two nodes, no such launcher, or no such size.
    """
    if len(set(nodes)) < 2:
        raise ValueError("a run over several nodes needs at least two nodes")
    if launcher not in LAUNCHERS:
        raise ValueError(f"{launcher!r} is not a launcher: use {' or '.join(LAUNCHERS)}")
    nccl_tests.size_in_bytes(size)
    # MPI only starts the processes, and must not search for a fast network.
    given = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "OMPI_MCA_coll_hcoll_enable": "0", "UCX_TLS": "tcp"}
    variables = {**given, **(environment or {})}
    ended = ["timeout", "--kill-after=10", str(limit_s + (WAIT_S if launcher == SRUN else 0))]
    test = [program, "-b", size, "-e", size, "-g", "1", "-c", "1", "-n", str(iterations)]
    if launcher == MPIRUN:
        hosts = ",".join(f"{node}:{gpus}" for node in nodes)
        exported = [word for name, value in sorted(variables.items()) for word in ("-x", f"{name}={value}")]
        ranks = ["-np", str(gpus * len(nodes)), "--host", hosts, "--map-by", f"ppr:{gpus}:node", "--bind-to", "numa"]
        return [*ended, "mpirun", "--allow-run-as-root", *ranks, *exported, *test]
    asked = [
        f"--nodes={len(nodes)}",
        f"--nodelist={','.join(nodes)}",
        f"--ntasks-per-node={gpus}",
        f"--gpus-per-node={gpus}",
        "--exclusive",
        # --exclusive alone gives only the memory of DefMemPerCPU and the like.
        "--mem=0",
        # In minutes. Without it, Slurm would assume the partition's time limit, and could not start the job before a
        # reservation.
        f"--time={-(-limit_s // 60) + 2}",
        f"--mpi={mpi}",
        "--kill-on-bad-exit=1",
        f"--immediate={WAIT_S}",
        "--job-name=hpcai-health",
        *options,
    ]
    exported_names = ["env", *(f"{name}={value}" for name, value in sorted(variables.items()))]
    return [*ended, "srun", *asked, *exported_names, *test]


def trial(nodes: Sequence[str], rc: int, stdout: str, stderr: str, limit: float | None, gpus: int = 0) -> Trial:
    """Return what a run says about its nodes.

    A run that hangs (exit status 124) has failed, because a bad link has this effect. A run that was not started, or
    that succeeded without printing a bandwidth, is UNKNOWN.

    :param limit: least bus bandwidth in GB/s; None if only results and crashes count.
    :param gpus: GPUs of each node, to check the number of ranks; 0 to skip that.
    """
    members = tuple(nodes)
    outcome = nccl_tests.parse(stdout)
    output = f"{stdout}\n{stderr}"
    if outcome.wrong:
        return Trial(members, FAIL, outcome.bus_bandwidth, f"{outcome.wrong} wrong values")
    if rc in _UNUSABLE or any(words in output for words in _NOT_THE_NODES):
        return Trial(members, UNKNOWN, None, _last(stderr) or _last(stdout) or "it was not started")
    if rc in (124, 137):
        if _QUEUED in stderr and _ALLOCATED not in stderr:
            return Trial(members, UNKNOWN, None, "it did not get the nodes before its timeout")
        return Trial(members, FAIL, None, "it did not finish before its timeout")
    if rc:
        reason = _failure(stderr) or _last(stderr, _OF_SLURM) or _last(stdout)
        return Trial(members, FAIL, None, reason or _last(stderr) or f"exit status {rc}")
    value = outcome.bus_bandwidth
    if value is None:
        return Trial(members, UNKNOWN, None, "it succeeded, but printed no bandwidth")
    if gpus and outcome.ranks and outcome.ranks != gpus * len(members):
        # A program without MPI runs separately for each GPU, and does not use the network.
        return Trial(members, UNKNOWN, value, f"it ran on {outcome.ranks} GPUs: is the program built with MPI?")
    if limit is not None and value < limit:
        return Trial(members, FAIL, value, f"{value:.4g} GB/s, but should be at least {limit:g}")
    return Trial(members, PASS, value)


def _failure(text: str) -> str:
    """Return the first line in which nccl-tests says what failed; lines of MPI and Slurm come in any order."""
    return next((line.strip() for line in text.splitlines() if any(words in line for words in _FAILURES)), "")


def _last(text: str, without: tuple[str, ...] = ()) -> str:
    """Return the last line that has text, except lines that begin with ``without``."""
    lines = [line.strip() for line in text.splitlines() if line.strip("#-=* ")]
    return next((line for line in reversed(lines) if not line.startswith(without)), "")


# The search for the bad node among several, under Slurm.

_AT_ONCE = 32
_SPARE_S = WAIT_S + 60
"""Seconds that a run may take beyond its own timeout, including the wait for the nodes."""

RunFor = Callable[[Sequence[str], float], Result]
"""Runs a command with a timeout in seconds."""
Report = Callable[[str], None]
"""Shows how far the search is, in one line. An exception that it raises ends the search after the current runs."""


def _silently(_words: str) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class RunOptions:
    """How to measure.

    :ivar gpus: GPUs of a node; each gets its own task.
    :ivar size: the message size, e.g. ``8G``.
    :ivar at_least: the bus bandwidth in GB/s below which a pair fails; None if only crashes and wrong results count.
    :ivar seconds: timeout of one run.
    :ivar srun: more options for srun: partition, reservation, account.
    :ivar environment: more variables of the program.
    """

    gpus: int
    program: str = PROGRAM
    size: str = "8G"
    at_least: float | None = None
    seconds: int = 300
    mpi: str = "pmix"
    srun: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SearchResult:
    """The result of the search."""

    trials: tuple[Trial, ...]
    step: Step
    rounds: int


def unavailable_nodes(known: Mapping[str, NodeState], jobs: Iterable[Job], names: Iterable[str]) -> dict[str, str]:
    """Return the nodes that cannot be measured now, with the reasons, so that no job is disturbed. Pure."""
    running = list(jobs)
    reasons: dict[str, str] = {}
    for name in names:
        node = known.get(name)
        busy = [str(job) for job in running if name in job.nodes]
        if node is None:
            reasons[name] = "slurmctld does not know it"
        elif busy:
            reasons[name] = f"jobs run there: {', '.join(busy)}"
        elif node.out or not node.answers:
            states = "+".join(node.states)
            reasons[name] = (
                f"it is {states}" + (f" ({node.reason})" if node.reason else "") + ", so no job starts there"
            )
        elif not {"IDLE", "RESERVED"} & {*node.states}:
            reasons[name] = f"it is {'+'.join(node.states)}, not idle"
    return reasons


def search(
    nodes: Sequence[str],
    options: RunOptions,
    run: RunFor,
    known_good: Sequence[str] = (),
    report: Report = _silently,
) -> SearchResult:
    """Run pairs, and then the groups that follow from the results, until nothing more can be found out. If all pairs
    work, all nodes are tried together at the end, because some faults appear only then.

    :param report: called when a round begins, and after each of its runs.
    :raises ValueError: fewer than two nodes.
    """
    trials: list[Trial] = []
    rounds = 0
    everybody = tuple(nodes)
    while True:
        step = next_step(nodes, trials, known_good)
        groups = step.groups
        if step.done:
            untried = all(done.members != frozenset(everybody) for done in trials)
            sound = not (step.bad or step.links or step.unclear or step.groups_failing)
            if len(everybody) < 3 or not untried or not sound:
                return SearchResult(tuple(trials), step, rounds)
            groups = (everybody,)
        rounds += 1
        report(_so_far(rounds, 0, groups))
        with ThreadPoolExecutor(max_workers=min(_AT_ONCE, len(groups))) as pool:
            running = [pool.submit(_try, group, options, run) for group in groups]
            for done, _one in enumerate(as_completed(running), start=1):
                report(_so_far(rounds, done, groups))
        trials += [one.result() for one in running]


def _so_far(number: int, done: int, groups: Sequence[Sequence[str]]) -> str:
    """Return how far a round is."""
    if len(groups) == 1 and len(groups[0]) > 2:
        return f"round {number}: {len(groups[0])} nodes together"
    what = "pair" if all(len(group) == 2 for group in groups) else "group"
    return f"round {number}: {what} {done} of {len(groups)} done"


def in_words(done: Trial) -> str:
    """Return a run in one line, for people."""
    detail = done.why or (f"{done.value:.4g} GB/s" if done.value is not None else "")
    return f"{compress(sorted(done.nodes))}: {done.verdict}" + (f", {detail}" if detail else "")


def _try(group: Sequence[str], options: RunOptions, run: RunFor) -> Trial:
    words = command(
        group,
        options.gpus,
        options.size,
        program=options.program,
        environment=options.environment,
        limit_s=options.seconds,
        mpi=options.mpi,
        options=options.srun,
    )
    done = run(words, options.seconds + _SPARE_S)
    # The known limits are for two nodes.
    limit = options.at_least if len(group) == 2 else None
    return trial(group, done.rc, done.stdout, done.stderr, limit, options.gpus)
