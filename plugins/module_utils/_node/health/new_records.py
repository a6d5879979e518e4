# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What the kernel wrote since the last run of a check. Each check goes its own way through the log."""

from __future__ import annotations

from dataclasses import dataclass

from ..machine.kernel_log import NoKernelLog, Record, read_kernel_log
from .check import PROLOG, UNKNOWN, Context, Finding

_READ_TO = "read_to"
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
    return NewRecords(log.records, lost)
