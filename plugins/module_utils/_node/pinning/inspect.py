# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Look at the processes of a job: read them, make ranks of them, judge."""

from __future__ import annotations

from dataclasses import dataclass

from ..machine.root import Root
from .finding import ERROR, WARNING, Finding
from .judge_rank import judge_rank
from .judge_together import judge_layout, judge_together
from .layout import Layout
from .rank import GpuUse, Member, Rank, make_rank, read_members, split_ranks
from .select import Selection, own_cpus, select

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
        own = layout.restricted_to(own_cpus(root))
        return Inspection(own, (), (), tuple(judge_layout(own)))
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
        findings += judge_together(ranks, layout, gpu_use)
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
