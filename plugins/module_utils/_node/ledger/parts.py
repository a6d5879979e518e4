# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Reads the runs of a window in parts that fit into memory: users decide how many runs a day has."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ..slurm.hostlist import HostlistError, expand
from .accounting import JobRun, Skipped

ReadRuns = Callable[[float, float, Callable[[JobRun], None]], Skipped]

MOST_RUNS = 100_000
"""Runs in memory at a time. Each takes about a KiB with what is computed from it, so this is some 100 MiB."""
_NODES_OF_A_RUN, _WORDS_OF_A_RUN = 64, 4
"""Each further so many nodes, or words in its comment, count as a run more."""
_AHEAD_S = 3600.0
"""A part also reads runs that start up to this much later: a requeued job waits for its next start in this part."""
_MOST_AHEAD = 1_000_000
_SHORTEST_S = 2700.0
"""A part of this length or less is not divided: a day has at most 32, so users cannot decide how often sacct is run.
What is too much then is left out."""


class Hosts:
    """Expands host lists; many runs have the same one.

    :param most: so many names are in memory at a time, each of which takes about 64 bytes.
    """

    def __init__(self, most: int = 200_000) -> None:
        self._most = most
        self._count = 0
        self._known: dict[str, tuple[str, ...]] = {}

    def __call__(self, text: str) -> tuple[str, ...]:
        found = self._known.get(text)
        if found is None:
            try:
                found = tuple(expand(text))
            except HostlistError:
                found = ()
            self._count += 1 + len(found)
            if self._count > self._most:
                self._known.clear()
                self._count = 1 + len(found)
            self._known[text] = found
        return found


class _TooMany(Exception):
    """The part has too many runs."""


@dataclass
class WindowPart:
    """A part of a window.

    :ivar later: jobs with a run that starts after its end.
    :ivar skipped: lines that could not be used.
    """

    since: float
    until: float
    hosts: Hosts
    later: set[int] = field(default_factory=set)
    skipped: Skipped = field(default_factory=Skipped)
    _by_user: dict[str, list[JobRun]] = field(default_factory=dict)
    _sizes: dict[str, int] = field(default_factory=dict)
    _size: int = 0

    @property
    def runs(self) -> Iterator[JobRun]:
        """The runs that overlap it."""
        return itertools.chain.from_iterable(self._by_user.values())

    def read(self, read_runs: ReadRuns, until: float) -> bool:
        """Read the runs, and return whether they are not too many.

        :param until: the end of the window.
        :raises CommandFailed: slurmdbd does not answer.
        """
        try:
            skipped = read_runs(self.since, min(self.until + _AHEAD_S, until), self._add)
        except _TooMany:
            return False
        for why, count in skipped.counts.items():
            self.skipped.add(why, count)
        return True

    def _add(self, run: JobRun) -> None:
        if run.start >= self.until:
            if len(self.later) < _MOST_AHEAD:
                self.later.add(run.job)
            return
        size = self._size_of(run)
        if self._size + size > MOST_RUNS and self.until - self.since > _SHORTEST_S:
            raise _TooMany
        self._by_user.setdefault(run.user, []).append(run)
        self._change(run.user, size)
        while self._size > MOST_RUNS:
            # Those of the user who has the most: one user removes no runs of others.
            user = max(self._sizes, key=self._sizes.__getitem__)
            self._change(user, -self._size_of(self._by_user[user].pop()))
            self.skipped.add(f"runs of {user}, because there were more than {MOST_RUNS} at a time")

    def _size_of(self, run: JobRun) -> int:
        return 1 + len(self.hosts(run.nodes)) // _NODES_OF_A_RUN + len(run.words) // _WORDS_OF_A_RUN

    def _change(self, user: str, size: int) -> None:
        self._sizes[user] = self._sizes.get(user, 0) + size
        self._size += size


def read_parts(read_runs: ReadRuns, since: float, until: float, end: float, hosts: Hosts) -> Iterator[WindowPart]:
    """Yield the runs between two times, in halves if they are too many.

    :param end: the end of the window.
    :raises CommandFailed: slurmdbd does not answer.
    """
    part = WindowPart(since, until, hosts)
    if part.read(read_runs, end):
        yield part
        return
    del part
    # slurmdbd takes whole seconds.
    middle = since + (until - since) // 2
    yield from read_parts(read_runs, since, middle, end, hosts)
    yield from read_parts(read_runs, middle, until, end, hosts)
