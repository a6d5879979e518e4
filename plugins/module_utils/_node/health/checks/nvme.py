# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Local NVMe disks: the expected number, with live controllers, and their health logs (SMART)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ...machine.disks import BlockDevice, read_block_devices
from ...machine.pci import NVME_CLASS, read_pci
from ...setup.scratch.disk_count import DiskCount, stated_count
from ...setup.scratch.facts import select
from ...setup.scratch.options import parse, read_options
from ..check import BOOT, DEEP, FAIL, PERIODIC, REBOOT, REPLACE, UNKNOWN, WARN, Answer, Check, Context, Finding, Reading

# Local NVMe disks: the expected number exists, and their controllers are live.

_CONTROLLERS = "/sys/class/nvme"
_LIVE, _GIVEN_UP = "live", ("dead", "deleting", "deleting (no IO)")
"""States of a controller; new, resetting and connecting are temporary states (drivers/nvme/host/sysfs.c)."""
_SERIALS, _AT_WORK = "serials", "not_live"
_LOST = "Redeploy the instance: Azure then gives it other disks, and the data on the scratch are lost"


def _measure_count(context: Context) -> Answer:
    root = context.root
    options = read_options(root) or parse({})
    size = context.size
    expected = stated_count(options, size.nvme_count, size.name) if size else stated_count(options)
    if expected is None or expected.count == 0:
        return Answer(
            skipped="no local NVMe disks are expected" if expected else "the expected number of disks is not known"
        )
    devices = read_block_devices(root)
    if not devices:
        return Answer(findings=(Finding(UNKNOWN, "sysfs shows no block device", hint="Run it as root"),))
    names, _absent = select(options, devices, root)
    disks = [devices[name] for name in names if name in devices]
    known = context.history.get(_SERIALS) or []
    context.history.keep(_SERIALS, sorted({*known, *(disk.serial for disk in disks if disk.serial)}))
    findings = [*_judge_count(disks, expected, known), *_controllers(context)]
    return Answer(
        good=f"there are {len(disks)} local NVMe disks",
        readings=(Reading("nvme_disks", len(disks), limit=expected.count),),
        findings=tuple(findings),
        limit=f"{expected.count} ({expected.origin})",
    )


def _judge_count(disks: list[BlockDevice], expected: DiskCount, known: list[str]) -> Iterator[Finding]:
    if len(disks) < expected.count:
        lost = sorted(set(known) - {disk.serial for disk in disks})
        serials = ", ".join(disk.serial or disk.name for disk in disks) or "none"
        named = f"missing since the boot: {', '.join(lost)}" if lost else f"present: {serials}"
        words = f"there are {len(disks)} of {expected.count} local NVMe disks; {named}"
        yield Finding(FAIL, words, hint=_LOST)
    elif len(disks) > expected.count:
        words = f"there are {len(disks)} local NVMe disks, but {expected.origin} says {expected.count}"
        yield Finding(WARN, words, hint="Correct the facts of this VM size (hpcai_vm_sizes), or expected_count")


def _controllers(context: Context) -> Iterator[Finding]:
    """Yield findings for controllers that the driver gave up or never used. One that is being reset fails in the next
    run."""
    root = context.root
    before = context.history.get(_AT_WORK) or []
    at_work = []
    for number, folder in root.numbered(_CONTROLLERS, "nvme"):
        name, state = f"nvme{number}", root.text(f"{folder}/state")
        if not state or state == _LIVE:
            continue
        words = f"NVMe controller {name} ({root.text(f'{folder}/address') or 'without address'}) is {state}"
        if state in _GIVEN_UP or name in before:
            hint = "Find the cause with 'journalctl -k -b'; a dead controller needs a restart of the machine"
            yield Finding(FAIL, words, name, hint, REBOOT)
        else:
            yield Finding(WARN, words, name, "Run the check again: it fails if the controller is not live then")
        at_work.append(name)
    context.history.keep(_AT_WORK, at_work)
    for device in read_pci(root):
        if device.class_code == NVME_CLASS and not root.entries(f"/sys/bus/pci/devices/{device.busid}/nvme"):
            words = f"NVMe controller {device.busid} is on the PCI bus, but has no driver"
            hint = "The nvme driver gave it up, or was unbound: see 'journalctl -k -b'; restart the machine"
            yield Finding(FAIL, words, device.busid, hint, REBOOT)


