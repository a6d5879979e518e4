# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A run of a tier for programs: one document; the checks with what they are, for the list."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ..check import FAIL, PROLOG, SKIP, UNKNOWN, Check, Result
from ..engine import TierRun
from ..limits import source_in_words
from ..measure import Machine

TIME = "%Y-%m-%dT%H:%M:%SZ"
GOOD, BAD, COULD_NOT_TELL = 0, 1, 2
"""Exit statuses, as hpcnode has them."""


def status_of(run: TierRun) -> int:
    """Return the exit status: of a prolog BAD only for what a job must not meet, for Slurm drains the node for it."""
    if run.tier == PROLOG:
        return BAD if run.blocks_job else GOOD
    verdicts = [result.verdict for result in run.results]
    if FAIL in verdicts:
        return BAD
    # Where all checks were skipped, nothing was found to be good.
    return COULD_NOT_TELL if UNKNOWN in verdicts or not set(verdicts) - {SKIP} else GOOD


def as_document(run: TierRun, node: Mapping[str, str]) -> dict[str, Any]:
    """Return all that is known of a run as plain values, without what the frame of hpcnode sets."""
    return {
        "tier": run.tier,
        "time": time.strftime(TIME, time.gmtime(run.began)),
        "seconds": round(run.seconds, 3),
        "verdict": run.verdict,
        "node": dict(node),
        "checks": [_of_check(result) for result in run.results],
        "problems": list(run.problems),
    }


def _of_check(result: Result) -> dict[str, Any]:
    told: dict[str, Any] = {
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
    return {**told, "details": dict(result.details)} if result.details else told


def of_check(check: Check, machine: Machine) -> dict[str, Any]:
    """Return what a check is, with its limits on this machine."""
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
        "options": {name: machine.settings.option(check, name) for name in check.options},
        "action": check.action,
        "fault": check.fault,
        "blocks_job": check.blocks_job,
        "blocks_boot": check.blocks_boot,
        "off": check.name in machine.settings.off,
        "warn_only": check.name in machine.settings.warn_only,
        "skipped": check.applies(machine.size),
    }
