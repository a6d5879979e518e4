# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Lines of the kernel's log that are signs of a problem, and the findings that they cause.

A sign matches only the beginning of a line, because a user can choose text that comes later, such as a process's name.
Lines that begin with a process's name are dropped (``new_records``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..machine.kernel_log import NoKernelLog, Record, read_kernel_log
from .check import NODE, PROLOG, UNKNOWN, Answer, Context, Finding, History, Reading

_READ_TO = "read_to"
# Messages that a user can cause and that begin with a process's name. Sources in the kernel: mm/fault.c and
# kernel/signal.c below arch, mm: oom_kill.c, page_alloc.c, vmalloc.c; kernel: signal.c, exit.c; block/blk-core.c.
_OF_A_PROCESS = re.compile(
    r".{1,15}(?:\[\d+\]"
    r"| invoked oom-killer: "
    r"|: (?:page allocation (?:failure|stalls)|vmalloc error: |potentially unexpected fatal signal|attempt to access )"
    r"|(?: \(\d+\)|/\d+)(?:: | used greatest stack depth))"
)
_HINT = "Read the kernel's log with 'journalctl -k -b' or 'dmesg'"


@dataclass(frozen=True)
class NewRecords:
    """New records of the kernel's log.

    :ivar records: the oldest first; None if the log could not be read.
    :ivar findings: findings about what could not be read.
    """

    records: tuple[Record, ...] | None
    findings: tuple[Finding, ...] = ()


def new_records(context: Context) -> NewRecords:
    """Return what the kernel wrote in this boot since this check's last run, and save the position.

    If the kernel's buffer has overwritten records, other tiers read them from the journal. A prolog does not, because
    it must not start a process; it leaves them to the next run of another tier.
    """
    before = context.history.get(_READ_TO)
    after = (int(before[0]), int(before[1])) if before else None
    ask_journal = context.tier != PROLOG
    try:
        log = read_kernel_log(context.root, context.run, context.now, after, ask_journal)
    except NoKernelLog as error:
        return NewRecords(None, (Finding(UNKNOWN, str(error), hint=_HINT),))
    if ask_journal or not log.lost:
        context.history.keep(_READ_TO, list(log.last))
    lost = (Finding(UNKNOWN, log.lost, hint=_HINT),) if log.lost else ()
    return NewRecords(tuple(record for record in log.records if not _OF_A_PROCESS.match(record.text)), lost)


_SECOND = 1_000_000


@dataclass(frozen=True)
class Sign:
    """A kind of line.

    :ivar name: short and unique within the check.
    :ivar source: the source files of the kernel or driver that write such lines. Patterns follow their format strings,
        in Linux 6.1 unless another version is named.
    :ivar pattern: matches the beginning of such lines; its group is the device.
    :ivar verdict: WARN or FAIL.
    :ivar summary: what is wrong, with ``{device}`` if it has one. It has no varying parts, so that it is latched once.
    :ivar action: as in ``Finding``.
    :ivar fault: as in ``Finding``.
    :ivar cause: NODE or USER; a finding of USER is not latched.
    :ivar bearable: this many lines within ``window_s`` seconds are ignored.
    """

    name: str
    pattern: re.Pattern[str]
    verdict: str
    summary: str
    hint: str
    action: str | None = None
    fault: str | None = None
    cause: str = NODE
    bearable: int = 0
    window_s: float = 0.0
    source: str = ""

    def finding(self, device: str) -> Finding:
        """Return the finding for a device."""
        return Finding(
            verdict=self.verdict,
            summary=self.summary.format(device=device),
            device=device,
            hint=self.hint.format(device=device),
            action=self.action,
            fault=self.fault,
            cause=self.cause,
            latch=self.cause == NODE,
        )


def look_for(context: Context, signs: Sequence[Sign], reading: str, good: str) -> Answer:
    """Look for signs in what the kernel wrote since the last run.

    :param reading: name of the reading with the number of lines found.
    :param good: the summary if there are none.
    """
    read = new_records(context)
    if read.records is None:
        return Answer(findings=read.findings)
    matched = matches(read.records, signs)
    findings = []
    for sign, device in matched:
        stamps = [record.stamp for record in matched[sign, device]]
        if not sign.bearable or too_many(context.history, sign, device, stamps):
            findings.append(sign.finding(device))
    count = sum(len(records) for records in matched.values())
    return Answer(good, (Reading(reading, count),), (*dict.fromkeys(findings), *read.findings))


def matches(records: Iterable[Record], signs: Sequence[Sign]) -> dict[tuple[Sign, str], list[Record]]:
    """Return the records that are signs, by sign and device, in the order in which they were first seen.

    A record counts for one sign only: the first that matches.
    """
    matched: dict[tuple[Sign, str], list[Record]] = {}
    for record in records:
        for sign in signs:
            match = sign.pattern.match(record.text)
            if match:
                matched.setdefault((sign, next(filter(None, match.groups()), "")), []).append(record)
                break
    return matched


def too_many(history: History, sign: Sign, device: str, stamps: Sequence[int]) -> bool:
    """Return whether there were more than ``bearable`` of them within the sign's window, including earlier runs."""
    key = f"{sign.name} {device}".strip()
    times = [*(history.get(key) or []), *stamps]
    # Keep only as many as are needed to judge the next one.
    history.keep(key, times[-sign.bearable :])
    window = sign.window_s * _SECOND
    return any(late - early <= window for early, late in zip(times, times[sign.bearable :]))
