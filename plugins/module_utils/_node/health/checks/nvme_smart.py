# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Local NVMe disks: what they say of their own health (SMART)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ...machine.disks import read_block_devices
from ...setup.scratch.facts import select
from ...setup.scratch.options import parse, read_options
from ..check import BOOT, DEEP, FAIL, PERIODIC, REPLACE, UNKNOWN, WARN, Answer, Check, Context, Finding, Reading

_BITS = (
    "spare blocks are below their threshold",
    "its temperature is out of range",
    "its reliability is degraded by many media errors",
    "its media can only be read",
    "its backup of volatile memory failed",
    "its persistent memory region can only be read",
)
"""Of critical_warning (NVM Express base specification, SMART / health information log)."""
_WORN = 100
"""percentage_used at which the life that the maker promises is used up; more is allowed (same source)."""
_MISSING, _NO_ANSWER = 127, 124
_NOT_KEPT = (
    "invalid_opcode",
    "invalid opcode",
    "invalid log page",
    "invalid_log_page",
    "not supported",
    "inappropriate ioctl",
)
_ERRORS = "media_errors"


def _measure(context: Context) -> Answer:
    root = context.root
    devices = read_block_devices(root)
    names, _absent = select(read_options(root) or parse({}), devices, root)
    disks = [devices[name] for name in names if name in devices and name.startswith("nvme")]
    if not disks:
        return Answer(skipped="there is no local NVMe disk; check nvme_count tells whether there should be")
    before = context.history.get(_ERRORS) or {}
    errors, readings, findings, silent = dict(before), [], [], []
    for disk in disks:
        answer = context.run(["nvme", "smart-log", "--output-format=json", disk.path])
        if answer.rc == _MISSING:
            hint = "Install nvme-cli"
            return Answer(findings=(Finding(UNKNOWN, "the tool nvme is not installed", hint=hint),))
        said = f"{answer.stderr} {answer.stdout}".lower()
        if answer.rc not in (0, _NO_ANSWER) and any(words in said for words in _NOT_KEPT):
            silent.append(disk.name)
            continue
        log = _parse(answer.stdout) if answer.rc == 0 else {}
        if not log:
            why = (answer.stderr.strip() or "its answer is no JSON").splitlines()[0]
            findings.append(Finding(UNKNOWN, f"nvme smart-log of {disk.name} failed: {why}", disk.name))
            continue
        readings += [Reading(f"nvme_{name}", value, device=disk.name) for name, value in log.items()]
        findings += _judge(disk.name, disk.serial, log, before.get(disk.serial or disk.name))
        errors[disk.serial or disk.name] = log.get(_ERRORS, 0)
    if len(silent) == len(disks):
        return Answer(skipped="these disks keep no health log")
    context.history.keep(_ERRORS, errors)
    return Answer(
        good=f"{len(disks) - len(silent)} NVMe disks say that they are well",
        readings=tuple(readings),
        findings=tuple(findings),
        limit=f"critical_warning 0; percentage_used below {_WORN}; no new media_errors (NVM Express specification)",
    )


def _parse(text: str) -> dict[str, int]:
    """Return what matters of the log under the specification's names; nothing where there is no warning word in it."""
    try:
        given = json.loads(text)
        log = {
            "critical_warning": _number(given["critical_warning"]),
            "percentage_used": _number(given.get("percent_used", given.get("percentage_used"))),
            _ERRORS: _number(given.get(_ERRORS)),
        }
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}
    return {name: value for name, value in log.items() if value is not None}


def _number(value: Any) -> int | None:
    # Some versions write large numbers as text, and with --verbose a mapping with the bits.
    if isinstance(value, Mapping):
        value = value["value"]
    return None if value is None else int(value)


def _judge(name: str, serial: str, log: Mapping[str, int], errors_before: int | None) -> Iterator[Finding]:
    what = f"NVMe disk {name} ({serial})" if serial else f"NVMe disk {name}"
    warning = log["critical_warning"]
    if warning:
        told = [words for bit, words in enumerate(_BITS) if warning >> bit & 1] or ["a warning of unknown meaning"]
        yield Finding(FAIL, f"{what} warns: {', '.join(told)}", name, "Redeploy or replace the instance")
    if log.get("percentage_used", 0) >= _WORN:
        words = f"{what} has used up {log['percentage_used']} % of the life that its maker promises"
        yield Finding(WARN, words, name, "It may go on for long; expect it to fail")
    if errors_before is not None and log.get(_ERRORS, 0) > errors_before:
        words = f"{what} has {log[_ERRORS] - errors_before} new media errors"
        yield Finding(WARN, words, name, "Data was lost there; replace the instance if it goes on")


CHECK = Check(
    name="nvme_smart",
    title="Health of the local NVMe disks",
    explain=(
        "critical_warning of each local NVMe disk is 0 (else it fails), percentage_used is below 100 and media_errors "
        "have not grown since the last run (else it warns), by 'nvme smart-log' (NVM Express base specification, SMART "
        "/ health information log)."
    ),
    tiers=(PERIODIC, BOOT, DEEP),
    measure=_measure,
    limit_s=5.0,
    action=REPLACE,
    fault="NHC2023",
    asks_device=True,
)
