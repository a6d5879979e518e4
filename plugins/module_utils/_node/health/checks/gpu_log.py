# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Problems of GPUs and NVSwitches in the kernel's log: XIDs, SXids, and messages without a number."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ...machine.fabric_manager_log import read_switch_errors
from ...machine.kernel_log import NoKernelLog, Record, started_at
from ...machine.pci import canonical_busid
from ..applies import with_nvidia_gpus, with_nvswitches
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
from ..log_signs import Sign, look_for, new_records
from ..xids import ERROR, GENERIC, Xid, xid_of

# XIDs of NVIDIA's driver in the kernel's log, by GPU.

# NVIDIA/open-gpu-kernel-modules, src/nvidia/src/kernel/gpu/rc/kernel_rc.c; with the GPU instance if MIG is on.
_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<busid>[0-9a-fA-F:.]+)(?: GPU-I:\d+)?(?: GPU-CI:\d+)?\): (?P<number>\d+)(?P<message>.*)"
)
_LOADED = re.compile(r"NVRM: loading NVIDIA UNIX\b.* Kernel Module\b")
# The process name in the line is chosen by its user and comes before the driver's text, so only the end is matched.
_RECOVERY = 154
_RECOVERED = re.compile(r", GPU recovery action changed from 0x[0-9a-f]+ \([^()]*\) to 0x0 \(None\)\s*$")
_NVLINK_5 = range(144, 151)
_FATALITY = re.compile(r"\b(?P<non>Non-?)?fatal\s+XC\d", re.IGNORECASE)
_KNOWN_GPUS = "gpus"

_HINTS = {
    RESET_GPU: "Drain the node and reset the GPU (nvidia-smi --gpu-reset -i {device}), or restart the machine",
    REBOOT: "Drain the node and restart the machine",
    REPLACE: "Redeploy or replace the instance; a restart leaves it on the same host",
    OBSERVE: "'journalctl -k -b' has the line; NVIDIA's Xid catalogue explains the number",
}
_USER_HINT = "The job's owner should check the application; the machine is not faulty"


@dataclass(frozen=True)
class _LoggedXid:
    device: str
    xid: Xid
    is_error: bool


def _measure_xid(context: Context) -> Answer:
    read = new_records(context)
    if read.records is None:
        return Answer(findings=read.findings)
    before = set(context.history.get(_KNOWN_GPUS) or ())
    counts, logged, released = _gather(read.records, before)
    context.history.keep(_KNOWN_GPUS, sorted((before | {one.device for one in logged}) - released))
    readings = [Reading("gpu_xids", sum(counts.values()))]
    readings += [Reading("gpu_xids_of_gpu", count, device=device) for device, count in sorted(counts.items())]
    findings = tuple(_finding_xid(one) for one in logged)
    return Answer(
        "no XID since the last run",
        tuple(readings),
        (*findings, *read.findings),
        released=tuple(sorted(released)),
    )


def _gather(records: Iterable[Record], known: set[str]) -> tuple[dict[str, int], list[_LoggedXid], set[str]]:
    """Return how many XIDs each GPU had, the XIDs that no later reset repaired, and the GPUs that were reset.

    :param known: the GPUs that had XIDs before.
    """
    counts: dict[str, int] = {}
    logged: dict[tuple[str, int], _LoggedXid] = {}
    released: set[str] = set()
    for record in records:
        match = _XID.match(record.text)
        if match:
            device = _device(match["busid"])
            number, message = int(match["number"]), match["message"]
            if number == _RECOVERY and _RECOVERED.search(message):
                logged = _without(logged, {device})
                released.add(device)
                continue
            counts[device] = counts.get(device, 0) + 1
            xid = xid_of(number)
            is_error = xid.severity == ERROR and not (number in _NVLINK_5 and _is_not_fatal(message))
            if is_error or (device, number) not in logged:
                logged[device, number] = _LoggedXid(device, xid, is_error)
        elif _LOADED.match(record.text):
            released |= known | counts.keys()
            logged = _without(logged, released)
    return counts, list(logged.values()), released


def _is_not_fatal(message: str) -> bool:
    """Return whether an NVLink error calls itself non-fatal; the last match counts, after the process's name."""
    found = list(_FATALITY.finditer(message))
    return bool(found and found[-1]["non"])


def _without(logged: dict[tuple[str, int], _LoggedXid], devices: set[str]) -> dict[tuple[str, int], _LoggedXid]:
    """Return the XIDs that remain after a reset of these GPUs: those that need a restart or another machine."""
    return {key: one for key, one in logged.items() if one.device not in devices or one.xid.action in (REBOOT, REPLACE)}


