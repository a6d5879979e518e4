# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Local NVMe disks: as many as promised are there, and their controllers are alive."""

from __future__ import annotations

from collections.abc import Iterator

from ...machine.disks import BlockDevice, read_block_devices
from ...machine.pci import NVME_CLASS, read_pci
from ...setup.scratch.disk_count import DiskCount
from ...setup.scratch.facts import select
from ...setup.scratch.options import ScratchOptions, parse, read_options
from ...sku.types import VmSize
from ..check import (
    BOOT,
    DEEP,
    FAIL,
    PERIODIC,
    REBOOT,
    REPLACE,
    UNKNOWN,
    WARN,
    Answer,
    Check,
    Context,
    Finding,
    Reading,
)

_CONTROLLERS = "/sys/class/nvme"
_LIVE, _GIVEN_UP = "live", ("dead", "deleting", "deleting (no IO)")
"""Of a controller's state; it is also new, resetting or connecting for a while (drivers/nvme/host/sysfs.c)."""
_SERIALS, _AT_WORK = "serials", "not_live"
_LOST = "Azure gives the instance other disks when it is redeployed; what lies on the scratch is lost with that"


def _measure(context: Context) -> Answer:
    root = context.root
    wanted = read_options(root) or parse({})
    promise = _promised(wanted, context.size)
    if promise is None or promise.count == 0:
        return Answer(skipped="no local NVMe disks are promised" if promise else "nobody says how many disks there are")
    devices = read_block_devices(root)
    if not devices:
        return Answer(findings=(Finding(UNKNOWN, "sysfs shows no block device at all", hint="Run it as root"),))
    names, _absent = select(wanted, devices, root)
    disks = [devices[name] for name in names if name in devices]
    known = context.history.get(_SERIALS) or []
    context.history.keep(_SERIALS, sorted({*known, *(disk.serial for disk in disks if disk.serial)}))
    findings = [*_judge(disks, promise, known), *_controllers(context)]
    return Answer(
        good=f"{len(disks)} local NVMe disks are there",
        readings=(Reading("nvme_disks", len(disks), limit=promise.count),),
        findings=tuple(findings),
        limit=f"{promise.count} ({promise.origin})",
    )


def _promised(wanted: ScratchOptions, size: VmSize | None) -> DiskCount | None:
    if wanted.expected_count is not None:
        return DiskCount(wanted.expected_count, "expected_count of the scratch's settings")
    if wanted.devices:
        return DiskCount(len(wanted.devices), "devices of the scratch's settings")
    if size is None or size.nvme_count is None:
        return None
    return DiskCount(size.nvme_count, size.name)


def _judge(disks: list[BlockDevice], promise: DiskCount, known: list[str]) -> Iterator[Finding]:
    if len(disks) < promise.count:
        lost = sorted(set(known) - {disk.serial for disk in disks})
        there = ", ".join(disk.serial or disk.name for disk in disks) or "none"
        named = f"gone since the boot: {', '.join(lost)}" if lost else f"there are {there}"
        words = f"{len(disks)} of {promise.count} local NVMe disks are there; {named}"
        yield Finding(FAIL, words, hint=_LOST)
    elif len(disks) > promise.count:
        words = f"there are {len(disks)} local NVMe disks, and {promise.origin} says {promise.count}"
        yield Finding(WARN, words, hint="Correct the facts of this VM size (hpcai_vm_sizes), or expected_count")


def _controllers(context: Context) -> Iterator[Finding]:
    """Yield controllers that the driver has given up, or never took. One that is being reset is given another run."""
    root = context.root
    before = context.history.get(_AT_WORK) or []
    at_work = []
    for number, folder in root.numbered(_CONTROLLERS, "nvme"):
        name, state = f"nvme{number}", root.text(f"{folder}/state")
        if not state or state == _LIVE:
            continue
        words = f"NVMe controller {name} ({root.text(f'{folder}/address') or 'without address'}) is {state}"
        if state in _GIVEN_UP or name in before:
            hint = "'journalctl -k -b' tells why; a controller that is dead stays so until the machine restarts"
            yield Finding(FAIL, words, name, hint, REBOOT)
        else:
            yield Finding(WARN, words, name, "The next run tells whether it comes back")
        at_work.append(name)
    context.history.keep(_AT_WORK, at_work)
    for device in read_pci(root):
        if device.class_code == NVME_CLASS and not root.entries(f"/sys/bus/pci/devices/{device.busid}/nvme"):
            words = f"NVMe controller {device.busid} is on the PCI bus, and no driver has it"
            hint = "The nvme driver gave it up, or was told to: 'journalctl -k -b' tells why; restart the machine"
            yield Finding(FAIL, words, device.busid, hint, REBOOT)


CHECK = Check(
    name="nvme_count",
    title="Local NVMe disks",
    explain=(
        "As many local NVMe disks are there as expected_count of the scratch or the VM size promises "
        "(azurehpc-health-checks, check_nvme_count), known by their model; disks that were there earlier in this boot "
        "are named by their serial number. The state of each NVMe controller is live, "
        "or soon again."
    ),
    tiers=(PERIODIC, BOOT, DEEP),
    measure=_measure,
    action=REPLACE,
    fault="NHC2023",
)
