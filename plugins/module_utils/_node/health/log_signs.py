# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Lines of the kernel's log that mean something, and the findings they make.

A sign is known by the beginning of the line: what comes later may be of anybody's choice, as a process's name is. Lines
that begin with a process's name never reach a sign (``new_records``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..machine.kernel_log import NoKernelLog, Record, read_kernel_log
from .check import NODE, PROLOG, UNKNOWN, Answer, Context, Finding, History, Reading

_READ_TO = "read_to"
# What the kernel writes after a process's name at the beginning of a line, of what a user can cause: mm/fault.c and
# kernel/signal.c below arch, mm: oom_kill.c, page_alloc.c, vmalloc.c; kernel: signal.c, exit.c; block/blk-core.c.
_OF_A_PROCESS = re.compile(
    r".{1,15}(?:\[\d+\]"
    r"| invoked oom-killer: "
    r"|: (?:page allocation (?:failure|stalls)|vmalloc error: |potentially unexpected fatal signal|attempt to access )"
    r"|(?: \(\d+\)|/\d+)(?:: | used greatest stack depth))"
)
_HINT = "'journalctl -k -b' and 'dmesg' show what there is to read"


@dataclass(frozen=True)
class NewRecords:
    """What there was to read.

    :ivar records: the oldest first; None where the log could not be read.
    :ivar findings: what could not be read.
    """

    records: tuple[Record, ...] | None
    findings: tuple[Finding, ...] = ()


def new_records(context: Context) -> NewRecords:
    """Return what the kernel wrote since this check's last run, of this boot only, and note how far that is.

    A prolog starts no process for what has fallen out of the kernel's log: it leaves this to the next other run.
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
        of Linux 6.1 where nothing else is said.
    :ivar pattern: what such lines begin with; a group of it is the device that they are about.
    :ivar verdict: WARN or FAIL.
    :ivar summary: what is wrong, with ``{device}`` where it has one; the same each time, for so it is latched once.
    :ivar action: as in ``Finding``.
    :ivar fault: as in ``Finding``.
    :ivar cause: NODE or USER; what a user causes is not kept beyond the run that sees it.
    :ivar bearable: how many of them within ``window_s`` seconds are nothing to speak of.
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
        """Return what it means for a device."""
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

    :param reading: name of the reading that tells how many were found.
    :param good: what is the case where there are none.
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

    A record is no more than one sign: the first that it fits.
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
    """Return whether there were more of them within the sign's window than are bearable, earlier runs included."""
    key = f"{sign.name} {device}".strip()
    times = [*(history.get(key) or []), *stamps]
    # As many as it takes to tell, together with the next one.
    history.keep(key, times[-sign.bearable :])
    window = sign.window_s * _SECOND
    return any(late - early <= window for early, late in zip(times, times[sign.bearable :]))
