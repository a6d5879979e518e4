# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The result of the arbiter's last pass: for people, for programs and for Prometheus."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ...machine.atomic import make_operators_folder, write_file
from ...machine.root import Root
from .actions import BAD, CAP, HELD, NO_DATA, Done
from .decide import Decision
from .records import Machines
from .settings import Settings

STATUS_FILE = "/run/hpcai/health/arbiter.json"
SCHEMA = 1
EXPORTER_FOLDER = "/var/lib/prometheus/node-exporter"
METRICS_FILE = "hpcai_health_arbiter.prom"
METRICS = {
    "hpcai_health_nodes_out": "Nodes that are out of scheduling for their health.",
    "hpcai_health_max_out": "Nodes that may be out for their health at a time.",
    "hpcai_health_cap_reached": "1 where a node should be drained and is not, because no more may be out.",
    "hpcai_health_nodes_refused": "Nodes that should be drained and are not, because no more may be out.",
    "hpcai_health_nodes_held": "Nodes that were drained so often that they do not return by themselves.",
    "hpcai_health_nodes_to_replace": "Nodes that are marked for replacement.",
    "hpcai_health_nodes_untold": "Nodes whose report is missing, too old or unreadable.",
    "hpcai_health_actions_failed": "What slurmctld refused in the last look.",
    "hpcai_health_arbiter_timestamp_seconds": "When the arbiter looked last.",
}
"""Names of what is measured, each with its help."""


def document(
    decision: Decision, done: Sequence[Done], machines: Machines, settings: Settings, now: float
) -> dict[str, Any]:
    """Return what the last look came to, as plain values."""
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
    """Write down what the last look came to.

    :raises OSError: it cannot be written.
    """
    make_operators_folder(root, os.path.dirname(STATUS_FILE))
    write_file(root.at(STATUS_FILE), json.dumps({"schema": SCHEMA, **status}, indent=1) + "\n")


def read_status(root: Root) -> dict[str, Any] | None:
    """Return what the last look came to; None where there was none that can be read."""
    try:
        held = json.loads(root.text(STATUS_FILE) or "null")
    except ValueError:
        return None
    return held if isinstance(held, dict) and held.pop("schema", None) == SCHEMA else None


def write_metrics(root: Root, status: Mapping[str, Any], settings: Settings) -> None:
    """Write the text file for the node exporter, where one is wanted.

    :raises OSError: it cannot be written.
    """
    folder = settings.metrics
    if folder is None:
        folder = EXPORTER_FOLDER if os.path.isdir(root.at(EXPORTER_FOLDER)) else ""
    if folder:
        write_file(root.at(f"{folder}/{METRICS_FILE}"), metrics(status))


def metrics(status: Mapping[str, Any]) -> str:
    """Return the same for Prometheus."""
    values = {
        "hpcai_health_nodes_out": len(status["out"]),
        "hpcai_health_max_out": status["allowed"],
        "hpcai_health_cap_reached": int(_count(status, (CAP,)) > 0),
        "hpcai_health_nodes_refused": len(status["refused"]),
        "hpcai_health_nodes_held": _count(status, (HELD,)),
        "hpcai_health_nodes_to_replace": len(status["replace"]),
        "hpcai_health_nodes_untold": _count(status, NO_DATA),
        "hpcai_health_actions_failed": sum(bool(one["problem"]) for one in status["actions"]),
        "hpcai_health_arbiter_timestamp_seconds": status["time"],
    }
    lines = []
    for name, help_text in METRICS.items():
        lines += [f"# HELP {name} {help_text}", f"# TYPE {name} gauge", f"{name} {values[name]}"]
    return "\n".join(lines) + "\n"


def _count(status: Mapping[str, Any], kinds: Iterable[str]) -> int:
    return sum(alert["kind"] in tuple(kinds) for alert in status["alerts"])


def is_bad(status: Mapping[str, Any]) -> bool:
    """Whether somebody has to do something."""
    return _count(status, BAD) > 0 or any(one["problem"] for one in status["actions"])


def lacks_data(status: Mapping[str, Any]) -> bool:
    """Whether nothing is known of a node."""
    return _count(status, NO_DATA) > 0


def lines(status: Mapping[str, Any]) -> list[str]:
    """Return it for people."""
    made = [f"{len(status['out'])} of {status['nodes']} nodes are out for their health, and {status['allowed']} may be"]
    made += [f"out: {node}" for node in status["out"]]
    made += [f"to replace: {one['node']} ({one['reason']})" for one in status["replace"]]
    made += [alert_line(alert) for alert in status["alerts"]]
    made += [f"not done: {one['kind']} {one['node']}: {one['problem']}" for one in status["actions"] if one["problem"]]
    return made


def alert_line(alert: Mapping[str, Any]) -> str:
    """Return an alert in one line."""
    return f"{alert['kind']}: {alert['node']}{': ' if alert['node'] else ''}{alert['words']}"
