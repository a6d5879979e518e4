# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What the kernel wrote into its log since it started, without waiting for more.

It is read from the kernel's ring itself, whose records carry a number and their time since the start in microseconds:
no date is guessed from text. What has fallen out of the ring is asked of the journal, which keeps the same time. Files
below /var/log are not read: their lines have no year, or a format of the site's own.
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
# Longer than any record can be (CONSOLE_EXT_LOG_MAX and PRINTKRB_RECORD_MAX of the kernel); a shorter one gives EINVAL.
_RECORD = 1 << 14
# More than the largest ring that log_buf_len can ask for and anybody does.
_MOST_BYTES = 64 << 20
_MOST_ENTRIES = 20000
"""So many of the journal's entries are read at most, in one go."""
# The journal notes when an entry reached it: at boot that is later than when the kernel wrote it.
_LATE_S = 60
_SECOND = 1_000_000
_RECORD_LINE = re.compile(r"\d+,(?P<sequence>\d+),(?P<stamp>\d+),[^;]*;(?P<text>.*)")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")


class NoKernelLog(RuntimeError):
    """The kernel's log cannot be read; the message says why."""


class Record(NamedTuple):
    """What was written at once.

    :ivar when: seconds since the epoch.
    :ivar sequence: its number, from 0 at the start; -1 of one that only the journal still has.
    :ivar stamp: microseconds since the start of the machine.
    :ivar text: one line, without time and level.
    """

    when: float
    sequence: int
    stamp: int
    text: str


@dataclass(frozen=True)
class KernelLog:
    """What there is to read since the last time.

    :ivar records: the oldest first.
    :ivar last: number and stamp of the newest record: where to go on the next time.
    :ivar lost: why older records are missing, though they were never read; empty where none is.
    """

    records: tuple[Record, ...]
    last: tuple[int, int]
    lost: str = ""


def read_kernel_log(
    root: Root, run: Run, now: float, after: tuple[int, int] | None = None, ask_journal: bool = True
) -> KernelLog:
    """Return what the kernel wrote since it started, or since the last time.

    :param now: seconds since the epoch.
    :param after: what ``last`` was then; None to read all.
    :param ask_journal: whether a process may be started for records that are no longer in the ring.
    :raises NoKernelLog: the ring or the time since the start cannot be read.
    """
    started = started_at(root, now)
    ring = _read_ring(root, started)
    newest = (ring[-1].sequence, ring[-1].stamp)
    if after is not None and (newest[0] < after[0] or newest[1] < after[1]):
        # It is not the log that was read the last time: the machine has started anew since.
        after = None
    first_new = after[0] + 1 if after else 0
    records = [record for record in ring if record.sequence >= first_new]
    missing = ring[0].sequence - first_new
    if missing <= 0:
        return KernelLog(tuple(records), newest)
    since = after[1] if after else 0
    if not ask_journal:
        return KernelLog(tuple(records), newest, _lost(missing, "the journal was not asked"))
    older, problem = _ask_journal(run, started, since, ring)
    return KernelLog((*older, *records), newest, _lost(missing, problem) if problem else "")


def _lost(missing: int, why: str) -> str:
    return f"{missing} records of the kernel have fallen out of its log, and {why}"


def started_at(root: Root, now: float) -> float:
    """Return when the machine started, in seconds since the epoch.

    :raises NoKernelLog: it does not tell.
    """
    text = root.text(_UPTIME) or ""
    try:
        return now - float(text.split()[0])
    except (IndexError, ValueError):
        raise NoKernelLog(f"{_UPTIME} does not tell how long the machine is up") from None


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
        raise NoKernelLog(f"{RING} holds nothing: this is no machine of its own, or its log is kept from it")
    return records


def _read_all(descriptor: int) -> bytes:
    """Read record by record, as the device gives them; a file in its place comes in pieces, which is the same here."""
    pieces = []
    size = 0
    while size < _MOST_BYTES:
        try:
            piece = os.read(descriptor, _RECORD)
        except BlockingIOError:
            break
        except OSError as error:
            # EPIPE: what was to be read next has been overwritten; the next call gives the oldest there is now.
            if error.errno == errno.EPIPE:
                size += _RECORD
                continue
            raise
        if not piece:
            break
        pieces.append(piece)
        size += len(piece)
    else:
        raise NoKernelLog(f"{RING} is not at an end after {_MOST_BYTES >> 20} MiB")
    return b"".join(pieces)


def _parse(lines: Iterable[str], started: float) -> list[Record]:
    found = []
    for line in lines:
        # Lines that begin with a space belong to the record before: its device in words of udev.
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
    """Return the records between a stamp and the ring, and why some of them may be missing."""
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
        return [], "the journal does not have them"
    if len(lines) >= _MOST_ENTRIES:
        return found, f"the journal has more than {_MOST_ENTRIES} of them"
    return found, ""


def _entry(line: str) -> tuple[int, str] | None:
    """Return stamp and text of an entry; None of what the kernel did not write, or what cannot be read."""
    try:
        entry: Mapping[str, Any] = json.loads(line)
        stamp = int(entry.get("_SOURCE_MONOTONIC_TIMESTAMP") or entry["__MONOTONIC_TIMESTAMP"])
        message = entry["MESSAGE"]
        if isinstance(message, list):
            # So the journal tells text that is not UTF-8.
            message = bytes(message).decode(errors="replace")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return (stamp, _one_line(message)) if isinstance(message, str) else None