NVME_COUNT = Check(
    name="nvme_count",
    title="Local NVMe disks",
    explain=(
        "There are as many local NVMe disks as expected (azurehpc-health-checks, check_nvme_count). The expected "
        "number is the variable scratch_expected_count of the role scratch. If this variable is not set, the expected "
        "number is the length of the list scratch_devices. If this list is empty, it is the number in the facts of the "
        "VM size. If there are more disks, the check warns. If scratch_devices is empty, local NVMe disks are "
        "recognised by their model. Disks that disappeared in this boot are listed by serial number. The check warns "
        "while an NVMe controller is being reset. It fails if a controller is dead, has no driver, or is still not "
        "live in the next run."
    ),
    tiers=(PERIODIC, BOOT, DEEP),
    measure=_measure_count,
    action=REPLACE,
    fault="NHC2023",
)


# Local NVMe disks: their health logs (SMART).

_BITS = (
    "spare blocks are below their threshold",
    "its temperature is out of range",
    "its reliability is degraded by many media errors",
    "its media are read-only",
    "its backup of volatile memory failed",
    "its persistent memory region is read-only",
)
"""The bits of critical_warning (NVM Express base specification, SMART / health information log)."""
_WORN = 100
"""At this percentage_used the rated life is used up; higher values are possible (same source)."""
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


def _measure_smart(context: Context) -> Answer:
    root = context.root
    devices = read_block_devices(root)
    names, _absent = select(read_options(root) or parse({}), devices, root)
    disks = [devices[name] for name in names if name in devices and name.startswith("nvme")]
    if not disks:
        return Answer(skipped="there is no local NVMe disk; see check nvme_count for the expected number")
    before = context.history.get(_ERRORS) or {}
    errors, readings, findings, silent = dict(before), [], [], []
    for disk in disks:
        answer = context.run(["nvme", "smart-log", "--output-format=json", disk.path])
        if answer.rc == _MISSING:
            hint = "Install nvme-cli"
            return Answer(findings=(Finding(UNKNOWN, "the tool nvme is not installed", hint=hint),))
        output = f"{answer.stderr} {answer.stdout}".lower()
        if answer.rc not in (0, _NO_ANSWER) and any(words in output for words in _NOT_KEPT):
            silent.append(disk.name)
            continue
        log = _parse(answer.stdout) if answer.rc == 0 else {}
        if not log:
            why = (answer.stderr.strip() or "its output is not JSON").splitlines()[0]
            findings.append(Finding(UNKNOWN, f"nvme smart-log of {disk.name} failed: {why}", disk.name))
            continue
        readings += [Reading(f"nvme_{name}", value, device=disk.name) for name, value in log.items()]
        findings += _judge_smart(disk.name, disk.serial, log, before.get(disk.serial or disk.name))
        errors[disk.serial or disk.name] = log.get(_ERRORS, 0)
    if len(silent) == len(disks):
        return Answer(skipped="these disks have no health log")
    context.history.keep(_ERRORS, errors)
    return Answer(
        good=f"{len(disks) - len(silent)} NVMe disks report no problem",
        readings=tuple(readings),
        findings=tuple(findings),
        limit=f"critical_warning 0; percentage_used below {_WORN}; no new media_errors (NVM Express specification)",
    )


def _parse(text: str) -> dict[str, int]:
    """Return the needed values of the log under the specification's names; empty if critical_warning is missing."""
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


def _judge_smart(name: str, serial: str, log: Mapping[str, int], errors_before: int | None) -> Iterator[Finding]:
    what = f"NVMe disk {name} ({serial})" if serial else f"NVMe disk {name}"
    warning = log["critical_warning"]
    if warning:
        warnings = [words for bit, words in enumerate(_BITS) if warning >> bit & 1] or ["an unknown warning"]
        yield Finding(FAIL, f"{what} warns: {', '.join(warnings)}", name, "Redeploy or replace the instance")
    if log.get("percentage_used", 0) >= _WORN:
        words = f"{what} has used up {log['percentage_used']} % of its rated life"
        yield Finding(WARN, words, name, "It may work for a long time, but can fail at any time")
    if errors_before is not None and log.get(_ERRORS, 0) > errors_before:
        words = f"{what} has {log[_ERRORS] - errors_before} new media errors"
        yield Finding(WARN, words, name, "Data on it was lost; replace the instance if the errors continue")


NVME_SMART = Check(
    name="nvme_smart",
    title="Health of the local NVMe disks",
    explain=(
        "Reads 'nvme smart-log' of each local NVMe disk (NVM Express base specification, SMART / health information "
        "log). The check fails if critical_warning is not 0. It warns if percentage_used is 100 or more, or if "
        "media_errors has grown since the last run."
    ),
    tiers=(PERIODIC, BOOT, DEEP),
    measure=_measure_smart,
    limit_s=5.0,
    action=REPLACE,
    fault="NHC2023",
    asks_device=True,
)
