# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The results of all nodes as one document, report.json.

A node that did not answer has an entry too, so that a missing node does not look healthy.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._azure import hardware_faults
from .._azure.errors import InventoryError
from .._azure.hardware_faults import faults_of, machine_of


def registered(hostvars: Mapping[str, Any], host: str, variable: str) -> Any:
    """Return what a task registered for a host, as plain values, or None if there is nothing or the host is unknown.

    It avoids Ansible's templating in hostvars, which is not needed for results. With several hundred values per node it
    took ten times as long as the entire report.
    """
    if host not in hostvars:
        return None
    # Tests pass plain mappings, which have no raw_get.
    raw_get = getattr(hostvars, "raw_get", hostvars.__getitem__)
    value = raw_get(host).get(variable)
    if isinstance(value, str):
        # The variable is a template, which may evaluate to a result.
        value = hostvars[host].get(variable)
    return as_plain_values(value)


def as_plain_values(value: Any) -> Any:
    """Return the value without Ansible's tags and lazy containers, because these make each access slow."""
    if isinstance(value, Mapping):
        return {str(key): as_plain_values(value[key]) for key in value}
    if isinstance(value, (list, tuple)):
        return [as_plain_values(item) for item in value]
    if isinstance(value, str):
        return str(value)
    return value


SCHEMA = 1
"""Schema of report.json. Increase it when readers of the old form would misread the new one."""
SCHEMA_OF_NODES = 1
"""Schema of the output of ``hpcnode health``."""

NO_ANSWER = "no_answer"
"""State of a node without a result, in addition to the verdicts."""
STATES = ("fail", NO_ANSWER, "unknown", "warn", "pass", "skip")
"""States of nodes in the report, the worst first."""
_VERDICTS = tuple(state for state in STATES if state != NO_ANSWER)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_IDENTITY = ("name", "vm_id", "vm_size", "host", "boot_id", "image", "collection")
_FINDING = ("verdict", "summary", "device", "hint", "action", "fault", "cause")


@dataclass(frozen=True)
class NodeResult:
    """A node that was checked, and the result of the task.

    :ivar host: its name in the inventory.
    :ivar result: what the task registered for it. Empty if there is nothing.
    :ivar inventory: its variables in the inventory: for values that a node without an answer does not report, and for
        those that commands and links are made of (``azure_id``, ``slurm_node_name``), which no node may choose.
    """

    host: str
    result: Mapping[str, Any]
    inventory: Mapping[str, Any] = field(default_factory=dict)


def gather(
    asked: Iterable[NodeResult], *, tier: str, time: str, cluster: str = "", limit: str = "", collection: str = ""
) -> dict[str, Any]:
    """Return the report about these nodes, without what ``outliers`` adds. Pure.

    :param tier: the tier of checks that was requested.
    :param time: time of the report, in the form of the nodes' documents.
    :param limit: limit of the run. Empty if it covers all nodes.
    :param collection: version of the collection that writes the report.
    """
    nodes = sorted((_node(one, tier) for one in asked), key=lambda node: natural(node["host_name"]))
    counts = {state: sum(node["state"] == state for node in nodes) for state in STATES}
    return {
        "schema": SCHEMA,
        "report": "health",
        "time": time,
        "tier": tier,
        "cluster": cluster,
        "limit": limit,
        "collection": collection,
        "verdict": verdict_of(counts),
        "counts": counts,
        "checks": _order(node["checks"] for node in nodes),
        "nodes": nodes,
    }


def verdict_of(counts: Mapping[str, int]) -> str:
    """Return the overall verdict. A missing answer counts as unknown, and so does a report without measurements."""
    for state in STATES:
        if counts.get(state):
            return "unknown" if state in (NO_ANSWER, "skip") else state
    return "unknown"


def headline(report: Mapping[str, Any]) -> str:
    """Return the counts in one line."""
    counts = ", ".join(f"{report['counts'][s]} {state_word(s)}" for s in STATES if report["counts"].get(s))
    of = f" of {report['cluster']}" if report["cluster"] else ""
    limited = f", limited to {report['limit']}" if report["limit"] else ""
    many = f"{len(report['nodes'])} node{'s' if len(report['nodes']) != 1 else ''}"
    return f"Health{of}, tier {report['tier']}, {many}{limited}: {counts or 'nothing was checked'}"


def state_word(state: str) -> str:
    """Return a state as text for people."""
    return "no answer" if state == NO_ANSWER else state


