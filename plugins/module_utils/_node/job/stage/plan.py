# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Divides blobs among nodes: balanced by bytes, or by names of files in numbered groups.

All nodes compute the same division.
"""

from __future__ import annotations

import heapq
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

_REFINED = 20_000
_SWAPS = 2_000
_GOOD_ENOUGH = 2_000
"""Stop if the difference is at most 1/2000 of the largest shard."""


class Sized(Protocol):
    """An item to divide, with a name and a size."""

    @property
    def name(self) -> str:
        """Its unique name."""

    @property
    def size(self) -> int:
        """Its size in bytes."""


@dataclass(frozen=True)
class Quality:
    """How good a division is.

    :ivar largest: bytes of the largest shard, for which all nodes wait.
    :ivar bound: a lower bound of ``largest`` for any division.
    """

    largest: int
    bound: int

    @property
    def ratio(self) -> float:
        """The largest shard relative to the bound; 1.0 is optimal."""
        return self.largest / self.bound if self.bound else 1.0


def shards_of(blobs: Sequence[Sized], count: int) -> list[list[str]]:
    """Return the names for each of ``count`` shards, sorted in each.

    Blobs are assigned from the largest to the smallest, each to the shard with the fewest bytes, then the fewest files.
    Then files are exchanged between the largest and the smallest shard to reduce the difference. The result does not
    depend on the order of the blobs.

    :raises ValueError: there is no shard.
    """
    if count < 1:
        raise ValueError(f"{count} shards: there must be at least one.")
    loads = [(0, 0, number) for number in range(count)]
    shards: list[list[Sized]] = [[] for _number in range(count)]
    for blob in sorted(blobs, key=lambda one: (-one.size, one.name)):
        used, files, number = loads[0]
        heapq.heapreplace(loads, (used + blob.size, files + 1, number))
        shards[number].append(blob)
    if len(blobs) <= _REFINED:
        _refine(shards)
    return [sorted(blob.name for blob in shard) for shard in shards]


def quality_of(blobs: Sequence[Sized], shards: Sequence[Sequence[str]]) -> Quality:
    """Return how good a division is, compared with the lower bound of ``bound_of``."""
    sizes = {blob.name: blob.size for blob in blobs}
    largest = max((sum(sizes[name] for name in shard) for shard in shards), default=0)
    return Quality(largest, bound_of([blob.size for blob in blobs], len(shards)))


def bound_of(sizes: Sequence[int], count: int) -> int:
    """Return a lower bound for the bytes of the largest of ``count`` shards.

    It is at least the mean. And of the k * count + 1 largest files, some shard gets at least k + 1, which have at least
    the size of the k + 1 smallest of these files.
    """
    ordered = sorted(sizes, reverse=True)
    if not ordered:
        return 0
    until = [0, *itertools.accumulate(ordered)]
    mean = -(-until[-1] // count)
    crowded = (until[turn * count + 1] - until[turn * count - turn] for turn in range((len(ordered) - 1) // count + 1))
    return max(mean, *crowded)


def _refine(shards: list[list[Sized]]) -> None:
    """Exchange files between the largest and the smallest shard while that makes the largest one smaller."""
    used = [sum(blob.size for blob in shard) for shard in shards]
    for _step in range(_SWAPS):
        high = max(range(len(shards)), key=lambda number: (used[number], -number))
        low = min(range(len(shards)), key=lambda number: (used[number], number))
        gap = used[high] - used[low]
        if gap * _GOOD_ENOUGH <= used[high]:
            return
        best = _best_exchange(shards[high], shards[low], gap)
        if best is None:
            return
        moved = best.given.size - _size(best.received)
        shards[high].remove(best.given)
        shards[low].append(best.given)
        if best.received:
            shards[low].remove(best.received)
            shards[high].append(best.received)
        used[high] -= moved
        used[low] += moved


@dataclass(frozen=True)
class _Exchange:
    """A file to move to the other shard, and one to move back in exchange, or None."""

    given: Sized
    received: Sized | None


def _best_exchange(high: Sequence[Sized], low: Sequence[Sized], gap: int) -> _Exchange | None:
    """Return the exchange that makes the two shards most equal; None if none reduces the difference."""
    givers = sorted(high, key=lambda one: (one.size, one.name))
    receivers: list[Sized | None] = [None, *sorted(low, key=lambda one: (one.size, one.name))]
    best: _Exchange | None = None
    closest = gap
    index = 0
    for given in givers:
        # Both lists are sorted, so the best partner of a larger file is never a smaller one.
        largest = given.size - gap / 2
        while index + 1 < len(receivers) and _size(receivers[index + 1]) <= largest:
            index += 1
        for at in (index, index + 1):
            if at < len(receivers):
                received = receivers[at]
                moved = given.size - _size(received)
                away = abs(2 * moved - gap)
                if 0 < moved < gap and (best is None or away < closest):
                    best, closest = _Exchange(given, received), away
    return best


def _size(blob: Sized | None) -> int:
    return blob.size if blob else 0


_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
_MOST_GROUPS = 100_000


class PatternError(ValueError):
    """The pattern is invalid; the message describes a valid one."""


def groups_of(pattern: str) -> list[str]:
    """Return the patterns of the groups: one for each number of the range in braces, or the pattern itself.

    :raises PatternError: it has more than one range, or an invalid range.
    """
    if not pattern or "/" in pattern or ";" in pattern:
        raise PatternError(f"{pattern!r} is not a valid pattern of file names: '/' and ';' are not allowed.")
    ranges = list(_RANGE.finditer(pattern))
    if not ranges:
        return [pattern]
    if len(ranges) > 1:
        raise PatternError(f"{pattern!r} has {len(ranges)} ranges: only one is allowed, such as '*_{{000..063}}.gz'.")
    first, last = ranges[0][1], ranges[0][2]
    if int(last) < int(first) or int(last) - int(first) >= _MOST_GROUPS:
        raise PatternError(f"{ranges[0][0]} is not ascending, or has more than {_MOST_GROUPS} numbers.")
    start, end = pattern[: ranges[0].start()], pattern[ranges[0].end() :]
    return [f"{start}{number:0{len(first)}d}{end}" for number in range(int(first), int(last) + 1)]


def groups_for(groups: list[str], number: int, count: int) -> list[str]:
    """Return the groups of shard ``number`` of ``count``: consecutive ones, divided as evenly as possible."""
    return groups[number * len(groups) // count : (number + 1) * len(groups) // count]


def matching(names: Iterable[str], patterns: Iterable[str]) -> list[str]:
    """Return the names whose last part matches a pattern as azcopy does: ``*`` is the only wildcard."""
    alternatives = "|".join(".*".join(re.escape(piece) for piece in pattern.split("*")) for pattern in patterns)
    if not alternatives:
        return []
    form = re.compile(f"(?:{alternatives})", re.DOTALL)
    return [name for name in names if form.fullmatch(name.rpartition("/")[2])]
