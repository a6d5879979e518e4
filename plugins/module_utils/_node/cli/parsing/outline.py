# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The commands, actions and options of the parser as plain values, for manual pages and completion in shells."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from .parser import Parser

_FILES, _FOLDERS = ("FILE", "PATH"), ("DIR", "FOLDER")


@dataclass(frozen=True)
class Argument:
    """An option, or a word without a name.

    :ivar names: the option's names; empty for a word.
    :ivar value: placeholder of the value; empty for an option without one.
    :ivar help: one line, without a full stop.
    :ivar words: values that a shell suggests.
    :ivar needed: whether it must be given.
    :ivar several: whether more than one value can be given.
    """

    names: tuple[str, ...]
    value: str
    help: str
    words: tuple[str, ...]
    needed: bool
    several: bool

    @property
    def is_file(self) -> bool:
        """Whether the value is a file."""
        return self.value in _FILES

    @property
    def is_folder(self) -> bool:
        """Whether the value is a folder."""
        return self.value in _FOLDERS


@dataclass(frozen=True)
class Outline:
    """A command or an action, or hpcnode itself.

    :ivar path: the words that call it, after ``hpcnode``.
    :ivar summary: one line.
    :ivar description: paragraphs.
    :ivar arguments: its own arguments.
    :ivar common: the options that all commands have.
    :ivar branches: its commands or actions.
    :ivar default: the name of the action that runs if none is named.
    """

    path: tuple[str, ...]
    summary: str
    description: str
    arguments: tuple[Argument, ...]
    common: tuple[Argument, ...]
    branches: tuple[Outline, ...]
    default: str

    @property
    def name(self) -> str:
        """The last word of the path."""
        return self.path[-1]

    def everything(self) -> Iterator[Outline]:
        """Yield this and all below it."""
        yield self
        for branch in self.branches:
            yield from branch.everything()


def outline(parser: Parser, path: tuple[str, ...] = (), summary: str = "") -> Outline:
    """Return the outline of a parser."""
    branches = parser.branches
    # argparse knows the summaries of listed branches only.
    listed = {one.dest: one.help or "" for one in branches._choices_actions} if branches else {}
    shown = [one for one in parser._actions if one.help != argparse.SUPPRESS and one is not branches]
    return Outline(
        path,
        summary,
        parser.description or "",
        tuple(_argument(one, parser) for one in shown if one not in parser.common),
        tuple(_argument(one, parser) for one in shown if one in parser.common),
        tuple(outline(branches.choices[name], (*path, name), words) for name, words in listed.items())
        if branches
        else (),
        parser.default_name,
    )


def _argument(action: argparse.Action, parser: Parser) -> Argument:
    words = vars(action).get("suggested") or action.choices or ()
    value = ""
    if action.nargs != 0:
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        value = metavar or (f"{{{','.join(words)}}}" if words else action.dest.upper())
    return Argument(
        tuple(action.option_strings),
        value,
        (action.help or "") % {**vars(action), "prog": parser.prog},
        tuple(words),
        action.required,
        action.nargs == "*" or isinstance(action, argparse._AppendAction),
    )
