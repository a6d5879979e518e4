# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A run of a tier as text: one line per check, and one for all; and the list of checks with their limits."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .check import FAIL, UNKNOWN, WARN, Check, Result
from .engine import TierRun
from .measure import Machine
from .settings import FILE, in_words

LEVELS = {FAIL: "<3>", UNKNOWN: "<3>", WARN: "<4>"}
"""The journal's prefixes for errors and warnings (sd-daemon(3))."""
REASON_PREFIX = "hpcai: health: "
"""Beginning of a node's reason in Slurm after a failed check; the check's name and summary follow."""
_INDENT = "    "


def of_run(run: TierRun, levels: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a run.

    :param levels: prefixes of the lines by verdict (``LEVELS``); empty for a terminal.
    """
    for result in run.results:
        yield f"{levels.get(result.verdict, '')}{_line(result)}"
    counted = {verdict: sum(result.verdict == verdict for result in run.results) for verdict in (FAIL, UNKNOWN, WARN)}
    bad = [f"{count} {verdict}" for verdict, count in counted.items() if count]
    count = f"{len(run.results)} check{'s' if len(run.results) != 1 else ''}"
    yield f"{run.tier}: {run.verdict}: {', '.join([count, *bad])} ({run.seconds:.1f} s)"


def _line(result: Result) -> str:
    words = result.summary.rstrip(".")
    kept = " Latched until the machine restarts or you run 'hpcnode health clear'." if result.latched else ""
    hint = f" To do: {result.hint.rstrip('.')}." if result.hint else ""
    fault = f" [{result.fault}]" if result.fault else ""
    return f"{result.name}: {result.verdict} ({result.seconds:.1f} s): {words}{fault}.{kept}{hint}"


def reason_of(checks: Sequence[Mapping[str, Any]]) -> str:
    """Return the node's reason in Slurm for the checks of a document; empty if none failed.

    It is of the first failing check; problems of the node come before traces of a user's job.
    """
    failed = sorted((check for check in checks if check["verdict"] == FAIL), key=lambda check: check["cause"] == "user")
    if not failed:
        return ""
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    return f"{REASON_PREFIX}{failed[0]['name']}: {failed[0]['summary']}{more}"


def of_checks(checks: Iterable[Check], machine: Machine) -> Iterator[str]:
    """Yield the description of each check, with its limits on this machine and their sources."""
    for check in checks:
        yield f"{check.name}: {check.title}"
        yield from textwrap.wrap(check.explain, 100, initial_indent=_INDENT, subsequent_indent=_INDENT)
        for term, words in facts_of(check, machine).items():
            yield f"{_INDENT}{term}: {words}"


def _option(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, (list, tuple)) else str(value) or "none"


def _unlimited(check: Check, name: str, machine: Machine) -> str:
    if name in check.further_limits:
        return f"as above, unless limits in {FILE} sets it"
    return "none is known for this VM size" if machine.size else "not known, because the VM size is not known"


def facts_of(check: Check, machine: Machine) -> dict[str, str]:
    """Return the facts of a check on this machine, as text."""
    facts = {"tiers": ", ".join(check.tiers), "timeout": f"{check.limit_s:g} s"}
    for name in check.limits:
        limit = machine.settings.threshold(machine.size, name)
        facts[f"limit {name}"] = in_words(limit) if limit else _unlimited(check, name, machine)
    for name, default in check.options.items():
        value = machine.settings.option(check.name, name, default)
        facts[f"option {name}"] = f"{_option(value)}{'' if value == default else f' ({FILE})'}"
    if check.fault:
        facts["fault"] = check.fault
    facts["action on failure"] = check.action.replace("_", " ")
    blocks = [what for what, is_so in (("jobs", check.blocks_job), ("slurmd at boot", check.blocks_boot)) if is_so]
    if blocks:
        facts["a failure blocks"] = " and ".join(blocks)
    if check.name in machine.settings.off:
        facts["on this node"] = "turned off"
    else:
        reason = check.applies(machine.size)
        if reason:
            facts["on this node"] = f"skipped: {reason}"
        elif check.name in machine.settings.warn_only:
            facts["on this node"] = "a failure is only a warning"
    return facts
