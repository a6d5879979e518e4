# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Reads what the kernel has logged since it started, without waiting for new records.

It reads the kernel's ring buffer, whose records have a number and a time since the start in microseconds, so no date is
parsed from text. Records that are no longer in the ring buffer are read from the journal, which stores the same time.
Files in /var/log are not read, because their lines have no year or a site-specific format.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .root import Root
from .run import Run, last_line

RING = "/dev/kmsg"
_UPTIME = "/proc/uptime"
# Longer than any record (CONSOLE_EXT_LOG_MAX and PRINTKRB_RECORD_MAX of the kernel); a shorter buffer gives EINVAL.
_RECORD = 1 << 14
# More than any realistic size of the ring buffer (log_buf_len).
_MOST_BYTES = 64 << 20
_MOST_ENTRIES = 20000
"""Most entries of the journal to read at once."""
# The journal's timestamp is the arrival of an entry, which at boot is later than the kernel's timestamp.
_LATE_S = 60
_SECOND = 1_000_000
_RECORD_LINE = re.compile(r"\d+,(?P<sequence>\d+),(?P<stamp>\d+),[^;]*;(?P<text>.*)")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")


class NoKernelLog(RuntimeError):
    """The kernel's log cannot be read; the message says why."""


class Record(NamedTuple):
    """A record of the log.

    :ivar when: seconds since the epoch.
    :ivar sequence: its number, from 0 at the start; -1 for a record from the journal.
    :ivar stamp: microseconds since the start of the machine.
    :ivar text: one line, without time and level.
    """

    when: float
    sequence: int
    stamp: int
    text: str


@dataclass(frozen=True)
class KernelLog:
    """The records since the last read.

    :ivar records: oldest first.
    :ivar last: number and stamp of the newest record, from which the next read continues.
    :ivar lost: why records are missing that were never read; empty if none are.
    """

    records: tuple[Record, ...]
    last: tuple[int, int]
    lost: str = ""


def read_kernel_log(
    root: Root, run: Run, now: float, after: tuple[int, int] | None = None, ask_journal: bool = True
) -> KernelLog:
    """Return the kernel's records since it started, or since the last read.

    :param now: seconds since the epoch.
    :param after: ``last`` of the last read; None to read all.
    :param ask_journal: whether to run journalctl for records that are no longer in the ring buffer.
    :raises NoKernelLog: the ring buffer or the uptime cannot be read.
    """
    started = started_at(root, now)
    ring = _read_ring(root, started)
    newest = (ring[-1].sequence, ring[-1].stamp)
    if after is not None and (newest[0] < after[0] or newest[1] < after[1]):
        # The machine has rebooted since the last read, so this is a new log.
        after = None
    first_new = after[0] + 1 if after else 0
    records = [record for record in ring if record.sequence >= first_new]
    missing = ring[0].sequence - first_new
    if missing <= 0:
        return KernelLog(tuple(records), newest)
    since = after[1] if after else 0
    if not ask_journal:
        return KernelLog(tuple(records), newest, _lost(missing, "the journal was not read"))
    older, problem = _ask_journal(run, started, since, ring)
    return KernelLog((*older, *records), newest, _lost(missing, problem) if problem else "")


def _lost(missing: int, why: str) -> str:
    return f"{missing} records of the kernel log were overwritten, and {why}"


def started_at(root: Root, now: float) -> float:
    """Return when the machine started, in seconds since the epoch.

    :raises NoKernelLog: the uptime cannot be read.
    """
    text = root.text(_UPTIME) or ""
    try:
        return now - float(text.split()[0])
    except (IndexError, ValueError):
        raise NoKernelLog(f"cannot read the uptime from {_UPTIME}") from None


def _read_ring(root: Root, started: float) -> list[Record]:
    try:
        descriptor = os.open(root.at(RING), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise NoKernelLog(f"{RING} cannot be opened: {error.strerror}") from None
    try:
        raw = _read_all(descriptor)
    except OSError as error:
        raise NoKernelLog(f"{RING} cannot be read: {error.strerror}") from None
    finally:
        os.close(descriptor)
    records = _parse(raw.decode(errors="replace").split("\n"), started)
    if not records:
        raise NoKernelLog(f"{RING} is empty: this is a container, or this machine may not read its log")
    return records


def _read_all(descriptor: int) -> bytes:
    """Read one record per call, as the device returns them; a file in a captured tree is read in pieces."""
    pieces = []
    size = 0
    while size < _MOST_BYTES:
        try:
            piece = os.read(descriptor, _RECORD)
        except BlockingIOError:
            break
        except OSError as error:
            # EPIPE: the next record was overwritten; the next call returns the oldest existing record.
            if error.errno == errno.EPIPE:
                size += _RECORD
                continue
            raise
        if not piece:
            break
        pieces.append(piece)
        size += len(piece)
    else:
        raise NoKernelLog(f"{RING} has more than {_MOST_BYTES >> 20} MiB")
    return b"".join(pieces)


def _parse(lines: Iterable[str], started: float) -> list[Record]:
    found = []
    for line in lines:
        # Lines that begin with a space belong to the record before: they name its device for udev.
        match = _RECORD_LINE.fullmatch(line)
        if match:
            stamp = int(match["stamp"])
            found.append(Record(started + stamp / _SECOND, int(match["sequence"]), stamp, _one_line(match["text"])))
    return found


def _one_line(text: str) -> str:
    if "\\x" in text:
        text = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
    return " ".join(text.split("\n")).strip()


def _ask_journal(run: Run, started: float, since: int, ring: list[Record]) -> tuple[list[Record], str]:
    """Return the records between a stamp and the ring buffer, and why some of them may be missing."""
    command = ["journalctl", "--dmesg", "--boot", "--output=json", "--no-pager", "--quiet"]
    command += [f"--lines={_MOST_ENTRIES}", f"--until=@{int(ring[0].when) + _LATE_S}"]
    if since:
        command.append(f"--since=@{int(started + since / _SECOND)}")
    answer = run(command)
    if answer.rc == 127:
        return [], "there is no journalctl"
    if answer.rc != 0:
        return [], f"journalctl failed (exit status {answer.rc}): {last_line(answer)}"
    lines = answer.stdout.splitlines()
    in_ring = {(record.stamp, record.text) for record in ring if record.stamp == ring[0].stamp}
    found = [
        Record(started + stamp / _SECOND, -1, stamp, text)
        for stamp, text in filter(None, map(_entry, lines))
        if since < stamp <= ring[0].stamp and (stamp, text) not in in_ring
    ]
    if not found:
        return [], "the journal does not contain them"
    if len(lines) >= _MOST_ENTRIES:
        return found, f"the journal has more than {_MOST_ENTRIES} of them"
    return found, ""


def _entry(line: str) -> tuple[int, str] | None:
    """Return stamp and text of an entry; None if the kernel did not write it, or it is invalid."""
    try:
        entry: Mapping[str, Any] = json.loads(line)
        stamp = int(entry.get("_SOURCE_MONOTONIC_TIMESTAMP") or entry["__MONOTONIC_TIMESTAMP"])
        message = entry["MESSAGE"]
        if isinstance(message, list):
            # The journal returns text that is not UTF-8 as a list of bytes.
            message = bytes(message).decode(errors="replace")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return (stamp, _one_line(message)) if isinstance(message, str) else None
