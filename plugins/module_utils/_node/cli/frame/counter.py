# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A line on a terminal that shows which step of how many is running."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Callable

from .colours import is_terminal
from .parser import PROGRAM

_CLEAR = "\r\033[K"

Show = Callable[[str, int, int], None]
"""Shows a step's name, its number from 1, and the number of steps."""


@contextlib.contextmanager
def counter(command: str, what: str, as_json: bool) -> Iterator[Show]:
    """Yield a function that shows the running step on standard error. The line disappears at the end.

    It shows nothing if standard error is not a terminal, or if a program reads the answer.

    :param command: the sub-command.
    :param what: what is counted, such as ``check``.
    """
    if as_json or not is_terminal(sys.stderr):
        yield lambda _name, _number, _of: None
        return

    def show(name: str, number: int, of: int) -> None:
        sys.stderr.write(f"{_CLEAR}{PROGRAM} {command}: {what} {number} of {of}: {name}")
        sys.stderr.flush()

    try:
        yield show
    finally:
        sys.stderr.write(_CLEAR)
        sys.stderr.flush()