def _device(text: str) -> str:
    """Return the GPU's address; the driver omits the function, which is 0 for every GPU."""
    return canonical_busid(text if "." in text else f"{text}.0") or text


def _finding_xid(one: _LoggedXid) -> Finding:
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


GPU_XID = Check(
    name="gpu_xid",
    title="XIDs in the kernel's log",
    explain=(
        "Looks for XIDs, the numbered errors of NVIDIA's driver, in the kernel's log of this boot. The first of these "
        "sources that lists an XID decides whether the check fails or warns: cyclecloud-healthagent, "
        "azurehpc-health-checks, NVIDIA's catalogue. If none of them lists the XID, the check warns. If a user's "
        "application caused the XID, the check warns in one run only. Other findings stay until the machine restarts "
        "or somebody clears them. Findings whose action is neither reboot nor replace also end when the GPU is reset "
        "or the driver is loaded again."
    ),
    tiers=(PROLOG, PERIODIC, EPILOG, BOOT),
    measure=_measure_xid,
    applies=with_nvidia_gpus,
    action=RESET_GPU,
    fault=GENERIC,
)


# SXids: errors of the NVSwitches in the kernel's log and the fabric manager's log.

# NVIDIA/open-gpu-kernel-modules, src/common/nvswitch/kernel/inc/common_nvswitch.h.
# Lines with the same number and more data follow; they are ignored.
_SXID = re.compile(
    r"nvidia-nvswitch\d+: SXid \(PCI:(?P<busid>[0-9a-fA-F:.]+)\): (?P<number>\d+), (?P<class>Fatal|Non-fatal)\b"
)
_MANAGER_READ_TO = "manager_read_to"
_CORRECTED = {
    *(11012, 11021, 11022, 11023, 12021, 12023, 15008, 15011, 24001, 24002, 24003),
    *(19049, 19055, 19057, 19059, 19062, 19065, 19068, 19071),
}
"""Single-bit errors that the switch corrected (NVIDIA, Fabric Manager User Guide, non-fatal SXids)."""


class _Error(NamedTuple):
    device: str
    number: int
    is_fatal: bool

    @property
    def is_corrected(self) -> bool:
        return not self.is_fatal and self.number in _CORRECTED


def _measure_sxid(context: Context) -> Answer:
    read = new_records(context)
    by_kernel = list(_of_kernel(read.records or ()))
    by_manager = _of_manager(context)
    # The fabric manager's log repeats errors of the kernel's log.
    errors = [*by_kernel, *(error for error in by_manager if error not in by_kernel)]
    findings = tuple(
        _finding_sxid(*error) for error in dict.fromkeys(errors) if error.is_fatal or error.number not in _CORRECTED
    )
    if read.records is None:
        return Answer(findings=(*findings, *read.findings))
    corrected = sum(error.is_corrected for error in errors)
    fatal = sum(error.is_fatal for error in errors)
    readings = (
        Reading("nvswitch_fatal_sxids", fatal),
        Reading("nvswitch_other_sxids", len(errors) - fatal - corrected),
        Reading("nvswitch_corrected_errors", corrected),
    )
    good = "no SXid since the last run, except corrected errors"
    return Answer(good, readings, (*findings, *read.findings))


def _of_kernel(records: Iterable[Record]) -> Iterator[_Error]:
    for record in records:
        match = _SXID.match(record.text)
        if match:
            device = canonical_busid(match["busid"]) or match["busid"]
            yield _Error(device, int(match["number"]), match["class"] == "Fatal")


def _of_manager(context: Context) -> list[_Error]:
    """Return what the fabric manager logged in this boot since the last run."""
    try:
        after = float(context.history.get(_MANAGER_READ_TO) or started_at(context.root, context.now))
    except NoKernelLog:
        return []
    errors = read_switch_errors(context.root, after)
    context.history.keep(_MANAGER_READ_TO, max([after, *(error.when for error in errors)]))
    return [_Error(error.device, error.number, error.is_fatal) for error in errors]


def _finding_sxid(device: str, number: int, is_fatal: bool) -> Finding:
    return Finding(
        verdict=FAIL if is_fatal else WARN,
        summary=f"NVSwitch {device}: {'fatal' if is_fatal else 'non-fatal'} SXid {number}",
        device=device,
        hint=(
            "Drain the node and restart the machine, which resets all GPUs and switches together"
            if is_fatal
            else "'journalctl -k -b' has the line; the XIDs of the GPUs may show the affected application"
        ),
        action=REBOOT if is_fatal else OBSERVE,
        fault="NHC2016" if is_fatal else "",
        latch=True,
    )


