# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Collectives of nccl-tests over all GPUs of the node, in one process: bandwidth and correct results."""

from __future__ import annotations

import re
from dataclasses import replace

from ...machine.gpu import nvidia_gpus
from ...machine.root import Root
from ...machine.run import Result, last_line
from ...setup.nccl.conf import TOPO_FILE, effective
from ...setup.nccl.options import TOPOLOGY_PATH
from ...sku.types import Threshold
from .. import deep, nccl_tests
from ..applies import with_nvidia_gpus_and_infiniband, with_several_nvidia_gpus
from ..check import DEEP, FAIL, REPLACE, RESET_GPU, UNKNOWN, Answer, CannotMeasure, Check, Context, Finding, Reading
from ..deep import WITH_PROGRAM, limit_findings, must_be_idle
from ..settings import in_words

# Running a collective of nccl-tests over all GPUs of the node, in one process, and judging the result.

FOLDERS = ("/opt/nccl-tests/build", "/usr/local/nccl-tests/build", "/opt/nccl-tests/bin")
SOURCE = "nccl-tests; Azure's HPC images have it in /opt/nccl-tests/build"
CONF = "/etc/nccl.conf"
OPTIONS = {**WITH_PROGRAM, "size": ""}
"""Options of the checks that run a collective."""

_SIZE = re.compile(r"\b\d+[KMG]\b")
_DEFAULT_SIZE = "8G"
_HINT = "Check the GPUs' links with 'hpcnode health run periodic --only gpu_nvlink'; then reset or replace the node"


def _measure_collective(
    context: Context,
    check: Check,
    program: str,
    within_s: float,
    over_network: bool = False,
    iterations: int = 20,
    warm_up: int = 5,
    hint: str = _HINT,
) -> Answer:
    """Run a collective and compare its bus bandwidth with the limit of the check's name.

    :param program: e.g. ``all_reduce_perf``.
    :param over_network: turn NVLink and shared memory off, so that all data go through the adapters.
    :raises CannotMeasure: the program is not installed, or the node is in use.
    """
    gpus = len(nvidia_gpus(context.root))
    expected = (context.size.gpu_count if context.size else None) or 0
    if gpus < 2 <= expected:
        raise CannotMeasure(f"a collective needs two GPUs, but {gpus} of the {expected} GPUs of this VM size are there")
    if gpus < 2:
        return Answer(skipped=f"a collective needs two GPUs, but there is {'only one' if gpus else 'none'}")
    path = deep.required_program(context, check, program, FOLDERS, SOURCE)
    must_be_idle(context, check)
    threshold = context.settings.threshold(context.size, check.name)
    size = _message_size(context, check, threshold)
    environment = environment_of(context.root)
    if over_network:
        environment.update(NCCL_P2P_DISABLE="1", NCCL_SHM_DISABLE="1", NCCL_NET="IB", NCCL_NET_GDR_LEVEL="5")
    command = [path, "-b", size, "-e", size, "-g", str(gpus), "-c", "1", "-w", str(warm_up), "-n", str(iterations)]
    result = deep.run_tool(context, command, within_s, environment)
    refused = deep.run_problem(context, result, program, within_s)
    answer = _judge(result, refused, program, size, gpus, check.name, threshold)
    if threshold is None:
        return answer
    readings = tuple(replace(reading, limit=threshold.limit) for reading in answer.readings)
    found = limit_findings(readings, threshold, f"the bus bandwidth of {program}", hint)
    return replace(answer, readings=readings, findings=(*answer.findings, *found), limit=in_words(threshold))


def _judge(
    result: Result,
    refused: Finding | None,
    program: str,
    size: str,
    gpus: int,
    name: str,
    threshold: Threshold | None,
) -> Answer:
    """Return what a run measured, not yet compared with the limit.

    :param refused: the finding if the run failed.
    """
    outcome = nccl_tests.parse(result.stdout)
    if outcome.wrong:
        words = f"{program} gave {outcome.wrong} wrong values: data are corrupted in transit"
        hint = "Drain the node at once: jobs get wrong results there"
        return Answer(findings=(Finding(FAIL, words, hint=hint),))
    if refused:
        return Answer(findings=(refused,))
    bandwidth = outcome.bus_bandwidth
    if bandwidth is None:
        words = f"{program} succeeded, but printed no bandwidth: {last_line(result)}"
        return Answer(findings=(Finding(UNKNOWN, words, hint=f"Run it by hand: {' '.join(result.command)}"),))
    reading = Reading(name, round(bandwidth, 2), "GB/s")
    findings = []
    largest = max(row.size for row in outcome.rows)
    # A row's size is rounded down to whole elements for each GPU.
    if largest < nccl_tests.size_in_bytes(size) * 0.99:
        words = f"{program} used messages of only {largest} bytes, not {size}: the GPUs' memory is in use"
        findings.append(Finding(UNKNOWN, words, hint="Find out with 'nvidia-smi' what uses the memory"))
    elif not outcome.validated:
        findings.append(Finding(UNKNOWN, f"{program} did not check its results, so they may be wrong"))
    elif outcome.ranks < gpus and outcome.ranks:
        findings.append(Finding(FAIL, f"{program} ran on {outcome.ranks} GPUs, but there are {gpus}"))
    best = f"; there is no limit {name} for this VM size" if threshold is None else ""
    return Answer(
        f"{bandwidth:.4g} GB/s of bus bandwidth over {gpus} GPUs at {size}{best}", (reading,), tuple(findings)
    )


