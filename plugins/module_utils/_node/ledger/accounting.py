# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Reads runs of jobs (sacct) and events of nodes (sacctmgr) from slurmdbd, line by line.

``sacct --duplicates`` has a record for each run of a requeued job; the Submit of such a record is the time of the
requeue. ``sacctmgr show event`` has each outage of a node with its reason. Rows without a node are events of the
cluster: those with ``ClusterNodes`` are its registrations. Fields are those that 22.05 and 24.11 both have; Restarts
and FailedNode came later than 22.05.

A user chooses a job's comment, which may contain anything, also a line that looks like another record. So sacct
separates fields by a text that nobody can know before, and a line without exactly the right number of them is ignored.
"""

from __future__ import annotations

import itertools
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Callable

from ..job.checkpoint.names import Id
from ..machine.run import CommandFailed, follow

LIMIT_S = 300.0
"""Time limit of one query, in seconds: slurmdbd may read a large table."""
_RUN_FIELDS = "JobIDRaw,State,Submit,Eligible,Start,End,ExitCode,NodeList,Partition,User,Comment"
_EVENT_FIELDS = "NodeName,Start,End,State,User,ClusterNodes,Reason"
_WORD = re.compile(r"[a-z]{1,16}(=[A-Za-z0-9][A-Za-z0-9._-]{0,62})?")
_MOST_WORDS = 100
"""A comment with notes has at most 1000 characters, but a user may submit a job with a longer one."""
_MOST_TEXTS = 4096
_NO_TIME = ("", "Unknown", "None", "NONE")
_NO_NODES = ("", "None assigned", "(null)")

_SAVED = re.compile(r"saved=([0-9]{1,6})\.([0-9]{1,12})\.([0-9]{1,15})")

RUNNING = "RUNNING"

Query = Callable[[Sequence[str], Callable[[str], None]], None]
"""Runs a command, and passes each line of its output on; tests pass recorded ones."""


@dataclass(frozen=True)
class JobRun:
    """A run of a job. Times are in seconds since the epoch.

    :ivar job: the job's own id, also of a task of an array.
    :ivar state: Slurm's word, such as ``NODE_FAIL``.
    :ivar submit: when it was submitted; of a later run, when the job was requeued.
    :ivar start: when it got its nodes.
    :ivar work: when its batch script or first step started, after the prologs; None if unknown.
    :ivar end: when it ended; None while it runs.
    :ivar nodes: Slurm's host list.
    :ivar training: the name in its comment, ``hpcai:training=NAME``; empty if it has none.
    :ivar words: the words of its comment that start with ``hpcai:``, without that.
    """

    job: int
    state: str
    submit: float
    eligible: float
    start: float
    work: float | None
    end: float | None
    exit: str
    nodes: str
    partition: str
    user: str
    training: str
    words: tuple[str, ...] = ()

    @property
    def saved(self) -> list[tuple[str, float]]:
        """The checkpoints that its job noted in the comment: their ids, and when they became complete."""
        found = [match for match in map(_SAVED.fullmatch, self.words) if match]
        return [(Id(int(one[2]), f"{self.job}.{int(one[1])}", 1).text, int(one[3]) / 1000) for one in found]


@dataclass(frozen=True)
class Event:
    """An outage of a node. Times are in seconds since the epoch.

    :ivar end: None while it lasts.
    :ivar state: Slurm's words, such as ``IDLE+DRAIN``.
    :ivar user: who caused it.
    """

    node: str
    start: float
    end: float | None
    state: str
    user: str
    reason: str


@dataclass(frozen=True)
class Registration:
    """The nodes that the cluster had for a time. Times are in seconds since the epoch.

    :ivar end: None for the current one.
    :ivar nodes: Slurm's host list.
    """

    start: float
    end: float | None
    nodes: str


@dataclass
class Skipped:
    """Lines that could not be used, by reason."""

    counts: dict[str, int] = field(default_factory=dict)

    def add(self, why: str, count: int = 1) -> None:
        """Count lines."""
        self.counts[why] = self.counts.get(why, 0) + count


@dataclass(frozen=True)
class History:
    """What slurmdbd has about the nodes.

    :ivar events: outages, by node and start.
    """

    events: Sequence[Event]
    registrations: Sequence[Registration]
    skipped: Skipped


class Times:
    """Parses Slurm's times in UTC. The days are cached, because a window has few of them and many times."""

    def __init__(self) -> None:
        self._days: dict[str, float] = {}

    def __call__(self, text: str) -> float | None:
        """Return ``2026-01-31T23:59:59`` in seconds since the epoch; None if there is no time."""
        if text in _NO_TIME:
            return None
        day = self._days.get(text[:10])
        if day is None:
            day = self._days[text[:10]] = _day(text[:10])
        return day + int(text[11:13]) * 3600 + int(text[14:16]) * 60 + int(text[17:19])