def worst(node: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the first check with the state of the node, or None if no check explains its state."""
    if node["state"] in ("pass", "skip", NO_ANSWER):
        return None
    return next((check for check in node["checks"] if check["verdict"] == node["state"]), None)


def what(node: Mapping[str, Any]) -> str:
    """Return the problem of a node, in one line."""
    if node["problem"]:
        return str(node["problem"])
    check = worst(node)
    if check is None:
        return ""
    more = sum(other["verdict"] == check["verdict"] for other in node["checks"]) - 1
    return f"{check['name']}: {check['summary']}" + (f" (and {more} more)" if more else "")


def is_time(text: str) -> bool:
    """Say whether a text has the form of the times in the nodes' documents."""
    return _TIME.fullmatch(text) is not None


def natural(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key that puts compute-9 before compute-10."""
    return [(0, int(word), "") if word.isdecimal() else (1, 0, word) for word in re.split(r"(\d+)", name) if word]


def _node(one: NodeResult, tier: str) -> dict[str, Any]:
    document = one.result.get("health")
    problem = _problem(one.result, document, tier)
    answer: Mapping[str, Any] = document if isinstance(document, Mapping) and not problem else {}
    stated = answer.get("node") or {}
    identity = {key: str(stated.get(key) or "") for key in _IDENTITY}
    # Use the values from Azure if the node did not report its own.
    identity["vm_id"] = identity["vm_id"] or str(one.inventory.get("azure_vm_id") or "")
    identity["vm_size"] = identity["vm_size"] or str(one.inventory.get("azure_vm_size") or "")
    return {
        "host_name": one.host,
        **identity,
        "slurm_name": str(one.inventory.get("slurm_node_name") or one.host),
        "azure_id": str(one.inventory.get("azure_id") or ""),
        "state": NO_ANSWER if problem else answer["verdict"],
        "problem": problem,
        "time": str(answer.get("time") or ""),
        "seconds": _number(answer.get("seconds")) or 0.0,
        "checks": [_check(check) for check in answer.get("checks", ())],
    }


def _problem(result: Mapping[str, Any], document: Any, tier: str) -> str:
    """Return why there is no result, in one line. Empty if there is one."""
    if not isinstance(document, Mapping):
        message = _one_line(result.get("msg") or result.get("module_stderr") or "")
        if result.get("unreachable"):
            return f"could not be reached: {message}" if message else "could not be reached"
        if result.get("failed"):
            return f"the checks could not be run: {message}" if message else "the checks could not be run"
        return "was not checked: the run ended earlier"
    schema = document.get("schema")
    if schema != SCHEMA_OF_NODES:
        return (
            f"the result has schema {schema!r}, this collection reads {SCHEMA_OF_NODES}: install the same version on "
            "the node and the controller"
        )
    if not _is_well_formed(document):
        return "the result has another form than hpcnode writes"
    if document.get("verdict") not in _VERDICTS or not document.get("checks"):
        return "ran no check"
    if document.get("tier") != tier:
        return f"the result is of the tier {document.get('tier')!r}, not {tier!r}"
    return ""


def _is_well_formed(document: Mapping[str, Any]) -> bool:
    """Whether a document has the structure that readers use. A node can send anything, and must not hide the others."""
    checks = document.get("checks") or []
    if not isinstance(document.get("node") or {}, Mapping) or not _is_list_of_mappings(checks):
        return False
    return all(_is_list_of_mappings(check.get(key) or []) for check in checks for key in ("findings", "readings"))


def _is_list_of_mappings(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(item, Mapping) for item in value)


def _check(check: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": str(check.get("name") or ""),
        "verdict": _verdict(check),
        "summary": str(check.get("summary") or ""),
        "hint": str(check.get("hint") or ""),
        "action": str(check.get("action") or ""),
        "fault": str(check.get("fault") or ""),
        "cause": str(check.get("cause") or ""),
        "seconds": _number(check.get("seconds")) or 0.0,
        "latched": bool(check.get("latched")),
        "limit": str(check.get("limit") or ""),
        "findings": [_finding(finding) for finding in check.get("findings") or ()],
        "readings": [_reading(reading) for reading in check.get("readings") or ()],
    }


def _finding(finding: Mapping[str, Any]) -> dict[str, Any]:
    words = {key: str(finding.get(key) or "") for key in _FINDING}
    return {**words, "verdict": _verdict(finding), "latch": bool(finding.get("latch"))}


def _verdict(of: Mapping[str, Any]) -> str:
    return str(of["verdict"]) if of.get("verdict") in _VERDICTS else "unknown"


def _reading(reading: Mapping[str, Any]) -> dict[str, Any]:
    value = reading.get("value")
    number = _number(value)
    return {
        "name": str(reading.get("name") or ""),
        # A value that is not a JSON number is written as text.
        "value": str(value) if number is None else number,
        "unit": str(reading.get("unit") or ""),
        "device": str(reading.get("device") or ""),
        "limit": _number(reading.get("limit")),
        "at_most": bool(reading.get("at_most")),
    }


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:
        # An integer that no floating point number can have.
        return None


def _order(nodes: Iterable[Sequence[Mapping[str, Any]]]) -> list[str]:
    """Return the names of all checks in the nodes' order. A check that only some nodes have follows its predecessor."""
    names: list[str] = []
    for checks in nodes:
        place = 0
        for check in checks:
            if check["name"] in names:
                place = names.index(check["name"]) + 1
            else:
                names.insert(place, check["name"])
                place += 1
    return names


def _one_line(text: Any) -> str:
    return " ".join(str(text).split())


def find_suspects(asked: Iterable[NodeResult], folder: str) -> list[dict[str, Any]]:
    """Return the nodes without a hardware fault on a host that had one, each with a warning of one line.

    ``host_name`` is the node's name in the inventory, as in the report. hpcai.azure.vmss_impact maintains the record of
    such hosts in the report's folder.

    :raises InventoryError: the record cannot be read.
    """
    file = Path(folder) / hardware_faults.RECORD_FILE
    try:
        text = file.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise InventoryError(f"{file} cannot be read: {error}") from None
    record = hardware_faults.read_record(text, str(file))
    return [
        {"host_name": one.host, **suspect}
        for one in asked
        if (machine := _machine_faults(one)) is not None
        for suspect in hardware_faults.suspects(record, [machine])
    ]


def _machine_faults(one: NodeResult) -> hardware_faults.MachineFaults | None:
    document = one.result.get("health")
    if not isinstance(document, Mapping) or not _is_well_formed(document):
        return None
    try:
        machine = machine_of(document, one.host)
    except InventoryError:
        # The report shows such a node as a node without a result.
        return None
    known = dataclasses.replace(machine, vm_id=machine.vm_id or str(one.inventory.get("azure_vm_id") or ""))
    return hardware_faults.MachineFaults(known, tuple(faults_of(document)))
