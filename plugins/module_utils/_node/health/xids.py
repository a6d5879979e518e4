# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""XIDs, the numbers under which NVIDIA's driver logs what went wrong with a GPU: meaning, class, and what helps.

The class is what cyclecloud-healthagent says where it names the number (H). Its default, that every other number is an
error, is no statement about any of them: there azurehpc-health-checks decides (A names errors), and where that is
silent, NVIDIA's catalogue (N): an error is what it answers with a reset, a restart or a look at the hardware, a warning
what ends with the application. A number that nobody names is a warning.
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
"""AzNHC's code of every XID that has none of its own."""
_FAULTS: Mapping[int, str] = {48: "NHC2014", 79: "NHC2013", 94: "NHC2012", 95: "NHC2011"}


@dataclass(frozen=True)
class Xid:
    """What is known of a number.

    :ivar meaning: a few words, to be read after "XID 79: ".
    :ivar severity: ERROR or WARNING.
    :ivar action: one of ``check.ACTIONS``: what helps.
    :ivar cause: NODE or USER.
    :ivar sources: letters of ``SOURCES``; empty of a number that nobody names.
    """

    number: int
    meaning: str
    severity: str
    action: str
    sources: str
    cause: str = NODE

    @property
    def fault(self) -> str:
        """AzNHC's code of it; empty of what says nothing of the machine."""
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
    # Of hardware and firmware: A has them, or N resets the GPU for them.
    **_all(
        ERROR,
        RESET_GPU,
        "A, N",
        {
            48: "an uncorrectable memory error",
            62: "the GPU's microcontroller halted",
            64: "a bad memory row could not be taken out of use",
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
            109: "a change of context took too long",
            110: "a security fault",
            136: "an NVLink did not come up",
            140: "an unrecovered memory error",
            143: "the GPU could not be initialised",
            (144, 145, 146, 147, 148, 149, 150): "an NVLink error",
            155: "an NVLink error that software defines",
            156: "a faulty part was taken out of use",
            158: "a fatal timeout within the GPU",
        },
    ),
    **_all(ERROR, REPLACE, "A, N", {79: "the GPU has fallen off the bus"}),
    **_all(ERROR, REPLACE, "N", {54: "the board's auxiliary power is missing"}),
    **_all(ERROR, REBOOT, "N", {151: "a key could not be exchanged for a new one"}),
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
            80: "data reached the GPU corrupted",
            92: "many corrected memory errors",
        },
    ),
    # What H takes for a warning.
    **_all(WARNING, RESET_GPU, "H", {63: "a bad memory row is taken out of use at the next reset"}),
    **_all(
        WARNING,
        OBSERVE,
        "H",
        {
            66: "the driver accessed what it must not",
            94: "a contained memory error, which ended the application that it met",
            154: "the action that would bring the GPU back has changed",
        },
    ),
    # Traces of an application: H takes 13, 31 and 43 for warnings, N has the application looked at.
    **_all(
        WARNING,
        OBSERVE,
        "H, N",
        {
            13: "an exception in the graphics engine, mostly an access out of bounds",
            31: "a page fault on the GPU, mostly an illegal address",
            43: "an application's work was stopped after a fault of its own",
        },
        USER,
    ),
    **_all(
        WARNING,
        OBSERVE,
        "N",
        {
            (11, 25, 32): "an application sent an invalid command stream",
            45: "an application's work was cleaned up, since it ended or something failed before",
        },
        USER,
    ),
    # What N lets pass, or ends with a restart of the application.
    **_all(
        WARNING,
        OBSERVE,
        "N",
        {
            8: "an application's work on the GPU came to no end",
            (37, 38): "a driver firmware error",
            _COPY_ENGINES: "a copy engine error",
            44: "a graphics engine fault while the context changed",
            60: "a video processor error",
            67: "the driver accessed what it must not",
            _MEDIA_ENGINES: "an error of an image or video engine",
            78: "a virtual GPU could not be started",
            93: "the InfoROM was written more often than it is made for",
            (106, 107): "a test message",
            121: "an error of the link between CPU and GPU",
            137: "an NVLink access was refused, mostly because of another GPU",
            141: "a CUDA fast path error",
            157: "a faulty part could not be taken out of use",
            159: "an error of the link between CPU and GPU",
            160: "a memory channel was taken out of use",
            161: "a memory channel could not be taken out of use",
            171: "an uncorrectable error in the GPU's memory, told apart from its caches",
            172: "an uncorrectable error in the GPU's caches",
        },
    ),
    **_all(WARNING, OBSERVE, "O", {61: "the GPU's microcontroller reported a breakpoint"}),
}


def xid_of(number: int) -> Xid:
    """Return what is known of a number; of one that nobody names, that it is worth a look."""
    return XIDS.get(number) or Xid(number, "its meaning is not known here", WARNING, OBSERVE, "")