def _day(text: str) -> float:
    import datetime

    return datetime.datetime.fromisoformat(f"{text}T00:00:00+00:00").timestamp()


def query(words: Sequence[str], handle: Callable[[str], None]) -> None:
    """Run one of Slurm's commands in UTC, and pass each line on as it arrives.

    :raises CommandFailed: it failed, or did not answer in time.
    """
    rest = b""
    last = ""

    def gather(chunk: bytes) -> bool:
        nonlocal rest, last
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            last = line.decode("utf-8", "replace")
            handle(last)
        return True

    environment = {**os.environ, "TZ": "UTC", "LC_ALL": "C"}
    # sacct's output format must not depend on the operator's own settings.
    for name in ("SLURM_TIME_FORMAT", "SACCT_FORMAT", "SACCT_FEDERATION"):
        environment.pop(name, None)
    try:
        ended = follow(words, environment, gather, LIMIT_S)
    except OSError as error:
        raise CommandFailed(f"{words[0]}: {error.strerror}: run this on the controller") from None
    if ended.cut or ended.rc != 0:
        why = f"no answer within {LIMIT_S:g} s" if ended.cut else rest.decode("utf-8", "replace").strip() or last
        raise CommandFailed(f"'{words[0]}' failed ({why}): see 'systemctl status slurmdbd'")


class RunReader:
    """Puts runs together from lines of sacct: a line of the job, and after it those of its steps."""

    def __init__(self, delimiter: str, handle: Callable[[JobRun], None], skipped: Skipped) -> None:
        self._delimiter, self._handle, self._skipped = delimiter, handle, skipped
        self._time = Times()
        self._fields: list[str] = []
        self._work: str | None = None
        self._texts: dict[str, str] = {}

    def line(self, line: str) -> None:
        """Read a line."""
        fields = line.split(self._delimiter)
        if len(fields) != 11:
            # The rest of a comment with a line break, or a message of sacct.
            return
        number, _dot, step = fields[0].partition(".")
        if not step:
            self.end()
            self._fields = fields
        elif self._fields and number == self._fields[0] and step != "extern" and self._work is None:
            self._work = fields[4]

    def end(self) -> None:
        """Pass the last run on."""
        if self._fields:
            self._pass_on(self._fields, self._work)
        self._fields, self._work = [], None

    def _shared(self, text: str) -> str:
        """Return the same object for the same text, because thousands of runs have it.

        ``sys.intern`` would keep what users have chosen: Python 3.12 before 3.12.6 never frees an interned text
        (https://github.com/python/cpython/issues/113993), and Ubuntu 24.04 has 3.12.3.
        """
        if len(self._texts) >= _MOST_TEXTS:
            self._texts.clear()
        return self._texts.setdefault(text, text)

    def _pass_on(self, fields: Sequence[str], work: str | None) -> None:
        number, state, submit, eligible, start, end, status, nodes, partition, user, comment = fields
        if nodes in _NO_NODES:
            # It never had nodes.
            return None
        try:
            began, ended = self._time(start), self._time(end)
            submitted = self._time(submit)
            worked = self._time(work) if work else None
            asked = self._time(eligible)
        except ValueError:
            return self._skipped.add("a time that cannot be read")
        if began is None:
            return None
        if ended is not None and ended < began:
            return self._skipped.add("an end before its start: the controller's clock was changed")
        submitted = began if submitted is None else submitted
        words = words_in(comment)
        if worked is not None and not began <= worked <= (ended if ended is not None else worked):
            # A step of an earlier run, or clocks that differ.
            worked = None
        self._handle(
            JobRun(
                int(number) if number.isdecimal() else 0,
                self._shared(state.partition(" ")[0]),
                submitted,
                # A job's Eligible stays that of its first submission, or is later than its start.
                min(max(submitted, asked), began) if asked is not None else submitted,
                began,
                worked,
                ended,
                self._shared(status),
                self._shared(nodes),
                self._shared(partition),
                self._shared(user),
                self._shared(training_in(words)),
                words,
            )
        )
        return None


