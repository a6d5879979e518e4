# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""XIDs, the numbers under which NVIDIA's driver logs GPU problems: their meaning, severity, and what to do.

If cyclecloud-healthagent (H) names a number, its severity is used. H's default, error for all other numbers, is not
used. For these, azurehpc-health-checks decides (A lists errors), and then NVIDIA's catalogue (N): if it recommends a
reset, a restart or an inspection of the hardware, the XID is an error; if only the application ends, it is a warning. A
number in no source is a warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .check import NODE, OBSERVE, REBOOT, REPLACE, RESET_GPU, USER

SOURCES: Mapping[str, str] = {
    "A": "azurehpc-health-checks, customTests/azure_gpu_xid.nhc and triggerGHR/config/nhc_fault_dictionary.cfg",
    "H": "cyclecloud-healthagent, healthagent/defaults.yaml",
    "N": "NVIDIA, Xid catalog (docs.nvidia.com/deploy/xid-errors)",
    "O": "NVIDIA's catalogue for Volta and older GPUs",
}

ERROR, WARNING = "error", "warning"

GENERIC = "NHC2001"
"""AzNHC's code of every XID without an own code."""
_FAULTS: Mapping[int, str] = {48: "NHC2014", 79: "NHC2013", 94: "NHC2012", 95: "NHC2011"}


@dataclass(frozen=True)
class Xid:
    """What is known of a number.

    :ivar meaning: a few words, to be read after "XID 79: ".
    :ivar severity: ERROR or WARNING.
    :ivar action: one of ``check.ACTIONS``: what to do.
    :ivar cause: NODE or USER.
    :ivar sources: letters of ``SOURCES``; empty for a number in no source.
    """

    number: int
    meaning: str
    severity: str
    action: str
    sources: str
    cause: str = NODE

    @property
    def fault(self) -> str:
        """AzNHC's code; empty if the XID says nothing about the machine."""
        return "" if self.cause == USER else _FAULTS.get(self.number, GENERIC)


def _all(
    severity: str, action: str, sources: str, meanings: Mapping[int | tuple[int, ...], str], cause: str = NODE
) -> dict[int, Xid]:
    xids = {}
    for numbers, meaning in meanings.items():
        for number in numbers if isinstance(numbers, tuple) else (numbers,):
            xids[number] = Xid(number, meaning, severity, action, sources, cause)
    return xids


_COPY_ENGINES = (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136))
_MEDIA_ENGINES = (82, 83, 84, 86, 88, 89, *range(96, 106), 139, 142)

XIDS: Mapping[int, Xid] = {
    # Hardware and firmware errors: A lists them, or N recommends a reset of the GPU.
    **_all(
        ERROR,
        RESET_GPU,
        "A, N",
        {
            48: "an uncorrectable memory error",
            62: "the GPU's microcontroller halted",
            64: "a bad memory row could not be remapped",
            74: "an NVLink error",
            119: "the GPU's system processor (GSP) did not answer",
            120: "the GPU's system processor (GSP) failed",
        },
    ),
    **_all(
        ERROR,
        RESET_GPU,
        "N",
        {
            46: "the GPU stopped processing",
            95: "an uncontained memory error, which may have reached any application on the GPU",
            109: "a context switch took too long",
            110: "a security fault",
            136: "an NVLink did not come up",
            140: "an unrecovered memory error",
            143: "the GPU could not be initialised",
            (144, 145, 146, 147, 148, 149, 150): "an NVLink error",
            155: "a software-defined NVLink error",
            156: "a faulty part was taken out of use",
            158: "a fatal timeout within the GPU",
        },
    ),
    **_all(ERROR, REPLACE, "A, N", {79: "the GPU has fallen off the bus"}),
    **_all(ERROR, REPLACE, "N", {54: "the board's auxiliary power is missing"}),
    **_all(ERROR, REBOOT, "N", {151: "a key rotation failed"}),
    **_all(ERROR, REPLACE, "A, O", {57: "the link to the GPU's memory failed", 58: "the GPU's memory is unstable"}),
    **_all(
        ERROR, OBSERVE, "A, O", {56: "a display engine error", 65: "a video encoder error", 73: "a video encoder error"}
    ),
    **_all(ERROR, OBSERVE, "A, O", {81: "a VGA subsystem error"}),
    **_all(
        ERROR,
        OBSERVE,
        "A, N",
        {
            68: "a video decoder error",
            69: "a graphics engine class error",
            80: "corrupted data reached the GPU",
            92: "many corrected memory errors",
        },
    ),
    # H classifies these as warnings.
    **_all(WARNING, RESET_GPU, "H", {63: "a bad memory row will be remapped at the next reset"}),
    **_all(
        WARNING,
        OBSERVE,
        "H",
        {
            66: "an illegal access by the driver",
            94: "a contained memory error, which ended the affected application",
            154: "the GPU's recovery action has changed",
        },
    ),
    # Traces of an application: H classifies 13, 31 and 43 as warnings, N recommends to check the application.
    **_all(
        WARNING,
        OBSERVE,
        "H, N",
        {
            13: "an exception in the graphics engine, usually an access out of bounds",
            31: "a page fault on the GPU, usually an illegal address",
            43: "an application's work was stopped after a fault of that application",
        },
        USER,
    ),
    **_all(
        WARNING,
        OBSERVE,
        "N",
        {
            (11, 25, 32): "an application sent an invalid command stream",
            45: "an application's work was cleaned up after it ended or after an earlier error",
        },
        USER,
    ),
    # N recommends nothing, or a restart of the application.
    **_all(
        WARNING,
        OBSERVE,
        "N",
        {
            8: "an application's work on the GPU did not finish",
            (37, 38): "a driver firmware error",
            _COPY_ENGINES: "a copy engine error",
            44: "a graphics engine fault during a context switch",
            60: "a video processor error",
            67: "an illegal access by the driver",
            _MEDIA_ENGINES: "an error of an image or video engine",
            78: "a virtual GPU could not be started",
            93: "the InfoROM was written more often than it is designed for",
            (106, 107): "a test message",
            121: "an error of the link between CPU and GPU",
            137: "an NVLink access was refused, usually because of another GPU",
            141: "a CUDA fast path error",
            157: "a faulty part could not be taken out of use",
            159: "an error of the link between CPU and GPU",
            160: "a memory channel was taken out of use",
            161: "a memory channel could not be taken out of use",
            171: "an uncorrectable error in the GPU's memory, not in its caches",
            172: "an uncorrectable error in the GPU's caches",
        },
    ),
    **_all(WARNING, OBSERVE, "O", {61: "the GPU's microcontroller reported a breakpoint"}),
}


def xid_of(number: int) -> Xid:
    """Return what is known about a number; a number in no source is a warning."""
    return XIDS.get(number) or Xid(number, "its meaning is not known", WARNING, OBSERVE, "")
