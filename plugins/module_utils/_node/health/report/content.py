# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The content of a node's report: the result of each check's newest run, in any tier. Pure."""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...slurm.arbiter.report import MOST_RUNS, Fault, Report
from ..catalog import NAMES, load
from ..check import COUNTS, NODE, REPORT, UNKNOWN
from ..record import TIME

BOOT_LETTERS = 8
"""This many characters of the kernel's boot id distinguish one boot from another."""

Document = Mapping[str, Any]
Runs = Mapping[str, tuple[int, int]]
"""By check: the number of consecutive failures, and the time of the last counted run."""


@dataclass(frozen=True)
class _Newest:
    time: int
    check: Mapping[str, Any]


def report_of(documents: Iterable[Document], runs: Runs | None = None) -> tuple[Report | None, Runs]:
    """Return the report, and the number of consecutive failures of each check.

    :param documents: the records of the tiers that have run in this boot.
    :param runs: the numbers that the last call returned.
    :return: None for the report if no tier has run.
    """
    tiers = sorted(documents, key=_time_of)
    if not tiers:
        return None, {}
    newest: dict[str, _Newest] = {}
    for document in tiers:
        newest.update({check["name"]: _Newest(_time_of(document), check) for check in document["checks"]})
    in_order = sorted(newest, key=_place)
    # Faults that block jobs come first, because the first fault becomes the node's reason and often causes the others.
    failed = sorted((name for name in in_order if _fails(newest[name].check)), key=lambda name: not _blocks(name))
    counted = {name: _count(newest[name].time, (runs or {}).get(name)) for name in failed}
    node = tiers[-1]["node"]
    report = Report(
        time=_time_of(tiers[-1]),
        boot=str(node["boot_id"])[:BOOT_LETTERS],
        vm_id=str(node["vm_id"]),
        host=str(node["host"]),
        faults=tuple(_fault(newest[name].check, counted[name][0]) for name in failed),
        unknown=tuple(name for name in in_order if newest[name].check["verdict"] == UNKNOWN),
    )
    return report, counted


def _time_of(document: Document) -> int:
    return calendar.timegm(time.strptime(str(document["time"]), TIME))


def _place(name: str) -> int:
    return NAMES.index(name) if name in NAMES else len(NAMES)


def _fails(check: Mapping[str, Any]) -> bool:
    """Return whether it failed, and a user is not the cause."""
    return bool(check["verdict"] in COUNTS[REPORT] and check["cause"] == NODE)


def _count(ran: int, before: tuple[int, int] | None) -> tuple[int, int]:
    if before is None:
        return 1, ran
    return (before[0], before[1]) if ran <= before[1] else (min(before[0] + 1, MOST_RUNS), ran)


def _fault(check: Mapping[str, Any], runs: int) -> Fault:
    name = str(check["name"])
    return Fault(name, str(check["action"]), str(check["summary"]), runs, _blocks(name))


def _blocks(name: str) -> bool:
    return name in NAMES and load(name).blocks_job


def blocking_of(document: Document | None) -> str:
    """Return in one line the first fault in a prolog's run that blocks jobs; empty if there is none."""
    for check in document["checks"] if document else ():
        if _fails(check) and _blocks(str(check["name"])):
            return f"{check['name']}: {check['summary']}"
    return ""
