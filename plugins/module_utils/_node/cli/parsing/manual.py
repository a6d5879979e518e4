# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Manual pages of hpcnode, in the macros of man(7): one for hpcnode, and one per command with all of its actions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from ...setup.tools.layout import MARK
from ...version import VERSION
from ..command import PROGRAM
from .outline import Argument, Outline
from .parser import FILES, STATUSES

# Without these, groff prints typographic quotes, accents and hyphens, which a shell does not understand.
_ESCAPES = str.maketrans(
    {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", '"': "\\(dq", "^": "\\(ha", "~": "\\(ti"}
)
_TERM = re.compile(r"\s+(\S+)\s{2,}(\S.*)")


def roff(text: str, bold: bool = False) -> str:
    """Return a text as roff, which shows it as it is."""
    escaped = text.translate(_ESCAPES)
    escaped = f"\\&{escaped}" if escaped.startswith(".") else escaped
    return f"\\fB{escaped}\\fR" if bold else escaped


def manual_pages(outline: Outline) -> dict[str, str]:
    """Return the pages by file name."""
    pages = {f"{PROGRAM}.1": _page(outline, _of_program(outline))}
    for command in outline.branches:
        pages[f"{PROGRAM}-{command.name}.1"] = _page(command, _of_command(command))
    return pages


def _page(node: Outline, lines: Iterable[str]) -> str:
    title = "-".join((PROGRAM, *node.path))
    # Without hyphenation and justification, which would tear names of variables and pad commands.
    setup = [".nh", ".ad l"]
    head = [f'.\\" {MARK}', f'.TH {title.upper()} 1 "" "{PROGRAM} {VERSION}" "hpcai.azure"', *setup, ".SH NAME"]
    summary = node.summary or "the node command of hpcai.azure"
    # The hyphen after the name is what whatis(1) looks for.
    return "\n".join([*head, f"{roff(title)} \\- {roff(summary)}", *lines, ""])


def _of_program(outline: Outline) -> Iterator[str]:
    yield from _synopsis([outline])
    yield from [".SH DESCRIPTION", *_paragraphs(outline.description)]
    yield ".SH COMMANDS"
    for command in outline.branches:
        yield from [".TP", roff(f"{PROGRAM} {command.name}", bold=True), roff(command.summary)]
    yield from _options(".SH OPTIONS", [*outline.arguments, *outline.common])
    yield from _table("EXIT STATUS", STATUSES)
    yield from _table("FILES", FILES)
    yield from _see(f"{PROGRAM}-{command.name}" for command in outline.branches)


def _of_command(command: Outline) -> Iterator[str]:
    yield from _synopsis(command.branches or [command])
    yield from [".SH DESCRIPTION", *_paragraphs(command.description)]
    yield from _options(".SH OPTIONS", command.arguments)
    if command.branches:
        yield ".SH ACTIONS"
    for action in command.branches:
        yield from [f".SS {roff(' '.join((PROGRAM, *action.path)))}", *_paragraphs(action.description)]
        yield from _options(".PP", action.arguments)
    yield from _options(".SH COMMON OPTIONS", command.common)
    yield from _see([PROGRAM])


def _synopsis(nodes: Iterable[Outline]) -> Iterator[str]:
    yield ".SH SYNOPSIS"
    for number, node in enumerate(nodes):
        if number:
            yield ".br"
        words = [roff(" ".join((PROGRAM, *node.path)), bold=True)]
        needed = [one for one in node.arguments if one.needed and one.names]
        optional = [one for one in node.arguments if not one.needed and one.names]
        words += [_named(one) for one in needed]
        if optional or node.common:
            words.append("[\\fIOPTION\\fR ...]")
        words += [_word(one) for one in node.arguments if not one.names]
        if node.branches:
            words.append("\\fICOMMAND\\fR ...")
        yield " ".join(words)


def _named(argument: Argument) -> str:
    names = ", ".join(roff(name, bold=True) for name in argument.names)
    return f"{names} \\fI{roff(argument.value)}\\fR" if argument.value else names


def _word(argument: Argument) -> str:
    word = f"\\fI{roff(argument.value)}\\fR" + (" ..." if argument.several else "")
    return word if argument.needed and not argument.several else f"[{word}]"


def _options(heading: str, arguments: Iterable[Argument]) -> Iterator[str]:
    listed = list(arguments)
    if not listed:
        return
    yield heading
    for one in sorted(listed, key=lambda argument: bool(argument.names)):
        yield from [".TP", _named(one) if one.names else _word(one), roff(one.help)]


def _paragraphs(text: str) -> Iterator[str]:
    """Yield a description. A paragraph with an indented line is an example or a list, as in the pages of help."""
    for number, paragraph in enumerate(text.strip("\n").split("\n\n")):
        lines = paragraph.splitlines()
        terms = [_TERM.fullmatch(line) for line in lines]
        if not any(line.startswith(" ") for line in lines):
            yield from [*([".PP"] if number else []), roff(" ".join(lines))]
        elif all(terms):
            for term in filter(None, terms):
                yield from [".TP", roff(term[1], bold=True), roff(term[2])]
        else:
            yield from [".PP", ".nf", *(roff(line) for line in lines), ".fi"]


def _table(heading: str, lines: Mapping[str, str]) -> Iterator[str]:
    yield f".SH {heading}"
    for term, words in lines.items():
        yield from [".TP", roff(term, bold=True), roff(words)]


def _see(names: Iterable[str]) -> Iterator[str]:
    yield ".SH SEE ALSO"
    yield ",\n".join(f".BR {roff(name)} (1)" for name in names)
