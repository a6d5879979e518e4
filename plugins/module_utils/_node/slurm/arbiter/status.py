# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The result of the arbiter's last pass: for people, for programs and for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ...machine.atomic import read_state, write_state
from ...machine.exposition import Metric, as_text, write_text_file
from ...machine.root import Root
from .actions import BAD, CAP, HELD, NO_DATA, ActionResult
from .decide import Decision
from .records import Machines
from .settings import Settings

STATUS_FILE = "/run/hpcai/health/arbiter.json"
SCHEMA = 1
METRICS_FILE = "hpcai_health_arbiter.prom"
METRICS = {
    "hpcai_health_nodes_out": "Nodes that are drained for their health.",
    "hpcai_health_max_out": "Drain limit: nodes that may be drained for their health at a time.",
    "hpcai_health_cap_reached": "1 if a node should be drained but is not, because of the drain limit.",
    "hpcai_health_nodes_refused": "Nodes that should be drained but are not, because of the drain limit.",
    "hpcai_health_nodes_held": "Nodes that were drained so often that they are not resumed automatically.",
    "hpcai_health_nodes_to_replace": "Nodes that are marked for replacement.",
    "hpcai_health_nodes_without_report": "Nodes whose report is missing, too old or unreadable.",
    "hpcai_health_actions_failed": "Actions that slurmctld refused in the last pass.",
    "hpcai_health_arbiter_timestamp_seconds": "Time of the arbiter's last pass.",
}
"""Names of the metrics, each with its help text."""


def document(
    decision: Decision, done: Sequence[ActionResult], machines: Machines, settings: Settings, now: float
) -> dict[str, Any]:
    """Return the result of the last pass, as plain values."""
    changed = {one.action.node: one for one in done if not one.problem}
    drained = {node for node, one in changed.items() if one.action.kind == "drain"}
    returned = {node for node, one in changed.items() if one.action.kind == "return"}
    return {
        "time": int(now),
        "nodes": decision.nodes,
        "max_out": settings.max_out,
        "allowed": decision.allowed,
        "out": sorted((set(decision.out) | drained) - returned),
        "refused": dict(decision.refused),
        "replace": [
            {"node": one.name, "vm_id": one.key, "host": one.host, **asdict(one.marked)}
            for one in sorted(machines.values(), key=lambda one: one.name)
            if one.marked
        ],
        "alerts": [asdict(alert) for alert in decision.alerts],
        "actions": [
            {"kind": one.action.kind, "node": one.action.node, "reason": one.action.reason, "problem": one.problem}
            for one in done
        ],
    }


def write_status(root: Root, status: Mapping[str, Any]) -> None:
    """Write the result of the last pass.

    :raises OSError: it cannot be written.
    """
    write_state(root, STATUS_FILE, SCHEMA, status)


def read_status(root: Root) -> dict[str, Any] | None:
    """Return the result of the last pass; None if there is no readable one."""
    return read_state(root, STATUS_FILE, SCHEMA)


def write_metrics(root: Root, status: Mapping[str, Any], settings: Settings) -> None:
    """Write the text file for the node exporter, if wanted.

    :raises OSError: it cannot be written.
    """
    write_text_file(root, settings.metrics, METRICS_FILE, metrics(status))


def metrics(status: Mapping[str, Any]) -> str:
    """Return the status in the text format of Prometheus."""
    values = {
        "hpcai_health_nodes_out": len(status["out"]),
        "hpcai_health_max_out": status["allowed"],
        "hpcai_health_cap_reached": int(_count(status, (CAP,)) > 0),
        "hpcai_health_nodes_refused": len(status["refused"]),
        "hpcai_health_nodes_held": _count(status, (HELD,)),
        "hpcai_health_nodes_to_replace": len(status["replace"]),
        "hpcai_health_nodes_without_report": _count(status, NO_DATA),
        "hpcai_health_actions_failed": sum(bool(one["problem"]) for one in status["actions"]),
        "hpcai_health_arbiter_timestamp_seconds": status["time"],
    }
    return as_text(Metric(name, words, {(): values[name]}) for name, words in METRICS.items())


def _count(status: Mapping[str, Any], kinds: Iterable[str]) -> int:
    return sum(alert["kind"] in tuple(kinds) for alert in status["alerts"])


def is_bad(status: Mapping[str, Any]) -> bool:
    """Whether a person has to do something."""
    return _count(status, BAD) > 0 or any(one["problem"] for one in status["actions"])


def lacks_data(status: Mapping[str, Any]) -> bool:
    """Whether there is no data of a node."""
    return _count(status, NO_DATA) > 0


def lines(status: Mapping[str, Any]) -> list[str]:
    """Return the status as lines for people."""
    made = [
        f"{len(status['out'])} of {status['nodes']} nodes are drained for their health; "
        f"the drain limit is {status['allowed']}"
    ]
    made += [f"out: {node}" for node in status["out"]]
    made += [f"to replace: {one['node']} ({one['reason']})" for one in status["replace"]]
    made += [alert_line(alert) for alert in status["alerts"]]
    made += [f"not done: {one['kind']} {one['node']}: {one['problem']}" for one in status["actions"] if one["problem"]]
    return made


def alert_line(alert: Mapping[str, Any]) -> str:
    """Return an alert in one line."""
    return f"{alert['kind']}: {alert['node']}{': ' if alert['node'] else ''}{alert['words']}"