def words_in(comment: str) -> tuple[str, ...]:
    """Return the words of a job's comment that start with ``hpcai:``, without that. A user may write anything there."""
    if "hpcai:" not in comment:
        return ()
    found = (word[6:] for word in re.split(r"[\s,;]+", comment) if word.startswith("hpcai:"))
    return tuple(itertools.islice(filter(_WORD.fullmatch, found), _MOST_WORDS))


def training_in(words: Sequence[str]) -> str:
    """Return the name of the training in these words; empty if there is none."""
    return next((word.partition("=")[2] for word in words if word.startswith("training=")), "")


def read_runs(
    since: float, until: float, handle: Callable[[JobRun], None], ask: Query = query, jobs: Sequence[int] = ()
) -> Skipped:
    """Pass on each run that overlaps a time, and return which lines could not be used.

    :param jobs: only runs of these jobs, without ``work``: a user's jobs may have very many steps.
    :raises CommandFailed: slurmdbd does not answer.
    """
    delimiter = f"~{secrets.token_hex(8)}~"
    skipped = Skipped()
    reader = RunReader(delimiter, handle, skipped)
    words = ["sacct", "--allusers", "--duplicates", "--noheader", "--parsable2", f"--delimiter={delimiter}"]
    words += [f"--starttime={slurm_time(since)}", f"--endtime={slurm_time(until)}", f"--format={_RUN_FIELDS}"]
    ask([*words, *(["--allocations", f"--jobs={','.join(map(str, jobs))}"] if jobs else [])], reader.line)
    reader.end()
    return skipped


def read_history(since: float, until: float, ask: Query = query) -> History:
    """Return the outages of nodes and the registrations of the cluster that overlap a time.

    :raises CommandFailed: slurmdbd does not answer.
    """
    found: dict[tuple[str, float], Event] = {}
    registrations: dict[float, Registration] = {}
    skipped, read_time = Skipped(), Times()

    def handle(line: str) -> None:
        fields = line.split("|", 6)
        if len(fields) != 7 or not (fields[0] or fields[5]):
            # Another event of the cluster, such as a disconnection, or a message.
            return None
        node, start, end, state, user, nodes, reason = fields
        try:
            began, ended = read_time(start), read_time(end)
        except ValueError:
            return skipped.add("a time that cannot be read")
        if began is None or (ended is not None and ended < began):
            return skipped.add("an end before its start: the controller's clock was changed")
        # A report over clusters has an event twice.
        if not node:
            registrations[began] = Registration(began, ended, nodes)
            return None
        found[node, began] = Event(node, began, ended, state.upper(), user, reason)
        return None

    words = ["sacctmgr", "--noheader", "--parsable2", "--readonly", "show", "event"]
    words += [f"start={slurm_time(since)}", f"end={slurm_time(until)}", f"format={_EVENT_FIELDS}"]
    ask(words, handle)
    return History([found[key] for key in sorted(found)], list(registrations.values()), skipped)


def slurm_time(when: float) -> str:
    """Return a time as Slurm's options take it, in UTC."""
    import time

    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(when))


def by_node(events: Sequence[Event]) -> Mapping[str, list[Event]]:
    """Return the events of each node, sorted."""
    found: dict[str, list[Event]] = {}
    for event in events:
        found.setdefault(event.node, []).append(event)
    return found


def slices(since: float, until: float, length_s: float = 86400.0) -> Iterator[tuple[float, float]]:
    """Yield parts of a window, so that only the runs of one part are in memory at a time."""
    while since < until:
        yield since, min(since + length_s, until)
        since += length_s
