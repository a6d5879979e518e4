# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Runs a tier for hpcnode and the module: with its document, its record, and the file for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..machine.root import Root
from ..machine.verdict import worst
from . import prometheus, record
from .catalog import select_checks
from .check import FAIL, PROLOG, SKIP, UNKNOWN, WARN, Check, Result
from .engine import Begin, TierRun, machine_of, run_tier, silently
from .measure import Machine, TimedRun
from .settings import source_in_words

GOOD, BAD, INDETERMINATE = 0, 1, 2
"""Exit statuses, as hpcnode has them."""


def status_of(run: TierRun) -> int:
    """Return the exit status. For a prolog it is BAD only if no job must start, because Slurm then drains the node."""
    if run.tier == PROLOG:
        return BAD if run.blocks_job else GOOD
    verdicts = [result.verdict for result in run.results]
    if FAIL in verdicts:
        return BAD
    # If all checks were skipped, the node's health is not known.
    return INDETERMINATE if UNKNOWN in verdicts or not set(verdicts) - {SKIP} else GOOD


def as_document(run: TierRun, node: Mapping[str, str]) -> dict[str, Any]:
    """Return a run's results as plain values, without the header that hpcnode adds."""
    return {
        "tier": run.tier,
        "time": time.strftime(record.TIME, time.gmtime(run.began)),
        "seconds": round(run.seconds, 3),
        "verdict": run.verdict,
        "node": dict(node),
        "checks": [of_result(result) for result in run.results],
        "problems": list(run.problems),
    }


def of_result(result: Result) -> dict[str, Any]:
    """Return a result as plain values."""
    entry: dict[str, Any] = {
        "name": result.name,
        "verdict": result.verdict,
        "summary": result.summary,
        "hint": result.hint,
        "action": result.action,
        "fault": result.fault,
        "cause": result.cause,
        "seconds": round(result.seconds, 3),
        "latched": result.latched,
        "limit": result.answer.limit,
        "findings": [asdict(finding) for finding in result.answer.findings],
        "readings": [asdict(reading) for reading in result.answer.readings],
    }
    return {**entry, "details": dict(result.details)} if result.details else entry


def of_check(check: Check, machine: Machine) -> dict[str, Any]:
    """Return the description of a check, with its limits on this machine."""
    limits = {}
    for name in check.limits:
        limit = machine.settings.threshold(machine.size, name)
        limits[name] = {**asdict(limit), "source": source_in_words(limit.source)} if limit else None
    return {
        "name": check.name,
        "title": check.title,
        "explain": check.explain,
        "tiers": list(check.tiers),
        "limit_s": check.limit_s,
        "limits": limits,
        "options": {name: machine.settings.option(check.name, name, usual) for name, usual in check.options.items()},
        "action": check.action,
        "fault": check.fault,
        "blocks_job": check.blocks_job,
        "blocks_boot": check.blocks_boot,
        "off": check.name in machine.settings.off,
        "warn_only": check.name in machine.settings.warn_only,
        "skipped": check.applies(machine.size),
    }


NEVER = "never"
FAIL_ON = (NEVER, FAIL, UNKNOWN, WARN)
"""The verdicts from which on the module's task fails."""


@dataclass(frozen=True)
class Performed:
    """The results of a tier.

    :ivar status: the exit status of hpcnode.
    :ivar document: all results, and problems of writing them.
    """

    run: TierRun
    status: int
    document: dict[str, Any]

    @property
    def recorded_document(self) -> dict[str, Any]:
        """The document with the header that hpcnode adds, as in the record."""
        return record.with_header(self.status, self.document)


def perform(
    tier: str,
    only: Sequence[str],
    root: Root,
    run: TimedRun,
    collection: str,
    job: str = "",
    begin: Begin = silently,
) -> Performed:
    """Run a tier. A run of only some of its checks is not recorded, because the record is of the complete tier.

    :param only: names of checks; empty for all checks of the tier.
    :param collection: version of the collection.
    :param job: id of the job whose prolog or epilog this is.
    :param begin: shows how far the run is.
    :raises NoSuchCheck: there is no check of a name, or it is not in the tier.
    :raises KeyboardInterrupt: this process got SIGINT or SIGTERM.
    """
    checks = select_checks(tier, only)
    machine = machine_of(root, run)
    done = run_tier(tier, checks, machine, job, begin)
    node = record.node_of(root, machine.size.name if machine.size else "", collection)
    status, document = status_of(done), as_document(done, node)
    if not only:
        document["problems"] += _written(root, machine, status, document)
    return Performed(done, status, document)


def _written(root: Root, machine: Machine, status: int, document: dict[str, Any]) -> list[str]:
    """Write the record and the file for Prometheus, and return messages about what could not be written."""
    problems = []
    folder = prometheus.folder_of(root, machine.settings)
    try:
        record.write(root, status, document)
    except OSError as error:
        record.remove(root, document["tier"])
        problems.append(f"cannot write the record: {error}")
    try:
        if folder:
            prometheus.write(root, folder, document)
    except OSError as error:
        problems.append(f"cannot write the file for Prometheus: {error}")
    return problems


def as_result(document: Mapping[str, Any], fail_on: str) -> dict[str, Any]:
    """Return a module's result from a complete document, with ``warnings``, and with ``msg`` if it is a failure."""
    result = {"changed": False, "health": document, "warnings": document["problems"]}
    if not is_failure(document["verdict"], fail_on):
        return result
    bad = [check for check in document["checks"] if check["verdict"] == document["verdict"]]
    return {**result, "msg": "; ".join(f"{one['name']}: {one['verdict']}: {one['summary']}" for one in bad)}


def is_failure(verdict: str, fail_on: str) -> bool:
    """Return whether a verdict is as bad as ``fail_on`` or worse; SKIP counts as UNKNOWN."""
    if verdict == SKIP:
        verdict = UNKNOWN
    return fail_on != NEVER and verdict in FAIL_ON and worst([verdict, fail_on]) == verdict
