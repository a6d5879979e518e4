# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The reasons of nodes that are faulty: those that the arbiter gives, and which nodes are drained because of which."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..nodes import LONGEST_REASON, NO_INSTANCE, OUR_PREFIX, NodeState, as_reason
from .report import Fault, Report

HEALTH = f"{OUR_PREFIX} health: "
"""Start of the reason of each node that the arbiter has drained. It resumes no others."""
PROLOG_SCRIPT = "30-health"
"""The prolog that ends a job's start because of the node's health; the role health_checks installs it."""
PROLOG = f"{OUR_PREFIX} prolog: {PROLOG_SCRIPT}: "
"""Start of the reason of a node that Slurm has drained because that script failed."""
SCRIPTS = ("prolog", "epilog")
"""A fault with one of these names is a script that failed because of the machine, not a check."""
_SCRIPTS_REASONS = tuple(f"{OUR_PREFIX} {kind}: " for kind in SCRIPTS)
IN_USE = ("health", *SCRIPTS)
"""What our reasons start with, after the prefix, for a fault that a node in use has."""
NOT_READY = ("boot", "hardware", "slurmd")
"""The same for a node that lacks something before it may get jobs."""
_SET_DOWN = ("DOWN", "FAIL", "INVAL")
_REPLACE = "replace: "
_REBOOT = "reboot: "
_HELD = re.compile(r" \(held: [^()]*\)$")


def reason_for(report: Report, first: Fault) -> str:
    """Return the reason for this fault, the first of the report. A reason for a script never leads to a resume."""
    if first.check in SCRIPTS:
        return as_reason(f"{OUR_PREFIX} {first.check}: {first.summary}", LONGEST_REASON)
    return _reason(HEALTH, report, first)


def replace_reason(report: Report, first: Fault) -> str:
    """Return the reason of a node that needs another machine."""
    return _reason(f"{HEALTH}{_REPLACE}", report, first)


def reboot_reason(report: Report, first: Fault) -> str:
    """Return the reason of a node that must restart."""
    return _reason(f"{HEALTH}{_REBOOT}", report, first)


def held_reason(reason: str, drains: int, hours: float) -> str:
    """Return the reason of a node that is not resumed automatically any more."""
    if is_held(reason):
        return reason
    tail = f" (held: {drains} drains in {hours:g} h)"
    return as_reason(reason, LONGEST_REASON - len(tail)) + tail


def _reason(prefix: str, report: Report, first: Fault) -> str:
    more = report.failed - 1
    tail = f" (and {more} more)" if more > 0 else ""
    return as_reason(f"{prefix}{first.check}: {first.summary}", LONGEST_REASON - len(tail)) + tail


def check_of(reason: str) -> str:
    """Return the check in one of our reasons; empty if it contains none."""
    for prefix in (PROLOG, HEALTH):
        if reason.startswith(prefix):
            rest = reason[len(prefix) :]
            for word in (_REPLACE, _REBOOT):
                rest = rest[len(word) :] if rest.startswith(word) else rest
            return rest.partition(":")[0].strip()
    return ""


def is_held(reason: str) -> bool:
    """Whether the reason says that the node is not resumed automatically."""
    return bool(_HELD.search(reason))


def is_out_for_health(node: NodeState) -> bool:
    """Whether the node was drained by the arbiter, or by a prolog that failed because of the node's health."""
    return node.out and node.reason.startswith((HEALTH, PROLOG))


def counts_towards_limit(node: NodeState) -> bool:
    """Whether the node counts towards the drain limit: drained by the arbiter, or by a failed prolog or epilog."""
    return node.out and node.reason.startswith((HEALTH, *_SCRIPTS_REASONS))


def faulty_nodes(known: Mapping[str, NodeState], kinds: Sequence[str] = IN_USE) -> dict[str, str]:
    """Return the nodes with a machine that are down, or that we drained for a fault, each with the reason.

    A node that somebody drained for another reason, such as maintenance, is not faulty.

    :param kinds: the kinds of our reasons that count as a fault, of IN_USE and NOT_READY.
    """
    ours = tuple(f"{OUR_PREFIX} {kind}:" for kind in kinds)
    return {
        name: node.reason or "down"
        for name, node in known.items()
        if node.out and has_machine(node)
        if node.reason.startswith(ours) or any(state in _SET_DOWN for state in node.states)
    }


def incident_nodes(known: Mapping[str, NodeState]) -> dict[str, str]:
    """Return the nodes that a support case is about: faulty, not ready, or not answering, each with the reason."""
    silent = [name for name, node in known.items() if has_machine(node) and not node.answers]
    found = {name: known[name].reason or "does not answer" for name in silent}
    found.update(faulty_nodes(known, (*IN_USE, *NOT_READY)))
    return {name: found[name] for name in known if name in found}


def is_by_prolog(node: NodeState) -> bool:
    """Whether Slurm has drained it because the prolog failed because of the node's health."""
    return node.out and node.reason.startswith(PROLOG)


def has_machine(node: NodeState) -> bool:
    """Whether the node has a machine. Spare and powered-down nodes have none, and do not count for the drain limit.

    A node that is powered up has none yet: what slurmctld shows of a report is from its former machine.
    """
    absent = ("FUTURE", "POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "POWERING_UP")
    return not node.reason.startswith(NO_INSTANCE) and not any(state in absent for state in node.states)
