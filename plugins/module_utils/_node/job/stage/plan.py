# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Which node copies which blobs: balanced by bytes, or by the names of files that come in numbered groups.

The answer is the same whoever computes it.
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
"""A difference of a 2,000th is not worth looking for more."""


class Sized(Protocol):
    """What is divided: something with a name and a size."""

    @property
    def name(self) -> str:
        """How it is called; no two are called the same."""

    @property
    def size(self) -> int:
        """In bytes."""


@dataclass(frozen=True)
class Quality:
    """How good a division is.

    :ivar largest: bytes of the largest shard: the one that all wait for.
    :ivar bound: bytes that no division can do better than.
    """

    largest: int
    bound: int

    @property
    def ratio(self) -> float:
        """How much longer than the best one it could take; 1.0 is the best there is."""
        return self.largest / self.bound if self.bound else 1.0


def shards_of(blobs: Sequence[Sized], count: int) -> list[list[str]]:
    """Return the names for each of ``count`` shards, sorted in each.

    The largest goes first, each to the shard with the fewest bytes, then fewest files. What is left of a difference is
    made smaller by exchanging files between the fullest and the emptiest shard. Nothing hangs on the order in which
    they come.

    :raises ValueError: there is no shard.
    """
    if count < 1:
        raise ValueError(f"{count} shards: there must be one at least.")
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
    """Return how good a division is against what none can beat: the mean, the largest file, two that must share."""
    sizes = {blob.name: blob.size for blob in blobs}
    largest = max((sum(sizes[name] for name in shard) for shard in shards), default=0)
    return Quality(largest, bound_of([blob.size for blob in blobs], len(shards)))


def bound_of(sizes: Sequence[int], count: int) -> int:
    """Return the bytes that the fullest of ``count`` shards has at least.

    With k times as many files as shards, and one more, some shard has k + 1 of these, at the least the smallest ones.
    """
    ordered = sorted(sizes, reverse=True)
    if not ordered:
        return 0
    until = [0, *itertools.accumulate(ordered)]
    mean = -(-until[-1] // count)
    crowded = (until[turn * count + 1] - until[turn * count - turn] for turn in range((len(ordered) - 1) // count + 1))
    return max(mean, *crowded)


def _refine(shards: list[list[Sized]]) -> None:
    """Exchange files between the fullest and the emptiest shard while that makes the fullest one smaller."""
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
    """A file to give, and one to take for it or none."""

    given: Sized
    received: Sized | None


def _best_exchange(high: Sequence[Sized], low: Sequence[Sized], gap: int) -> _Exchange | None:
    """The file to give, and the one to take for it, that bring the two closest together; None if none does."""
    givers = sorted(high, key=lambda one: (one.size, one.name))
    receivers: list[Sized | None] = [None, *sorted(low, key=lambda one: (one.size, one.name))]
    best: _Exchange | None = None
    closest = gap
    index = 0
    for given in givers:
        # Both sorted: the best partner of a larger file is no smaller one.
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
    """A pattern that cannot be used; the message says what one looks like."""


def groups_of(pattern: str) -> list[str]:
    """Return the patterns of the groups: one for each number of the range in braces, or the pattern itself.

    :raises PatternError: it has more than one range, or none that goes up.
    """
    if not pattern or "/" in pattern or ";" in pattern:
        raise PatternError(f"{pattern!r} is no pattern of file names: it has no '/' and no ';' in it.")
    ranges = list(_RANGE.finditer(pattern))
    if not ranges:
        return [pattern]
    if len(ranges) > 1:
        raise PatternError(f"{pattern!r} has {len(ranges)} ranges: it may have one, such as '*_{{000..063}}.gz'.")
    first, last = ranges[0][1], ranges[0][2]
    if int(last) < int(first) or int(last) - int(first) >= _MOST_GROUPS:
        raise PatternError(f"{ranges[0][0]} does not go up, or is longer than {_MOST_GROUPS}.")
    start, end = pattern[: ranges[0].start()], pattern[ranges[0].end() :]
    return [f"{start}{number:0{len(first)}d}{end}" for number in range(int(first), int(last) + 1)]


def groups_for(groups: list[str], number: int, count: int) -> list[str]:
    """Return the groups of shard ``number`` of ``count``: neighbours, as even as it goes."""
    return groups[number * len(groups) // count : (number + 1) * len(groups) // count]


def matching(names: Iterable[str], patterns: Iterable[str]) -> list[str]:
    """Return the names whose last part is of one of the patterns, as azcopy takes them: ``*`` is the only wildcard."""
    alternatives = "|".join(".*".join(re.escape(piece) for piece in pattern.split("*")) for pattern in patterns)
    if not alternatives:
        return []
    form = re.compile(f"(?:{alternatives})", re.DOTALL)
    return [name for name in names if form.fullmatch(name.rpartition("/")[2])]