GPU_SXID = Check(
    name="gpu_sxid",
    title="SXids of the NVSwitches",
    explain=(
        "Looks for SXids, the numbered errors of NVSwitches, in the kernel's log of this boot and in the fabric "
        "manager's log. The check fails after a fatal SXid. For single-bit errors that the switch has corrected "
        "(NVIDIA, Fabric Manager User Guide), the check neither fails nor warns: it reports only their number. It "
        "warns after any other SXid that is not fatal. A finding stays until the machine restarts or somebody clears "
        "it."
    ),
    tiers=(PROLOG, PERIODIC, EPILOG, BOOT),
    measure=_measure_sxid,
    applies=with_nvswitches,
    action=REBOOT,
    fault="NHC2016",
)


# Messages of NVIDIA's driver in the kernel's log that have no XID.

_BUSID = r"([0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.\d)"
_REPLACE = "Restart the VM from Azure; redeploy or replace the instance if that does not help"
_RESTART = "Drain the node and restart the machine; 'journalctl -k -b -g NVRM' has the messages"

GPU_DRIVER_LOG_SIGNS = (
    Sign(
        "off_the_bus",
        re.compile(rf"NVRM: (?:The NVIDIA )?GPU (?:at PCI:)?{_BUSID}:? .*fallen off the bus"),
        FAIL,
        "GPU {device} has fallen off the bus",
        _REPLACE,
        REPLACE,
        "NHC2013",
        source="NVIDIA/open-gpu-kernel-modules: src/nvidia/arch/nvalloc/unix/src: osinit.c, osapi.c",
    ),
    Sign(
        "no_start",
        re.compile(rf"NVRM: GPU {_BUSID}: (?:RmInitAdapter|rm_init_adapter) failed"),
        FAIL,
        "NVIDIA's driver could not initialise GPU {device}",
        _RESTART,
        REBOOT,
        "NHC2015",
        source="NVIDIA/open-gpu-kernel-modules: src/nvidia/arch/nvalloc/unix/src/osinit.c, kernel-open/nvidia/nv.c",
    ),
    Sign(
        "no_probe",
        re.compile(rf"nvidia(?:: probe of {_BUSID}| {_BUSID}: probe with driver nvidia) failed"),
        FAIL,
        "NVIDIA's driver could not attach to GPU {device}",
        _RESTART,
        REBOOT,
        "NHC2015",
        source="drivers/base/dd.c",
    ),
    Sign(
        "uvm",
        re.compile(r"nvidia-uvm: \w+\.c(?::\d+)? \w+\[pid:\d+\] ?(?:ERROR: )?Encountered a global fatal error"),
        FAIL,
        "the driver's unified memory (nvidia-uvm) had a fatal error: no CUDA program can start",
        _RESTART,
        REBOOT,
        "NHC2015",
        source="NVIDIA/open-gpu-kernel-modules: kernel-open/nvidia-uvm: uvm_global.c, uvm_common.h",
    ),
    Sign(
        "mismatch",
        re.compile(r"NVRM: API mismatch: "),
        WARN,
        "a program used a library of another version than the loaded driver",
        "If it is not in a user's container: restart the machine, because a package of the driver was upgraded",
        OBSERVE,
        "",
        source="NVIDIA/open-gpu-kernel-modules: src/nvidia/arch/nvalloc/unix/src/osapi.c",
    ),
)


def _measure_driver_log(context: Context) -> Answer:
    return look_for(
        context, GPU_DRIVER_LOG_SIGNS, "gpu_driver_messages", "no error message of NVIDIA's driver since the last run"
    )


GPU_DRIVER_LOG = Check(
    name="gpu_driver_log",
    title="NVIDIA's driver in the kernel's log",
    explain=(
        "Looks in the kernel's log of this boot for messages of NVIDIA's driver without an XID. The check fails if a "
        "GPU has fallen off the bus, if the driver could not initialise or attach to a GPU, or after a fatal error of "
        "unified memory (nvidia-uvm). It warns if a program used a library of another version than the driver. A "
        "finding stays until the machine restarts or somebody clears it."
    ),
    tiers=(PROLOG, PERIODIC, EPILOG, BOOT),
    measure=_measure_driver_log,
    applies=with_nvidia_gpus,
    action=REBOOT,
    fault="NHC2015",
)
