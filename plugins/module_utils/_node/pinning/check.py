# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The complete check: finds and judges the selected processes, and recommends how to start the ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

from ..machine.root import Root
from ..sku.types import VmSize
from .advise import DISJOINT, Advice, AdviceError, advise, check_counts
from .finding import ERROR, WARNING, Finding
from .judge import judge_job, judge_layout, judge_rank
from .launch import SRUN, Launch, launch
from .layout import Layout, layout_of_size, read_layout
from .rank import GpuUse, Member, Rank, make_rank, read_members, split_ranks
from .select import NOTHING, Selection, own_cpus, select

GOOD, BAD, UNKNOWN = VERDICTS = ("good", "bad", "unknown")
"""good: no finding with severity error; bad: at least one; unknown: no process was judged."""
UNJUDGED = ("no_process", "not_readable")
"""The findings that make the verdict unknown."""


@dataclass(frozen=True)
class Inspection:
    """The result of an inspection.

    :ivar layout: the machine, with the CPUs that these processes may use.
    :ivar ranks: by number, then by process id; none if nothing was selected.
    :ivar others: selected processes that are not ranks: launchers, shells.
    :ivar findings: the most severe first.
    """

    layout: Layout
    ranks: tuple[Rank, ...]
    others: tuple[Member, ...]
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> str:
        """One of ``VERDICTS``."""
        bad = {found.code for found in self.findings if found.severity == ERROR}
        if bad - set(UNJUDGED):
            return BAD
        # If no process was judged, the verdict is not good.
        return UNKNOWN if bad or not self.ranks else GOOD


def inspect(
    root: Root, layout: Layout, selection: Selection, gpu_use: GpuUse | None, with_memory: bool = False
) -> Inspection:
    """Find and judge the processes; with an empty selection, judge only the machine.

    :param layout: of the machine below ``root``, with all online CPUs usable.
    :param gpu_use: which process uses which GPUs; None if the driver does not report it.
    :param with_memory: read the NUMA nodes of the processes' memory, which slows them down briefly.
    """
    if not selection:
        restricted = layout.restricted_to(own_cpus(root))
        return Inspection(restricted, (), (), tuple(judge_layout(restricted)))
    selected = select(root, selection)
    layout = layout.restricted_to(selected.cpus)
    members = read_members(root, selected.processes, layout)
    groups, others = split_ranks(members, all_are_ranks=bool(selection.pids))
    ranks = [make_rank(root, group, layout, gpu_use, with_memory) for group in groups]
    ranks.sort(key=lambda rank: (rank.number is None, rank.number, rank.pids))
    findings = list(_judge_reading(selection, selected.missing, bool(selected.processes), ranks))
    for rank in ranks:
        findings += judge_rank(rank, layout, len(ranks))
    if ranks:
        findings += judge_job(ranks, layout, gpu_use)
    findings += judge_layout(layout)
    severities = (ERROR, WARNING)
    findings.sort(key=lambda found: severities.index(found.severity) if found.severity in severities else 2)
    return Inspection(layout, tuple(ranks), tuple(others), tuple(findings))


def _judge_reading(selection: Selection, missing: tuple[int, ...], found_any: bool, ranks: list[Rank]) -> list[Finding]:
    if not ranks:
        if found_any:
            text = f"Cannot read the threads of {selection}."
            return [Finding("not_readable", text, "Run as root, or check that they still run.")]
        text = f"No process matches {selection}."
        return [Finding("no_process", text, "Check the name or number, and that the job runs on this node.")]
    if missing:
        text = f"Process ids {', '.join(map(str, missing))} do not exist."
        return [Finding("no_process", text, "Check the ids.", pids=missing)]
    return []


@dataclass(frozen=True)
class PinningOptions:
    """The user's options.

    :ivar selection: processes to inspect; an empty one inspects none.
    :ivar size: the VM size to advise for, instead of the machine.
    :ivar launcher: see ``launch.LAUNCHERS``.
    :ivar ranks_per_node: by default the number of ranks found, else see ``advise``.
    :ivar threads_per_rank: see ``advise``.
    :ivar masks: see ``advise.MASKS``.
    :ivar memory: whether to read the NUMA nodes of the processes' memory.
    """

    selection: Selection = NOTHING
    size: VmSize | None = None
    launcher: str = SRUN
    ranks_per_node: int | None = None
    threads_per_rank: int | None = None
    masks: str = DISJOINT
    memory: bool = False

    def __post_init__(self) -> None:
        check_counts(self.ranks_per_node, self.threads_per_rank)


@dataclass(frozen=True)
class Report:
    """The result of the check.

    :ivar inspection: of the machine and its processes; None if only advice for a VM size was requested.
    :ivar advice: where ranks should run; None if there is none, and ``no_advice`` says why.
    :ivar start: the launch line for the advice.
    """

    inspection: Inspection | None
    advice: Advice | None
    start: Launch | None
    no_advice: str = ""


def check(root: Root, options: PinningOptions, ask_gpus: Callable[[Root], GpuUse | None]) -> Report:
    """Inspect and advise. Changes nothing.

    :param ask_gpus: returns which process of the machine uses which GPUs, None if unknown; called only if there are
        GPUs and processes to inspect.
    :raises UnknownLayout: the CPUs of the machine or of the size are unknown.
    :raises AdviceError: the ranks do not fit, and no processes were selected.
    """
    inspection, target = None, layout_of_size(options.size) if options.size else None
    if options.selection or target is None:
        layout = read_layout(root)
        gpu_use = ask_gpus(root) if options.selection and layout.gpus else None
        inspection = inspect(root, layout, options.selection, gpu_use, options.memory)
        target = target or inspection.layout
    found = len(inspection.ranks) if inspection else 0
    try:
        advice = advise(target, options.ranks_per_node or found or None, options.threads_per_rank, options.masks)
    except AdviceError as error:
        if not options.selection:
            raise
        # Return the findings even if there is no advice.
        return Report(inspection, None, None, str(error))
    return Report(inspection, advice, launch(advice, options.launcher))