def environment_of(root: Root) -> dict[str, str]:
    """Return the environment of a run of NCCL: the node's topology file, the order of the GPUs, MPI's libraries.

    :raises CannotMeasure: the topology file in /etc/nccl.conf does not exist, so the results would not be comparable.
    """
    environment = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    named = effective(root.text(CONF) or "").get(TOPO_FILE)
    if named and not root.exists(named):
        raise CannotMeasure(f"the topology file {named} in {CONF} does not exist: run 'hpcnode boot run nccl'")
    topology = named or (TOPOLOGY_PATH if root.exists(TOPOLOGY_PATH) else "")
    if topology:
        environment[TOPO_FILE] = topology
    folders = [
        f"/opt/{entry}{tail}"
        for entry in root.entries("/opt")
        if entry.startswith(("hpcx", "openmpi"))
        for tail in ("/ompi/lib", "/lib")
        if root.exists(f"/opt/{entry}{tail}/libmpi.so.40")
    ]
    if folders:
        # Programs that were built with MPI do not start without its libraries.
        environment["LD_LIBRARY_PATH"] = ":".join(folders)
    return environment


def _message_size(context: Context, check: Check, threshold: Threshold | None) -> str:
    """Return the message size: the site's, that of the check's limit, or that of the all-reduce limit."""
    given: str = context.option(check, "size")
    if given:
        try:
            nccl_tests.size_in_bytes(given)
        except ValueError as error:
            raise CannotMeasure(f"options.{check.name}.size: {error}") from None
        return given
    for limit in (threshold, context.settings.threshold(context.size, "nccl_allreduce")):
        match = _SIZE.search(limit.at) if limit else None
        if match:
            return match[0]
    return _DEFAULT_SIZE


# Whether an all-reduce over the node's GPUs reaches its bandwidth.

_ALLREDUCE_RUN_S = 240.0


def _measure_allreduce(context: Context) -> Answer:
    """Run ``all_reduce_perf`` over all GPUs."""
    return _measure_collective(context, NCCL_ALLREDUCE, "all_reduce_perf", _ALLREDUCE_RUN_S)


NCCL_ALLREDUCE = Check(
    name="nccl_allreduce",
    title="NCCL all-reduce within the node",
    explain="Runs all_reduce_perf of nccl-tests over all GPUs with the node's topology file, checks the results, and "
    "compares the average bus bandwidth with the VM size's limit (azurehpc-health-checks, check_nccl_allreduce).",
    tiers=(DEEP,),
    measure=_measure_allreduce,
    applies=with_several_nvidia_gpus,
    limit_s=_ALLREDUCE_RUN_S + 30,
    action=RESET_GPU,
    fault="NHC2010",
    asks_device=True,
    thresholds=("nccl_allreduce",),
    options=OPTIONS,
)


# Whether an all-to-all over the node's GPUs works, and at which bandwidth.

_ALLTOALL_RUN_S = 240.0


def _measure_alltoall(context: Context) -> Answer:
    """Run ``alltoall_perf`` over all GPUs."""
    return _measure_collective(context, NCCL_ALLTOALL, "alltoall_perf", _ALLTOALL_RUN_S)


NCCL_ALLTOALL = Check(
    name="nccl_alltoall",
    title="NCCL all-to-all within the node",
    explain=(
        "Runs alltoall_perf of nccl-tests over all GPUs with the node's topology file and checks the results. No "
        "source states a limit for the bus bandwidth: set your own (limit nccl_alltoall, in GB/s), or compare the "
        "nodes with each other in the report of the playbook health_check."
    ),
    tiers=(DEEP,),
    measure=_measure_alltoall,
    applies=with_several_nvidia_gpus,
    limit_s=_ALLTOALL_RUN_S + 30,
    action=RESET_GPU,
    fault="NHC2010",
    asks_device=True,
    options=OPTIONS,
    further_limits=("nccl_alltoall",),
)


# Whether an all-reduce within the node reaches its bandwidth when all data go through the InfiniBand adapters.

_LOOPBACK_RUN_S = 300.0
# It is ten times slower than over NVLink.
_ITERATIONS, _WARM_UP = 5, 1


def _measure_loopback(context: Context) -> Answer:
    """Run ``all_reduce_perf`` over all GPUs, without NVLink and shared memory."""
    return _measure_collective(
        context,
        NCCL_IB_LOOPBACK,
        "all_reduce_perf",
        _LOOPBACK_RUN_S,
        over_network=True,
        iterations=_ITERATIONS,
        warm_up=_WARM_UP,
        hint="Find the slow adapter with 'hpcnode health run deep --only ib_write_bandwidth'",
    )


NCCL_IB_LOOPBACK = Check(
    name="nccl_ib_loopback",
    title="NCCL all-reduce through the adapters",
    explain=(
        "Runs all_reduce_perf of nccl-tests over all GPUs with NCCL_P2P_DISABLE=1 and NCCL_SHM_DISABLE=1, so that all "
        "data go through the InfiniBand adapters. It compares the average bus bandwidth with the VM size's limit "
        "(azurehpc-health-checks, check_nccl_allreduce_ib_loopback)."
    ),
    tiers=(DEEP,),
    measure=_measure_loopback,
    applies=with_nvidia_gpus_and_infiniband,
    limit_s=_LOOPBACK_RUN_S + 30,
    action=REPLACE,
    fault="NHC2003",
    asks_device=True,
    thresholds=("nccl_ib_loopback",),
    options=OPTIONS,
)
