# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Nodes that get another image: drain them, mark them before they are reimaged, and resume only those.

The state of a rollout is in the drain reasons. A node that is to be reimaged has the start time of its slurmd in its
reason. When slurmctld shows another start time, the node has come back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..machine.run import Run
from . import job_control, nodes
from .nodes import NodeState, as_reason

PREFIX = f"{nodes.OUR_PREFIX} roll:"
"""Start of the reason of each node that a rollout drained."""
# slurmctld may append " : Not responding" to a reason (node_mgr.c).
_MARK = re.compile(r", reimaged, slurmd was of (\S+)")
_UNKNOWN = "unknown"
_POWER = ("POWERING_UP", "POWERING_DOWN", "POWERED_DOWN", "POWER_DOWN", "POWER_UP")


def reason_of(image: str) -> str:
    """Return the drain reason of a node that waits for the end of its jobs."""
    return as_reason(f"{PREFIX} new image {image}")


def marked_reason_of(image: str, slurmd_started: str) -> str:
    """Return the drain reason of a node that is reimaged."""
    mark = f", reimaged, slurmd was of {slurmd_started or _UNKNOWN}"
    return as_reason(f"{PREFIX} new image {image}", nodes.LONGEST_REASON - len(mark)) + mark


def mark_of(reason: str) -> str:
    """Return the start time of slurmd in a reason, or an empty text if the node was not marked."""
    found = _MARK.search(reason)
    return found[1] if found else ""


@dataclass(frozen=True)
class Orders:
    """What may be done now.

    :ivar mark: nodes to mark, each with its new reason. Only these may be reimaged.
    """

    drain: tuple[str, ...]
    mark: Mapping[str, str]
    resume: tuple[str, ...]


def plan(
    known: Mapping[str, NodeState],
    busy: Mapping[str, list[str]],
    image: str,
    *,
    drain: Iterable[str],
    mark: Iterable[str],
    resume: Iterable[str],
) -> Orders:
    """Return which of the orders are still right. Pure.

    Since they were given, a person may have drained or resumed a node, or a job may have started. Such nodes are left
    alone.

    :param busy: nodes in use, as ``job_control.busy`` returns them.
    """
    return Orders(
        tuple(name for name in drain if name in known and not known[name].out),
        {
            name: marked_reason_of(image, known[name].slurmd_started)
            for name in mark
            if name in known and is_ours(known[name]) and name not in busy
        },
        tuple(name for name in resume if name in known and is_ours(known[name])),
    )


def is_ours(node: NodeState) -> bool:
    """Whether a rollout drained the node, and nobody changed the reason since."""
    return node.drained and node.reason.startswith(PREFIX)


def apply(orders: Orders, image: str, run: Run) -> None:
    """Give the orders to slurmctld.

    :raises CommandFailed: slurmctld refused.
    """
    # Nodes are resumed first, so that never more are out than allowed.
    nodes.resume(orders.resume, run)
    for name, reason in orders.mark.items():
        nodes.drain([name], reason, run)
    nodes.drain(orders.drain, reason_of(image), run)


def facts_of(known: Mapping[str, NodeState], busy: Mapping[str, list[str]], names: Iterable[str]) -> dict[str, Any]:
    """Return what a rollout needs to know of each node. Nodes that slurmctld does not know are missing."""
    return {
        name: {
            "state": "+".join(node.states),
            "reason": node.reason,
            "out": node.out,
            "ours": is_ours(node),
            "answers": node.answers and not any("INVAL" in state for state in node.states),
            "powered_off": any(state in _POWER for state in node.states),
            "mark": mark_of(node.reason) if is_ours(node) else "",
            # As in the mark, so that an unknown time never looks like a new one.
            "slurmd_started": node.slurmd_started or _UNKNOWN,
            "jobs": busy.get(name),
        }
        for name, node in ((name, known.get(name)) for name in names)
        if node is not None
    }


def perform(
    names: Sequence[str],
    image: str,
    run: Run,
    *,
    drain: Iterable[str] = (),
    mark: Iterable[str] = (),
    resume: Iterable[str] = (),
    check_mode: bool = False,
) -> dict[str, Any]:
    """Give the orders that are still right, and return them and the state of the nodes afterwards.

    :param names: the nodes to return.
    :raises CommandFailed: slurmctld does not answer, or refused.
    :raises HostlistError: its answer is invalid.
    """
    known, busy = read(names, run)
    orders = plan(known, busy, image, drain=drain, mark=mark, resume=resume)
    acts = bool(orders.drain or orders.mark or orders.resume)
    if acts and not check_mode:
        apply(orders, image, run)
        known, busy = read(names, run)
    return {
        "changed": acts,
        "drained": list(orders.drain),
        "marked": list(orders.mark),
        "resumed": list(orders.resume),
        "found": facts_of(known, busy, names),
    }


def read(names: Iterable[str], run: Run) -> tuple[dict[str, NodeState], dict[str, list[str]]]:
    """Return all nodes, and which of ``names`` are in use.

    :raises CommandFailed: slurmctld does not answer.
    :raises HostlistError: its answer is invalid.
    """
    known = nodes.read_nodes(run)
    present = [name for name in names if name in known]
    return known, job_control.busy(known, present, job_control.jobs_on(present, run))
