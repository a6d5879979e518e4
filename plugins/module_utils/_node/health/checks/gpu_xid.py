# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""XIDs that NVIDIA's driver wrote into the kernel's log, by GPU."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ...machine.kernel_log import Record
from ...machine.pci import canonical_busid
from ..check import (
    BOOT,
    EPILOG,
    FAIL,
    NODE,
    OBSERVE,
    PERIODIC,
    PROLOG,
    REBOOT,
    REPLACE,
    RESET_GPU,
    USER,
    WARN,
    Answer,
    Check,
    Context,
    Finding,
    Reading,
)
from ..new_records import new_records
from ..nvidia_sizes import with_nvidia_gpus
from ..xids import ERROR, GENERIC, Xid, xid_of

# NVIDIA/open-gpu-kernel-modules, src/nvidia/src/kernel/gpu/rc/kernel_rc.c; with the GPU instance where MIG is on.
_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<busid>[0-9a-fA-F:.]+)(?: GPU-I:\d+)?(?: GPU-CI:\d+)?\): (?P<number>\d+)(?P<said>.*)"
)
_LOADED = re.compile(r"NVRM: loading NVIDIA UNIX\b.* Kernel Module\b")
# Lines have the name of the process, which its user chooses, before what the driver says: only the end counts.
_RECOVERY = 154
_RECOVERED = re.compile(r", GPU recovery action changed from 0x[0-9a-f]+ \([^()]*\) to 0x0 \(None\)\s*$")
_NVLINK_5 = range(144, 151)
_FATALITY = re.compile(r"\b(?P<non>Non-?)?fatal\s+XC\d", re.IGNORECASE)
_KNOWN_GPUS = "gpus"

_HINTS = {
    RESET_GPU: "Drain the node and reset the GPU (nvidia-smi --gpu-reset -i {device}), or restart the machine",
    REBOOT: "Drain the node and restart the machine",
    REPLACE: "Redeploy or replace the instance; a restart leaves it on the same host",
    OBSERVE: "'journalctl -k -b' has the line; NVIDIA's catalogue says more of the number",
}
_USER_HINT = "The job's owner should look at the application; the machine is not to blame"


@dataclass(frozen=True)
class _Seen:
    device: str
    xid: Xid
    is_error: bool


def _measure(context: Context) -> Answer:
    read = new_records(context)
    if read.records is None:
        return Answer(findings=read.findings)
    before = set(context.history.get(_KNOWN_GPUS) or ())
    counts, seen, released = _gather(read.records, before)
    context.history.keep(_KNOWN_GPUS, sorted((before | {one.device for one in seen}) - released))
    readings = [Reading("gpu_xids", sum(counts.values()))]
    readings += [Reading("gpu_xids_of_gpu", count, device=device) for device, count in sorted(counts.items())]
    findings = tuple(_finding(one) for one in seen)
    return Answer(
        "no XID since the last look",
        tuple(readings),
        (*findings, *read.findings),
        released=tuple(sorted(released)),
    )


def _gather(records: Iterable[Record], known: set[str]) -> tuple[dict[str, int], list[_Seen], set[str]]:
    """Return how many XIDs each GPU had, those that no reset has mended since, and the GPUs that were reset.

    :param known: the GPUs that had some before.
    """
    counts: dict[str, int] = {}
    seen: dict[tuple[str, int], _Seen] = {}
    released: set[str] = set()
    for record in records:
        match = _XID.match(record.text)
        if match:
            device = _device(match["busid"])
            number, said = int(match["number"]), match["said"]
            if number == _RECOVERY and _RECOVERED.search(said):
                seen = _without(seen, {device})
                released.add(device)
                continue
            counts[device] = counts.get(device, 0) + 1
            xid = xid_of(number)
            is_error = xid.severity == ERROR and not (number in _NVLINK_5 and _is_not_fatal(said))
            if is_error or (device, number) not in seen:
                seen[device, number] = _Seen(device, xid, is_error)
        elif _LOADED.match(record.text):
            released |= known | counts.keys()
            seen = _without(seen, released)
    return counts, list(seen.values()), released


def _is_not_fatal(said: str) -> bool:
    """Return what an error of NVLink says of itself; the last word counts, after the process's name."""
    found = list(_FATALITY.finditer(said))
    return bool(found and found[-1]["non"])


def _without(seen: dict[tuple[str, int], _Seen], devices: set[str]) -> dict[tuple[str, int], _Seen]:
    """Return what a reset of these GPUs leaves: what only a restart or another machine mends."""
    return {key: one for key, one in seen.items() if one.device not in devices or one.xid.action in (REBOOT, REPLACE)}


def _device(text: str) -> str:
    """Return the GPU's address; the driver leaves out the function, which is 0 of every GPU."""
    return canonical_busid(text if "." in text else f"{text}.0") or text


def _finding(one: _Seen) -> Finding:
    xid = one.xid
    by_user = xid.cause == USER
    return Finding(
        verdict=FAIL if one.is_error else WARN,
        summary=f"GPU {one.device}: XID {xid.number}: {xid.meaning}",
        device=one.device,
        hint=_USER_HINT if by_user else _HINTS[xid.action].format(device=one.device),
        action=xid.action,
        fault=xid.fault,
        cause=USER if by_user else NODE,
        latch=not by_user,
    )


CHECK = Check(
    name="gpu_xid",
    title="XIDs in the kernel's log",
    explain=(
        "Looks for NVIDIA's XIDs in the kernel's log of this boot. Which of them are errors follows "
        "cyclecloud-healthagent, azurehpc-health-checks and NVIDIA's catalogue; one that nobody names is a warning, "
        "and so are traces of a user's application. What was found stays until the GPU is reset, the driver loaded "
        "anew or the machine restarted."
    ),
    tiers=(PROLOG, PERIODIC, EPILOG, BOOT),
    measure=_measure,
    applies=with_nvidia_gpus,
    action=RESET_GPU,
    fault=GENERIC,
)
