# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What the kernel wrote since the last run of a check. Each check goes its own way through the log.

Some lines begin with the name of a process, which its user chooses: 15 bytes that could begin a line of a driver. They
are left out here, for all checks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..machine.kernel_log import NoKernelLog, Record, read_kernel_log
from .check import PROLOG, UNKNOWN, Context, Finding

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
