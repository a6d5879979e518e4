# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A block of lines of ours in a file that others write too. All bytes outside the block stay as they are."""

from __future__ import annotations

from collections.abc import Sequence


class BrokenBlock(ValueError):
    """The block's first or last line is missing or out of place: where our lines end cannot be told."""


def with_block(text: str, name: str, lines: Sequence[str]) -> str:
    """Return the file's text with one block of these lines at its top, and no other block of this name.

    At the top, so that the block needs no end of line before it, and because of several lines for one variable readers
    such as NCCL take the first.

    :param name: what stands in the block's first and last line; without an equals sign, which would make old NCCLs
        read that line as a variable.
    :raises BrokenBlock: the block that is there has no end or no beginning.
    """
    block = [_begin(name), *lines, _end(name)]
    return "".join(f"{line}\n" for line in block) + without_block(text, name)


def without_block(text: str, name: str) -> str:
    """Return the file's text without any block of this name.

    :raises BrokenBlock: a block that is there has no end or no beginning.
    """
    return "".join(_split(text, name)[0])


def block_lines(text: str, name: str) -> list[str]:
    """Return the lines of the block of this name; none if there is no block.

    :raises BrokenBlock: a block that is there has no end or no beginning.
    """
    return [line.rstrip("\r\n") for line in _split(text, name)[1]]


def _split(text: str, name: str) -> tuple[list[str], list[str]]:
    """Return the lines outside of the block and those inside."""
    kept: list[str] = []
    inside: list[str] = []
    begun = 0
    for number, line in enumerate(_lines(text), start=1):
        bare = line.rstrip("\r\n")
        if bare == _begin(name):
            if begun:
                raise BrokenBlock(f"line {number} begins the block {name!r} a second time; line {begun} began it.")
            begun = number
        elif bare == _end(name):
            if not begun:
                raise BrokenBlock(f"line {number} ends the block {name!r}, and no line before it begins it.")
            begun = 0
        else:
            (inside if begun else kept).append(line)
    if begun:
        raise BrokenBlock(f"line {begun} begins the block {name!r}, and no line after it ends it.")
    return kept, inside


def _lines(text: str) -> list[str]:
    # Not splitlines(): that also splits at form feeds and other characters which no reader takes for an end of line.
    return [f"{line}\n" for line in text.split("\n")[:-1]] + [line for line in text.split("\n")[-1:] if line]


def _begin(name: str) -> str:
    return f"# BEGIN {name}"


def _end(name: str) -> str:
    return f"# END {name}"
