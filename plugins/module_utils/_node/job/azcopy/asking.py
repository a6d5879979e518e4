# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""How azcopy is told which blobs to bring.

With a list of files it asks for each of them before it brings the first 10,000, one after the other. Where it is told
by an expression it lists the container, 5,000 blobs a request, which costs less where that is known to be small.
"""

from __future__ import annotations

from collections.abc import Sequence

_BLOBS_A_REQUEST = 5000
# Linux takes 128 KiB in one argument.
_LONGEST_EXPRESSION = 120_000
_PLAIN = frozenset("/-_, =@~!#%&'\"<>:")


def filter_for(names: Sequence[str], listed: int, patterns: Sequence[str] = ()) -> list[str] | None:
    """Return the words that make azcopy list the container and bring these; None where a list of files is better.

    :param listed: how many blobs there are below the place; 0 if nobody knows.
    :param patterns: of file names, that stand for exactly these among the blobs.
    """
    if patterns:
        return ["--recursive", "--include-pattern", ";".join(patterns)]
    if not listed or listed / _BLOBS_A_REQUEST + 1 > len(names):
        return None
    if listed == len(names):
        return ["--recursive"]
    expression = f"^(?:{'|'.join(map(_literal, names))})$"
    return ["--recursive", "--include-regex", expression] if len(expression.encode()) <= _LONGEST_EXPRESSION else None


def _literal(name: str) -> str:
    """The expression for a name itself. A ';' would end it for azcopy, so what is not plain stands as its number."""
    return "".join(char if char.isalnum() or char in _PLAIN else f"\\x{{{ord(char):x}}}" for char in name)
