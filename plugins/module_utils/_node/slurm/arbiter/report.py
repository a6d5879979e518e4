# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A node's report of its health, as it is in its record at slurmctld: one word of plain characters.

The report goes through slurmctld, because every node reaches it and the controller can read it, in all releases: no
port, shared folder or ssh is needed. It is short, because slurmctld keeps one per node and sends all to each client.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import quote_plus, unquote_plus

FORM = "hpcai-health"
"""Start of each report; other texts belong to somebody else."""
VERSION = 1
LONGEST = 900
"""Maximum length of a report."""
MOST_FAULTS, MOST_UNKNOWN = 4, 8
MOST_RUNS = 5
"""Repeated failures of a check are counted up to this number, because each count is one more message."""
SUMMARY, _HOST = 120, 80
"""Maximum lengths of a fault's summary, and of a host's name."""
# Eleven digits of seconds last until the year 5138. A longer number is damaged, and cannot be compared with a clock.
_NUMBER = re.compile(r"[0-9]{1,11}")
_CHECK = re.compile(r"[A-Za-z0-9_]{1,64}")
# A command's argument cannot contain a NUL byte, and a line break would make two lines of a drain reason.
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")
ANY = "*"
"""Among the unknown checks: there are more than fit into the report."""


class UnreadableReport(ValueError):
    """A text that is not a readable report; the message says why."""


@dataclass(frozen=True)
class Fault:
    """A check that failed because of the node, not because of a user.

    :ivar check: its name.
    :ivar action: what helps, one of health's actions: ``nothing``, ``observe``, ``reset_gpu``, ``reboot``, ``replace``.
    :ivar runs: how many consecutive runs failed, up to ``MOST_RUNS``.
    :ivar blocks: no job can run without what is broken.
    """

    check: str
    action: str
    summary: str
    runs: int = 1
    blocks: bool = False


@dataclass(frozen=True)
class Report:
    """A node's report.

    :ivar time: when it was written, in whole seconds since the epoch, by the node's clock.
    :ivar boot: the first characters of the kernel's boot id.
    :ivar vm_id: the machine's vmId; empty if not known.
    :ivar host: the physical host; empty if not known.
    :ivar faults: the worst first; the first one is in the node's reason.
    :ivar more: how many further checks failed that did not fit.
    :ivar unknown: checks with the verdict unknown.
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
        """Whether the node's verdict for this check is unknown."""
        return check in self.unknown or ANY in self.unknown

    def is_like(self, other: Report | None) -> bool:
        """Whether it equals another one, except for the time."""
        return other is not None and replace(self, time=0) == replace(other, time=0)


def encode(report: Report) -> str:
    """Return the report as text; faults that do not fit are only counted."""
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
    """Return the report in a text.

    :raises UnreadableReport: it has a newer version, or is damaged.
    """
    form, *words = text.split(";")
    name, slash, version = form.partition("/")
    if name != FORM or not slash:
        raise UnreadableReport("it was not written by hpcnode")
    if version != str(VERSION):
        raise UnreadableReport(
            f"it has version {version}, but this hpcnode reads version {VERSION}. Install the same version on both"
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
