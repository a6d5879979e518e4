# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What only a terminal shows: colours, and a line with the step that is running."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from typing import Callable, TextIO

from .command import PROGRAM

_RED, _GREEN, _YELLOW, _MAGENTA, _BOLD, _END = (f"\033[{number}m" for number in (31, 32, 33, 35, 1, 0))
_OF_WORDS = {
    "pass": _GREEN,
    "warn": _YELLOW,
    "warning": _YELLOW,
    "fail": _RED,
    "failed": _RED,
    "refused": _RED,
    "wrong": _RED,
    "unknown": _MAGENTA,
}
# A verdict begins a line, or follows one name and a colon, or is in the second column of a table.
_VERDICT = re.compile(rf"^(\s*(?:[\w.-]+(?:: |\s{{2,}}))?)({'|'.join(_OF_WORDS)})(?=[:, ]|$)", re.MULTILINE)
_HEADING = re.compile(r"^(?:usage|[a-z][a-z ]*):(?=\s|$)", re.MULTILINE)


# Control characters except tabulator and line feed.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _is_a_tty(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def is_terminal(stream: TextIO) -> bool:
    """Return whether the stream is a terminal that understands escape sequences."""
    return _is_a_tty(stream) and os.environ.get("TERM", "dumb") != "dumb"


def harmless(text: str, stream: TextIO) -> str:
    """Return a text that sends no command to a terminal, because a user may have chosen the name of a file in it."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text) if _is_a_tty(stream) else text


def is_coloured(stream: TextIO) -> bool:
    """Return whether the stream is a terminal with colours, and NO_COLOR (no-color.org) is not set."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def paint(text: str, stream: TextIO) -> str:
    """Return an answer with coloured verdicts, or unchanged if the stream has no colours."""
    if not is_coloured(stream):
        return text
    return _VERDICT.sub(lambda found: f"{found[1]}{_OF_WORDS[found[2]]}{found[2]}{_END}", text)


def paint_page(text: str, stream: TextIO) -> str:
    """Return a page of help with bold headings, or unchanged if the stream has no colours."""
    return _HEADING.sub(lambda found: f"{_BOLD}{found[0]}{_END}", text) if is_coloured(stream) else text


def paint_error(text: str, stream: TextIO) -> str:
    """Return the beginning of an error message in red, or unchanged if the stream has no colours."""
    return f"{_RED}{text}{_END}" if is_coloured(stream) else text


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
