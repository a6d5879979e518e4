# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A node as the arbiter sees it: its state in slurmctld, and its own report."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...machine.run import Run
from .. import nodes
from ..nodes import NodeState, epoch, parse_records
from .report import FORM, Report, UnreadableReport, decode

EXTRA, COMMENT = FIELDS = ("Extra", "Comment")
"""Fields of a node's record with free text. Both exist from Slurm 22.05 to 25.11."""
CLOCKS_S = 120
"""How far a node's clock may be ahead of the controller's before its reports are ignored."""

_REPORT = re.compile(rf" (?:{'|'.join(FIELDS)})=({FORM}/\S+)")


@dataclass(frozen=True)
class ObservedNode:
    """A node.

    :ivar report: its report; None if there is no readable one.
    :ivar problem: why there is no report; empty if there is one.
    :ivar booted: when its machine started, in seconds since the epoch; None if slurmctld does not know.
    :ivar reason_since: when its reason was given, in seconds since the epoch; None if slurmctld does not know.
    """

    node: NodeState
    report: Report | None = None
    problem: str = ""
    booted: float | None = None
    reason_since: float | None = None

    @property
    def name(self) -> str:
        """Its name in Slurm."""
        return self.node.name

    @property
    def restarts(self) -> bool:
        """Whether a restart was requested, or is in progress."""
        return any(state.startswith("REBOOT") for state in self.node.states)


def parse_nodes(shown: str) -> dict[str, ObservedNode]:
    """Parse the output of ``scontrol --oneliner show nodes``. Its times are in the time zone of this machine."""
    found = {}
    texts = parse_records(shown)
    for name, node in nodes.parse_nodes(shown).items():
        text = texts[name]
        if text is None:
            found[name] = ObservedNode(node, None, nodes.TWICE)
            continue
        report, problem = _report_in(text.after_reason)
        found[name] = ObservedNode(node, report, problem, epoch(text.field("BootTime")), epoch(text.reason_given))
    return found


def _report_in(texts: str) -> tuple[Report | None, str]:
    """Return the newest report, in case both fields have one because the site changed the setting."""
    reports, problem = [], "it has not reported"
    for text in _REPORT.findall(texts):
        try:
            reports.append(decode(text))
        except UnreadableReport as error:
            problem = f"its report cannot be read: {error}"
    return (max(reports, key=lambda report: report.time), "") if reports else (None, problem)


def read_nodes(run: Run) -> dict[str, ObservedNode]:
    """Read all nodes from slurmctld.

    :raises CommandFailed: slurmctld does not answer.
    """
    return parse_nodes(nodes.show_nodes(run))
