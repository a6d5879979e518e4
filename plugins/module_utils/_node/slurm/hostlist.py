# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Slurm's host list notation: ``compute-[0,3-5]`` for many names in one word."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

# Slurm's own parser (hostlist.c) treats a suffix of up to 18 digits as a number.
_NUMBERED = re.compile(r"^(?P<prefix>.*?)(?P<number>[0-9]{1,18})$")


class HostlistError(ValueError):
    """A text that is not a host list."""


def compress(names: Iterable[str]) -> str:
    """Return ``names`` as one host list, in the same order.

    The order is kept because Slurm pairs the lists of one line by position (NodeName, NodeAddr, NodeHostname). Only
    consecutive names are folded. Sort first if a short list is more important than the order.
    """
    words: list[str] = []
    for (prefix, width), group in groupby((_split(name) for name in names), key=lambda parts: (parts[0], parts[2])):
        numbers = [number for _prefix, number, _width in group]
        if width is None or len(numbers) == 1:
            words.extend(f"{prefix}{number}" for number in numbers)
        else:
            words.append(f"{prefix}[{','.join(_ranges(numbers))}]")
    return ",".join(words)


def expand(hostlist: str) -> list[str]:
    """Return the names in ``hostlist``, in order.

    :raises HostlistError: it has a malformed bracket or range.
    """
    names: list[str] = []
    for word in _words(hostlist):
        match = re.fullmatch(r"([^\[\]]*)(?:\[([0-9,\-]+)\]([^\[\]]*))?", word)
        if match is None:
            raise HostlistError(f"{word!r} in host list {hostlist!r}: a name can have only one bracket of numbers.")
        prefix, ranges, suffix = match.groups()
        if ranges is None:
            names.append(prefix)
        else:
            names.extend(f"{prefix}{number}{suffix}" for number in _numbers(ranges, hostlist))
    return names


def _split(name: str) -> tuple[str, str, int | None]:
    match = _NUMBERED.match(name)
    if match is None:
        return name, "", None
    number = match["number"]
    # Numbers without leading zeros can be folded whatever their width; with leading zeros, only those of one width.
    return match["prefix"], number, len(number) if number.startswith("0") and number != "0" else 0


def _ranges(numbers: list[str]) -> Iterator[str]:
    start = previous = numbers[0]
    for number in [*numbers[1:], None]:
        if number is not None and int(number) == int(previous) + 1:
            previous = number
            continue
        yield start if start == previous else f"{start}-{previous}"
        if number is not None:
            start = previous = number


def _words(hostlist: str) -> list[str]:
    """Split at the commas outside brackets."""
    words = re.findall(r"(?:[^,\[]|\[[^\]]*\])+", hostlist)
    if ",".join(words) != hostlist.strip(","):
        raise HostlistError(f"host list {hostlist!r} is malformed near a bracket or an empty name.")
    return words


def _numbers(ranges: str, hostlist: str) -> Iterator[str]:
    for word in ranges.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", word)
        if match is None or (match[2] is not None and int(match[2]) < int(match[1])):
            raise HostlistError(f"range {word!r} in host list {hostlist!r} is malformed.")
        first, last = match[1], match[2] or match[1]
        for number in range(int(first), int(last) + 1):
            yield str(number).zfill(len(first))
