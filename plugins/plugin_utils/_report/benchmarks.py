# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The newest results of the benchmarks, in the folder of the health report, and how they appear on its page.

A benchmark never makes a node look as if it should be drained: on the health report a failed benchmark is a warning.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.atomic import write_file
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.verdict import VERDICTS, worst

from .._azure.errors import InventoryError
from .gather import NodeResult, is_time

FILE = "benchmarks.json"
SCHEMA = 1
PREFIX = "bench_"
"""Beginning of a benchmark's name among the checks, because several have the name of a check."""

Held = Mapping[str, Mapping[str, Any]]
"""By host: ``vm_id`` of the machine that was measured, and ``checks`` by name, each with its ``time``."""


def read(folder: str) -> dict[str, dict[str, Any]]:
    """Return the results that are kept in a report's folder; none if there is no file.

    :raises InventoryError: the file cannot be read.
    """
    path = os.path.join(folder, FILE)
    try:
        with open(path, encoding="utf-8") as file:
            held = json.load(file)
        if held["schema"] != SCHEMA:
            raise InventoryError(f"{path} has schema {held['schema']!r}: this collection reads {SCHEMA}. Remove it.")
        return {str(host): dict(entry) for host, entry in held["hosts"].items()}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise InventoryError(f"{path} cannot be read ({error}): remove it, and run the benchmarks again.") from None


def merged(held: Held, results: Sequence[NodeResult]) -> dict[str, dict[str, Any]]:
    """Return the kept results with new ones. Those of another machine of the same name are dropped. Pure."""
    after = {host: dict(entry) for host, entry in held.items()}
    for one in results:
        document = one.result.get("health")
        if not isinstance(document, Mapping) or not is_time(str(document.get("time") or "")):
            continue
        vm_id = str(one.inventory.get("azure_vm_id") or "")
        entry = after.get(one.host, {})
        checks = dict(entry.get("checks") or {}) if entry.get("vm_id", "") == vm_id else {}
        for check in document.get("checks") or ():
            checks[str(check["name"])] = {"time": document["time"], **check}
        after[one.host] = {"vm_id": vm_id, "checks": checks}
    return after


def write(folder: str, held: Held, dry: bool = False) -> bool:
    """Write the results if they differ, and return whether they do.

    :param dry: only return it.
    :raises OSError: the file cannot be written.
    """
    path = os.path.join(folder, FILE)
    text = json.dumps({"schema": SCHEMA, "hosts": held}, indent=1, sort_keys=True, allow_nan=False) + "\n"
    try:
        with open(path, encoding="utf-8") as file:
            same = file.read() == text
    except (FileNotFoundError, NotADirectoryError):
        same = False
    if not same and not dry:
        write_file(path, text)
    return not same


def with_benchmarks(one: NodeResult, held: Held) -> NodeResult:
    """Return a node's result with its newest benchmarks as further checks. Pure.

    A node that gave no answer stays as it is.
    """
    document = one.result.get("health")
    entry = held.get(one.host)
    vm_id = str(one.inventory.get("azure_vm_id") or "")
    if not isinstance(document, Mapping) or not document.get("checks") or not entry or entry.get("vm_id") != vm_id:
        return one
    added = [_as_check(name, check) for name, check in (entry.get("checks") or {}).items()]
    verdicts = [str(document.get("verdict")), *(check["verdict"] for check in added if check["verdict"] == "warn")]
    known = [verdict for verdict in verdicts if verdict in VERDICTS]
    health = {
        **document,
        "verdict": worst(known) if known else document.get("verdict"),
        "checks": [*document["checks"], *added],
    }
    return NodeResult(one.host, {**one.result, "health": health}, one.inventory)


def _as_check(name: str, check: Mapping[str, Any]) -> dict[str, Any]:
    failed = check.get("verdict") == "fail"
    when = str(check.get("time") or "")[:10]
    words = f"{'failed: ' if failed else ''}{check.get('summary') or ''} (measured on {when})"
    findings = [
        {**finding, "verdict": "warn" if finding.get("verdict") == "fail" else finding.get("verdict")}
        for finding in check.get("findings") or ()
    ]
    readings = [{**reading, "name": f"{PREFIX}{reading['name']}"} for reading in check.get("readings") or ()]
    return {
        **{key: value for key, value in check.items() if key != "time"},
        "name": f"{PREFIX}{name}",
        "verdict": "warn" if failed else check.get("verdict"),
        "summary": words,
        "findings": findings,
        "readings": readings,
    }
