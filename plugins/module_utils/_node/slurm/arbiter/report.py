# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What a node says of its health, as it stands in its record at slurmctld: one word of plain characters.

slurmctld is the one place that every node reaches and the controller reads, in all releases: no port, no shared folder
and no ssh is needed. The word is short, because slurmctld keeps one for each node and sends all to whoever asks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import quote_plus, unquote_plus

FORM = "hpcai-health"
"""Each report begins with it; a text that does not is somebody else's."""
VERSION = 1
LONGEST = 900
"""Characters of a report."""
MOST_FAULTS, MOST_UNKNOWN = 4, 8
MOST_RUNS = 5
"""A fault's runs are counted so far: each step of the count is one more message."""
SUMMARY, _HOST = 120, 80
"""Characters of a fault's summary, and of a host."""
# Eleven digits of seconds last until the year 5138. A longer number is damage, and cannot be compared with a clock.
_NUMBER = re.compile(r"[0-9]{1,11}")
_CHECK = re.compile(r"[A-Za-z0-9_]{1,64}")
# A NUL byte cannot be an argument of a command, and a line end would make two lines of a drain reason.
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")
ANY = "*"
"""Among the unknown checks: there are more than the report has room for."""


class UnreadableReport(ValueError):
    """A text that is no report that can be read; the message says why."""


@dataclass(frozen=True)
class Fault:
    """A check that failed, because of the node and not of a user.

    :ivar check: its name.
    :ivar action: what helps, of health's actions: ``nothing``, ``observe``, ``reset_gpu``, ``reboot``, ``replace``.
    :ivar runs: how often running it has failed, up to ``MOST_RUNS``.
    :ivar blocks: no job can do without what is broken.
    """

    check: str
    action: str
    summary: str
    runs: int = 1
    blocks: bool = False


@dataclass(frozen=True)
class Report:
    """What a node says.

    :ivar time: when it was written, in whole seconds since the epoch, by the node's clock.
    :ivar boot: the first letters of the kernel's name of the boot.
    :ivar vm_id: the machine's vmId; empty where it is not known.
    :ivar host: the physical host; empty where it is not known.
    :ivar faults: the worst first; the first is what the node's reason says.
    :ivar more: how many further checks failed for which there was no room.
    :ivar unknown: checks that could not tell.
    """

    time: int
    boot: str = ""
    vm_id: str = ""
    host: str = ""
    faults: tuple[Fault, ...] = ()
    more: int = 0
    unknown: tuple[str, ...] = ()

    @property
    def failed(self) -> int:
        """How many checks failed."""
        return len(self.faults) + self.more

    def is_unknown(self, check: str) -> bool:
        """Whether the node does not know how it is with this check."""
        return check in self.unknown or ANY in self.unknown

    def is_like(self, other: Report | None) -> bool:
        """Whether it says the same as another one, at another time."""
        return other is not None and replace(self, time=0) == replace(other, time=0)


def encode(report: Report) -> str:
    """Return the report as text; what there is no room for is only counted."""
    unknown = report.unknown if len(report.unknown) <= MOST_UNKNOWN else (*report.unknown[:MOST_UNKNOWN], ANY)
    for kept in range(min(len(report.faults), MOST_FAULTS), -1, -1):
        text = _encode(replace(report, faults=report.faults[:kept], more=report.failed - kept, unknown=unknown))
        if len(text) <= LONGEST:
            break
    return text


def _encode(report: Report) -> str:
    words = [
        f"{FORM}/{VERSION}",
        f"t={report.time}",
        f"b={_quoted(report.boot)}",
        f"v={_quoted(report.vm_id)}",
        f"h={_quoted(report.host[:_HOST])}",
        *(f"f={_fault(fault)}" for fault in report.faults),
        *([f"n={report.more}"] if report.more else []),
        *([f"u={','.join(report.unknown)}"] if report.unknown else []),
    ]
    return ";".join(words)


def _fault(fault: Fault) -> str:
    runs = min(fault.runs, MOST_RUNS)
    return ":".join((fault.check, fault.action, f"{runs}{'b' if fault.blocks else ''}", _quoted(_short(fault.summary))))


def _short(text: str) -> str:
    line = " ".join(text.encode("ascii", "replace").decode().split())
    return line if len(line) <= SUMMARY else f"{line[: SUMMARY - 3].rstrip()}..."


def _quoted(text: str) -> str:
    return quote_plus(text, safe="()/")


def decode(text: str) -> Report:
    """Return the report that stands in a text.

    :raises UnreadableReport: it is of a newer version, or damaged.
    """
    form, *words = text.split(";")
    name, slash, version = form.partition("/")
    if name != FORM or not slash:
        raise UnreadableReport("it is not written by hpcnode")
    if version != str(VERSION):
        raise UnreadableReport(
            f"it has version {version}, and this hpcnode reads version {VERSION}: give both the same version"
        )
    try:
        pairs = [word.split("=", 1) for word in words]
        single = {key: value for key, value in pairs if key != "f"}
        return Report(
            time=_number(single["t"]),
            boot=_text(single["b"]),
            vm_id=_text(single["v"]),
            host=_text(single["h"]),
            faults=tuple(_read_fault(value) for key, value in pairs if key == "f"),
            more=_number(single.get("n", "0")),
            unknown=tuple(filter(None, single.get("u", "").split(","))),
        )
    except (ValueError, LookupError) as error:
        raise UnreadableReport(f"it is damaged ({error!r})") from None


def _read_fault(text: str) -> Fault:
    check, action, runs, summary = text.split(":")
    if not _CHECK.fullmatch(check):
        raise ValueError(f"{check[:20]!r} is not the name of a check")
    return Fault(check, action, _short(_text(summary)), _number(runs.rstrip("b")), runs.endswith("b"))


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text[:20]!r} is not a number of at most 11 digits")
    return int(text)


def _text(quoted: str) -> str:
    return _UNPRINTABLE.sub("?", unquote_plus(quoted))
