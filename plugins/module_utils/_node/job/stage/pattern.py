# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Shards by the names of a data set whose files come in numbered groups: '*_{000..063}.tfrecord.gz'."""

from __future__ import annotations

import re
from collections.abc import Iterable

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
    alternatives = "|".join(".*".join(re.escape(part) for part in pattern.split("*")) for pattern in patterns)
    if not alternatives:
        return []
    form = re.compile(f"(?:{alternatives})", re.DOTALL)
    return [name for name in names if form.fullmatch(name.rpartition("/")[2])]
