# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The help of hpcnode and of its sub-commands, in the sections of a manual page."""

from __future__ import annotations

import argparse
import re
import shutil
import textwrap
from collections.abc import Iterable

WIDEST = 80
"""Columns that a page takes at most, however wide the terminal."""
_INDENT = "    "

EXIT_STATUS = (
    ("0", "Good: all is as it should be, or was done."),
    ("1", "Bad: something is not as it should be, or could not be done."),
    ("2", "Could not tell."),
    ("3", "Wrong usage; nothing was done."),
)
FILES = (
    ("/etc/hpcai/*.json", "This node's settings. Ansible writes them, hpcnode reads them."),
    ("/var/lib/hpcai", "What hpcnode remembers over reboots."),
    ("/run/hpcai", "What it remembers until the next reboot."),
    ("/usr/lib/hpcai", "hpcnode itself, installed by the module hpcai.azure.node_tools."),
)


def width() -> int:
    """Columns to write in."""
    return min(WIDEST, max(40, shutil.get_terminal_size().columns))


def section(title: str, body: str) -> str:
    """A section of a page; nothing if its body is empty."""
    return f"{title}\n{body.rstrip()}\n" if body.strip() else ""


def paragraphs(text: str) -> str:
    """Indented text, each paragraph filled.

    A paragraph with an indented line is an example or a list and keeps its lines. In a list, what stands beside a term
    is filled beside it.
    """
    made = []
    for paragraph in textwrap.dedent(text).strip("\n").split("\n\n"):
        lines = paragraph.splitlines()
        if any(line.startswith(" ") for line in lines):
            made.append("\n".join(_beside_its_term(_INDENT + line) for line in lines))
        else:
            made.append(
                textwrap.fill(
                    " ".join(lines),
                    width(),
                    initial_indent=_INDENT,
                    subsequent_indent=_INDENT,
                    break_long_words=False,
                    break_on_hyphens=False,
                )
            )
    return "\n\n".join(made)


def _beside_its_term(line: str) -> str:
    term = re.match(r"\s+\S+\s{2,}(?=\S)", line)
    if not term or len(line) <= width():
        return line
    hanging = " " * term.end()
    return textwrap.fill(line, width(), subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False)


def terms(pairs: Iterable[tuple[str, str]]) -> str:
    """Terms with what they mean beside them, or below if a term is long."""
    listed = list(pairs)
    column = min(max((len(term) for term, _meaning in listed), default=0), 18) + 2
    made = []
    for term, meaning in listed:
        indent = _INDENT + " " * column
        filled = textwrap.fill(
            meaning,
            width(),
            initial_indent=indent,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        if len(term) + 2 <= column:
            filled = _INDENT + term.ljust(column) + filled[len(indent) :]
        else:
            filled = _INDENT + term + "\n" + filled
        made.append(filled)
    return "\n".join(made)


def options(parser: argparse.ArgumentParser) -> str:
    """The arguments and options of a parser as argparse describes them, without its headings."""
    formatter = argparse.HelpFormatter(parser.prog, indent_increment=len(_INDENT), max_help_position=24, width=width())
    formatter.start_section("")
    for group in parser._action_groups:
        shown = [action for action in group._group_actions if not isinstance(action, argparse._SubParsersAction)]
        formatter.add_arguments(shown)
    formatter.end_section()
    return formatter.format_help().partition("\n")[2].strip("\n")


def synopsis(parser: argparse.ArgumentParser) -> str:
    """How the command is called."""
    formatter = argparse.HelpFormatter(parser.prog, width=width() - len(_INDENT))
    # While it parses options between other words, argparse keeps its own usage here, indented for 'usage: '.
    usage = parser.usage and parser.usage.replace("\n       ", "\n")
    formatter.add_usage(usage, parser._actions, parser._mutually_exclusive_groups, prefix="")
    return textwrap.indent(formatter.format_help().strip("\n"), _INDENT)


def page(
    parser: argparse.ArgumentParser, summary: str, description: str, commands: Iterable[tuple[str, str]] = ()
) -> str:
    """The whole page of a command.

    :param commands: names and summaries of its sub-commands.
    """
    sections = (
        section("NAME", paragraphs(f"{parser.prog.replace(' ', '-')} - {summary}")),
        section("SYNOPSIS", synopsis(parser)),
        section("DESCRIPTION", paragraphs(description)),
        section("COMMANDS", terms(commands)),
        section("OPTIONS", options(parser)),
        section("EXIT STATUS", terms(EXIT_STATUS)),
        section("FILES", terms(FILES)),
    )
    return "\n".join(text for text in sections if text)
