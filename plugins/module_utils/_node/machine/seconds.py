# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A time that a user gives: a number of seconds that a program can wait."""

from __future__ import annotations

LONGEST_S = 86400
"""A day. Python's waits fail on infinity and on numbers that are much larger, and nobody waits so long."""


def check_seconds(name: str, value: object, zero: bool = False) -> float:
    """Return the seconds as a number.

    :param name: what the option is called.
    :param zero: whether 0 is one: not to wait.
    :raises ValueError: it is no number, infinite, or out of range.
    """
    number = -1.0 if isinstance(value, bool) or not isinstance(value, (int, float)) else float(value)
    # Not a number compares as false with everything.
    if not ((number >= 0 if zero else number > 0) and number <= LONGEST_S):
        least = "from 0" if zero else "above 0"
        raise ValueError(f"{name} is {value!r}: give seconds {least}, at most {LONGEST_S}")
    return number
