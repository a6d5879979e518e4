# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""SXids: what the NVSwitches report through the kernel's log and the fabric manager's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ...machine.fabric_manager_log import read_switch_errors
from ...machine.kernel_log import NoKernelLog, Record, started_at
from ...machine.pci import canonical_busid
from ..check import (
    BOOT,
    EPILOG,
    FAIL,
    OBSERVE,
    PERIODIC,
    PROLOG,
    REBOOT,
    WARN,
    Answer,
    Check,
    Context,
    Finding,
    Reading,
)
from ..new_records import new_records
from ..nvidia_sizes import with_nvswitches

# NVIDIA/open-gpu-kernel-modules, src/common/nvswitch/kernel/inc/common_nvswitch.h.
# Lines of the same number with its data follow; they say nothing of their own.
_SXID = re.compile(
    r"nvidia-nvswitch\d+: SXid \(PCI:(?P<busid>[0-9a-fA-F:.]+)\): (?P<number>\d+), (?P<class>Fatal|Non-fatal)\b"
)
_MANAGER_READ_TO = "manager_read_to"
_CORRECTED = {
    *(11012, 11021, 11022, 11023, 12021, 12023, 15008, 15011, 24001, 24002, 24003),
    *(19049, 19055, 19057, 19059, 19062, 19065, 19068, 19071),
}
"""Single-bit errors that the switch has corrected (NVIDIA, Fabric Manager User Guide, non-fatal SXids)."""


class _Error(NamedTuple):
    device: str
    number: int
    is_fatal: bool

    @property
    def is_corrected(self) -> bool:
        return not self.is_fatal and self.number in _CORRECTED


def _measure(context: Context) -> Answer:
    read = new_records(context)
    by_kernel = list(_of_kernel(read.records or ()))
    by_manager = _of_manager(context)
    # The fabric manager writes down what the kernel's log has too.
    told = [*by_kernel, *(error for error in by_manager if error not in by_kernel)]
    findings = tuple(
        _finding(*error) for error in dict.fromkeys(told) if error.is_fatal or error.number not in _CORRECTED
    )
    if read.records is None:
        return Answer(findings=(*findings, *read.findings))
    corrected = sum(error.is_corrected for error in told)
    fatal = sum(error.is_fatal for error in told)
    readings = (
        Reading("nvswitch_fatal_sxids", fatal),
        Reading("nvswitch_other_sxids", len(told) - fatal - corrected),
        Reading("nvswitch_corrected_errors", corrected),
    )
    good = "no SXid since the last look, but for errors that were corrected"
    return Answer(good, readings, (*findings, *read.findings))


def _of_kernel(records: Iterable[Record]) -> Iterator[_Error]:
    for record in records:
        match = _SXID.match(record.text)
        if match:
            device = canonical_busid(match["busid"]) or match["busid"]
            yield _Error(device, int(match["number"]), match["class"] == "Fatal")


def _of_manager(context: Context) -> list[_Error]:
    """Return what the fabric manager wrote since the last look, and in this boot."""
    try:
        after = float(context.history.get(_MANAGER_READ_TO) or started_at(context.root, context.now))
    except NoKernelLog:
        return []
    errors = read_switch_errors(context.root, after)
    context.history.keep(_MANAGER_READ_TO, max([after, *(error.when for error in errors)]))
    return [_Error(error.device, error.number, error.is_fatal) for error in errors]


def _finding(device: str, number: int, is_fatal: bool) -> Finding:
    return Finding(
        verdict=FAIL if is_fatal else WARN,
        summary=f"NVSwitch {device}: {'fatal' if is_fatal else 'non-fatal'} SXid {number}",
        device=device,
        hint=(
            "Drain the node and restart the machine, which resets all GPUs and switches together"
            if is_fatal
            else "'journalctl -k -b' has the line; the XIDs of the GPUs may tell which application met it"
        ),
        action=REBOOT if is_fatal else OBSERVE,
        fault="NHC2016" if is_fatal else "",
        latch=True,
    )


CHECK = Check(
    name="gpu_sxid",
    title="SXids of the NVSwitches",
    explain=(
        "Looks for SXids of the NVSwitches in the kernel's log of this boot and in the fabric manager's: those that "
        "they call fatal fail, others warn, and single-bit errors that were corrected are only counted (NVIDIA, Fabric "
        "Manager User Guide). What was found stays until the machine restarts."
    ),
    tiers=(PROLOG, PERIODIC, EPILOG, BOOT),
    measure=_measure,
    applies=with_nvswitches,
    action=REBOOT,
    fault="NHC2016",
)
