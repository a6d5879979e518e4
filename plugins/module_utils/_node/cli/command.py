# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What a sub-command of hpcnode is, and what it answers."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Callable

from ..forms import LONGEST_S, check_seconds

GOOD, BAD, UNKNOWN, USAGE = 0, 1, 2, 3
"""Exit statuses: as it should be (or done), not so (or failed), could not tell, wrong usage."""


def seconds(text: str) -> float:
    """Return the seconds that an argument gives, 0 or more; a type for argparse.

    :raises argparse.ArgumentTypeError: it gives none.
    """
    try:
        return check_seconds("it", float(text), zero=True)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0 to {LONGEST_S}") from None


class UsageError(ValueError):
    """Arguments that make no sense together; exit status 3."""


@dataclass(frozen=True)
class Answer:
    """What a sub-command found.

    :ivar status: GOOD, BAD or UNKNOWN.
    :ivar text: for people, without a newline at its end.
    :ivar data: the same for programs, what ``--json`` prints; nothing in it needs the text to be understood.
    """

    status: int
    text: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Command:
    """A sub-command.

    :ivar name: how it is called.
    :ivar summary: one line, for the list of commands.
    :ivar description: paragraphs, for its own ``--help``: what it does, reads, writes, and what each exit status means.
    :ivar add_arguments: declares its arguments; ``--json`` and ``--root`` are there already.
    :ivar execute: does it. A ``UsageError`` it raises becomes exit status 3, ``CommandFailed`` and ``OSError`` BAD,
        ``ConfigError`` UNKNOWN.
    """

    name: str
    summary: str
    description: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    execute: Callable[[argparse.Namespace], Answer]


def is_journal() -> bool:
    """Whether the journal reads what is written to standard output (systemd.exec(5), JOURNAL_STREAM)."""
    try:
        here = os.fstat(sys.stdout.fileno())
    except (OSError, ValueError):
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{here.st_dev}:{here.st_ino}"
