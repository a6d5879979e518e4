# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Reads NVSwitch errors from the log of NVIDIA's fabric manager, which survives reboots; its lines have a full date."""

from __future__ import annotations

import os
import re
import time
from typing import NamedTuple

from .pci import canonical_busid
from .root import Root

LOG = "/var/log/fabricmanager.log"
_TAIL = 1 << 20
"""How many bytes at the end of the log are read."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ERROR = re.compile(
    r"\[(?P<month>\w{3}) (?P<day>\d\d?) (?P<year>\d{4}) (?P<time>\d\d:\d\d:\d\d)\] \[\w+\] \[tid \d+\] "
    r"detected NVSwitch (?P<class>fatal|non-fatal) error (?P<number>\d+) .*\bpci bus id (?P<busid>[0-9a-fA-F:.]+)"
)


class SwitchError(NamedTuple):
    """An error of a switch.

    :ivar when: seconds since the epoch, to the second.
    :ivar device: PCI address of the switch.
    :ivar number: its SXid.
    """

    when: float
    device: str
    number: int
    is_fatal: bool


def read_switch_errors(root: Root, after: float) -> list[SwitchError]:
    """Return the errors that the fabric manager logged after a time; none if there is no log."""
    try:
        with open(root.at(LOG), "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            lines = file.read(_TAIL).decode(errors="replace").splitlines()
    except OSError:
        return []
    return [error for error in map(_parse, lines) if error is not None and error.when > after]


def _parse(line: str) -> SwitchError | None:
    match = _ERROR.match(line)
    if not match or match["month"] not in _MONTHS:
        return None
    hour, minute, second = map(int, match["time"].split(":"))
    date = (int(match["year"]), _MONTHS.index(match["month"]) + 1, int(match["day"]))
    # The log has the machine's local time without a time zone; -1 lets mktime decide about daylight saving time.
    when = time.mktime((*date, hour, minute, second, 0, 0, -1))
    device = canonical_busid(match["busid"]) or match["busid"]
    return SwitchError(when, device, int(match["number"]), match["class"] == "fatal")
