# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The whole of it: find and judge processes where some were named, and say how to start the ranks."""

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
"""No finding of severity error; some; there was no process to judge."""
UNJUDGED = ("no_process", "not_readable")
"""Codes of the findings that make the verdict unknown."""


@dataclass(frozen=True)
class Inspection:
    """What was found.

    :ivar layout: the machine, with the CPUs that these processes may use.
    :ivar ranks: by number, then by process id; none where nothing was selected.
    :ivar others: processes that matched and are no ranks: launchers, shells.
    :ivar findings: the worst first.
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
        # Who has judged no process has not found that all is well.
        return UNKNOWN if bad or not self.ranks else GOOD


def inspect(
    root: Root, layout: Layout, selection: Selection, gpu_use: GpuUse | None, with_memory: bool = False
) -> Inspection:
    """Find and judge the processes; with an empty selection judge the machine only.

    :param layout: of the machine below ``root``, all its online CPUs usable.
    :param gpu_use: which process uses which GPUs; None where the driver cannot tell.
    :param with_memory: look where the processes' memory lies, which costs them something.
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
            text = f"The threads of {selection} cannot be read."
            return [Finding("not_readable", text, "Run as root, or check that they still run.")]
        text = f"No process was found by {selection}."
        return [Finding("no_process", text, "Check the name or number, and that the job runs on this node.")]
    if missing:
        text = f"Process ids {', '.join(map(str, missing))} are not there."
        return [Finding("no_process", text, "Check the numbers.", pids=missing)]
    return []


@dataclass(frozen=True)
class PinningOptions:
    """What the user asks.

    :ivar selection: processes to look at; an empty one looks at none.
    :ivar size: the size to advise for, instead of the machine.
    :ivar launcher: see ``launch.LAUNCHERS``.
    :ivar ranks_per_node: by default as many as were found, else see ``advise``.
    :ivar threads_per_rank: see ``advise``.
    :ivar masks: see ``advise.MASKS``.
    :ivar memory: whether to look where the processes' memory lies.
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
    """What there is to say.

    :ivar inspection: of the machine and its processes; None where advice for a VM size was all that was asked.
    :ivar advice: where ranks should run; None where there is none, and ``no_advice`` says why.
    :ivar start: the line that puts them there.
    """

    inspection: Inspection | None
    advice: Advice | None
    start: Launch | None
    no_advice: str = ""


def check(root: Root, options: PinningOptions, ask_gpus: Callable[[Root], GpuUse | None]) -> Report:
    """Look and advise. Nothing is changed.

    :param ask_gpus: says which process of the machine uses which GPUs, None where that is not known; called only where
        there are GPUs and processes to look at.
    :raises UnknownLayout: the CPUs of the machine or of the size are not known.
    :raises AdviceError: the ranks do not fit, and no processes were to be looked at.
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
        # The findings are what was asked for first.
        return Report(inspection, None, None, str(error))
    return Report(inspection, advice, launch(advice, options.launcher))
