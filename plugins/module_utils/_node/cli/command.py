# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The form of a sub-command of hpcnode, and of its answer."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Callable

from ..forms import LONGEST_S, check_seconds
from ..machine.root import Root

PROGRAM = "hpcnode"

GOOD, BAD, UNKNOWN, USAGE = 0, 1, 2, 3
"""Exit statuses: good or done, bad or failed, not known, wrong usage."""


def seconds(text: str) -> float:
    """Return the seconds in an argument, 0 or more; a type for argparse.

    :raises argparse.ArgumentTypeError: the argument is not a number of seconds.
    """
    try:
        return check_seconds("it", float(text), zero=True)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0 to {LONGEST_S}") from None


class UsageError(ValueError):
    """Wrong or contradictory arguments; exit status 3."""


def require_this_machine(root: Root, what: str) -> None:
    """Refuse ``--root``.

    :param what: the command and its action.
    :raises UsageError: the root is another folder.
    """
    if not root.is_this_machine:
        raise UsageError(f"{what} works on the running machine only: leave out --root")


def add_lock_timeout(parser: argparse.ArgumentParser) -> None:
    """Declare how long to wait for another run that has the lock."""
    words = "seconds to wait until another run ends (60)"
    parser.add_argument("--lock-timeout", type=seconds, default=60, metavar="SECONDS", help=words)


@dataclass(frozen=True)
class Answer:
    """What a sub-command found.

    :ivar status: GOOD, BAD or UNKNOWN.
    :ivar text: the answer for people, without a newline at its end.
    :ivar data: the answer for programs, which ``--json`` prints. It is complete without the text.
    """

    status: int
    text: str
    data: Mapping[str, Any] = field(default_factory=dict)


def no_arguments(_parser: argparse.ArgumentParser) -> None:
    """Declare nothing: a command or an action without arguments of its own."""


@dataclass(frozen=True)
class Action:
    """What a sub-command does, named by the word after it: ``hpcnode stage run``.

    :ivar name: its name on the command line; ``args.action`` contains it.
    :ivar summary: one line, for the list of actions.
    :ivar description: paragraphs for its ``--help``, which also says what each exit status means.
    :ivar add_arguments: declares its arguments.
    :ivar option: an option that can be given instead of the name.
    :ivar listed: whether help, manual pages and shells show it.
    """

    name: str
    summary: str
    description: str = ""
    add_arguments: Callable[[argparse.ArgumentParser], None] = no_arguments
    option: str = ""
    listed: bool = True


@dataclass(frozen=True)
class Command:
    """A sub-command.

    :ivar name: its name on the command line.
    :ivar summary: one line, for the list of commands.
    :ivar description: paragraphs for its ``--help``: what it does, reads and writes, and what each exit status means.
    :ivar add_arguments: declares its arguments, except ``--json`` and ``--root``, which all commands have. A command
        with actions has no arguments of its own.
    :ivar execute: runs it. A ``UsageError`` becomes exit status 3, ``CommandFailed`` and ``OSError`` become BAD,
        ``ConfigError`` becomes UNKNOWN.
    :ivar actions: its actions.
    :ivar default: name of the action that runs if none is named; empty if one must be named.
    :ivar ignores: whether an option of one action is ignored with a warning if it is given to another one, because
        release 0.1.0 ignored it silently and scripts may give it. Otherwise it is refused.
    :ivar refuses: options that are refused nevertheless.
    """

    name: str
    summary: str
    description: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    execute: Callable[[argparse.Namespace], Answer]
    actions: tuple[Action, ...] = ()
    default: str = ""
    ignores: bool = False
    refuses: tuple[str, ...] = ()


def suggest(argument: argparse.Action, words: Iterable[str]) -> None:
    """Have shells complete an argument with these words. Its value is not checked by argparse."""
    vars(argument)["suggested"] = tuple(words)


def is_journal() -> bool:
    """Return whether standard output is connected to the journal (systemd.exec(5), JOURNAL_STREAM)."""
    try:
        here = os.fstat(sys.stdout.fileno())
    except (OSError, ValueError):
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{here.st_dev}:{here.st_ino}"
