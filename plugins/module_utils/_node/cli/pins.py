# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode pins: whether a job is pinned well, and how to start its ranks."""

from __future__ import annotations

import argparse

from ..machine.config import read_config
from ..machine.gpu import compute_processes
from ..machine.root import Root
from ..pinning.advise import DISJOINT, MASKS, AdviceError
from ..pinning.check import UNKNOWN as NOTHING_JUDGED
from ..pinning.check import PinningOptions, check
from ..pinning.finding import ERROR, NothingToJudge, UnknownFinding, check_names, matching
from ..pinning.launch import LAUNCHERS, SRUN
from ..pinning.layout import UnknownLayout
from ..pinning.report import as_data, as_text, bare_line
from ..pinning.select import Selection, SelectionError
from ..sku import find_size
from .command import BAD, GOOD, UNKNOWN, Answer, Command, UsageError

_DESCRIPTION = """\
Inspects the processes of a job: all threads, the CPUs that they may run on, and the GPUs and adapters that they use. It
reports problems of their pinning, where the ranks should run, and the command line that starts them there. Without
processes it only gives the advice.

The processes of one rank (the program, the shell that started it, and the workers that it started) count as one. If
some processes have a rank, a process without a rank is a launcher and is ignored, like hpcnode itself.

The driver (NVML) reports which GPUs a process uses. With --root, or without NVML, the GPUs come from
CUDA_VISIBLE_DEVICES if it is set. Run as root to see other users' processes.

Examples:

    hpcnode pins --job 4711
    hpcnode pins --processes xhpl --memory
    hpcnode pins --vm-size nd96asr_v4 --launcher openmpi
    srun -n 16 "$(hpcnode pins --launcher cpu-bind --bare)" ./train

It changes nothing.

Exit status: 0 good, 1 there is a finding of severity error, or one that --fail-on lists, 2 the processes were not found
or cannot be read, or the machine's topology is not known.
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--processes", metavar="REGEX", help="processes by name or command line; narrows --pids, --cgroup and --job")
    add("--pids", metavar="PID,...", type=_numbers, default=(), help="processes with these ids")
    add("--cgroup", metavar="PATH", help="processes of a control group and of the groups below it")
    # The long names are those of the module's options.
    add("--job", "--slurm-job-id", metavar="ID", type=int, help="processes of a Slurm job")
    add("--memory", action="store_true", help="also locate their memory, which briefly stops big processes")
    add("--vm-size", metavar="SIZE", help="advise for this VM size instead of this machine")
    names = ", ".join(LAUNCHERS)
    add("--launcher", choices=LAUNCHERS, metavar="NAME", default=SRUN, help=f"what starts the ranks: {names} (srun)")
    add(
        "--ranks",
        "--ranks-per-node",
        metavar="N",
        type=int,
        help="ranks per node (default: the ranks found, else one per GPU or NUMA node)",
    )
    add(
        "--threads",
        "--threads-per-rank",
        metavar="N",
        type=int,
        help="threads per rank (default: all CPUs of the rank)",
    )
    add(
        "--masks",
        choices=MASKS,
        default=DISJOINT,
        help="own CPUs for each rank, or complete NUMA nodes (default: %(default)s)",
    )
    add("--bare", action="store_true", help="print only the line that starts the ranks, for scripts")
    add("--fail-on", metavar="WHAT,...", help=f"codes and severities of findings for exit status 1 (default: {ERROR})")


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of process ids such as 4711,4712") from error


def _execute(args: argparse.Namespace) -> Answer:
    root = Root(args.root)
    bad = args.fail_on.split(",") if args.fail_on else [ERROR]
    described = (read_config(root, "node") or {}).get("vm_sizes")
    size = find_size(args.vm_size, described) if args.vm_size else None
    try:
        chosen = Selection(args.processes, args.pids, args.cgroup, args.job)
        check_names(bad if args.fail_on else (), bool(chosen))
        options = PinningOptions(chosen, size, args.launcher, args.ranks, args.threads, args.masks, args.memory)
        report = check(root, options, compute_processes)
    except UnknownLayout as error:
        return Answer(UNKNOWN, str(error), {"verdict": NOTHING_JUDGED, "problem": str(error)})
    except (AdviceError, NothingToJudge, SelectionError, UnknownFinding) as error:
        raise UsageError(str(error)) from error
    inspection = report.inspection
    status = GOOD
    if chosen and inspection and inspection.verdict == NOTHING_JUDGED:
        status = UNKNOWN
    elif inspection and matching(inspection.findings, bad):
        status = BAD
    if args.bare and report.no_advice:
        # A script would go on with an empty line.
        raise UsageError(f"no advice: {report.no_advice}")
    text = bare_line(report) if args.bare else as_text(report)
    return Answer(status, text, as_data(report))


COMMAND = Command(
    name="pins",
    summary="whether a job is pinned well, and how to start it",
    description=_DESCRIPTION,
    add_arguments=_add_arguments,
    execute=_execute,
)
