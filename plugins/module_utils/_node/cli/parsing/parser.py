# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The parser of hpcnode: commands, their actions, and the options of each; also what help pages look like.

Manual pages and completion in shells are generated from this parser.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from ..command import PROGRAM, Command, UsageError
from ..terminal import paint_page

DESCRIPTION = """\
hpcnode shows what an Azure HPC or AI virtual machine has and how it is configured, and configures it at boot. It is the
same code as the modules of the Ansible collection hpcai.azure, and needs neither Ansible nor a network.

systemd starts it at boot through hpcai-boot.target.

The options below can also follow the command. 'hpcnode COMMAND --help' describes a command, 'hpcnode COMMAND ACTION
--help' one of its actions.
"""
STATUSES = {
    "0": "Good: everything is correct, or was done.",
    "1": "Bad: something is wrong, or failed.",
    "2": "Unknown: hpcnode could not find out.",
    "3": "Wrong usage; nothing was done.",
}
FILES = {
    "/etc/hpcai/*.json": "This node's settings. Ansible writes them, hpcnode reads them.",
    "/var/lib/hpcai": "State that survives reboots.",
    "/run/hpcai": "State until the next reboot.",
    "/usr/lib/hpcai": "hpcnode itself, installed by the module hpcai.azure.node_tools.",
}


def _listed(heading: str, lines: Mapping[str, str]) -> str:
    width = max(map(len, lines))
    return "\n".join([f"{heading}:\n", *(f"  {term.ljust(width)}  {words}" for term, words in lines.items())])


EPILOG = f"{_listed('exit status', STATUSES)}\n\n{_listed('files', FILES)}\n"


class Help(argparse.HelpFormatter):
    """A help formatter, at most 80 columns wide, that keeps the paragraphs, lists and examples of descriptions."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=min(80, max(40, shutil.get_terminal_size().columns)))

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(self._paragraph(one.splitlines(), width) for one in text.strip("\n").split("\n\n"))

    @staticmethod
    def _paragraph(lines: Sequence[str], width: int) -> str:
        """Fill a paragraph. One with an indented line is an example or a list, and keeps its lines; in a list only the
        text beside a term is filled."""
        if not any(line.startswith(" ") for line in lines):
            lines = [" ".join(lines)]
        terms = [re.match(r"\s+\S+\s{2,}(?=\S)", line) for line in lines]
        return "\n".join(
            line
            if line.startswith(" ") and not term
            else textwrap.fill(
                line,
                width,
                subsequent_indent=" " * (term.end() if term else 0),
                break_long_words=False,
                break_on_hyphens=False,
            )
            for line, term in zip(lines, terms)
        )


class Parser(argparse.ArgumentParser):
    """An argument parser with the options that all commands have, and our exit status for wrong usage.

    :ivar common: the options that all commands have.
    :ivar default_name: the name of the action that runs if none is named.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        frame = {"allow_abbrev": False, "add_help": False, "formatter_class": Help, "epilog": EPILOG}
        super().__init__(*args, **{**frame, **kwargs})
        # Python 3.14 would colour the pages in its own way.
        self.color = False
        # Before Python 3.10 argparse calls them "optional arguments".
        self._optionals.title = "options"
        self._mixing = False
        self.default_name = ""
        self._options_for_names: Mapping[str, str] = {}
        # Suppressed, because a command's parser would otherwise overwrite an option given before the command.
        given: dict[str, Any] = {"default": argparse.SUPPRESS}
        self._common_group = self.add_argument_group("common options")
        add = self._common_group.add_argument
        self.common: tuple[argparse.Action, ...] = (
            add("-h", "--help", action="help", help="show this page", **given),
            add("--json", action="store_true", help="answer with one JSON object", **given),
            add("--root", metavar="DIR", help="read the machine's files below DIR, not below /", **given),
            add("--debug", action="store_true", help="show where in the code an error arose", **given),
        )

    @property
    def branches(self) -> argparse._SubParsersAction[Parser] | None:
        """The commands or actions, with their parsers; None if there are none."""
        return next((one for one in self._actions if isinstance(one, argparse._SubParsersAction)), None)

    @property
    def shown_options(self) -> dict[str, argparse.Action]:
        """The options that this parser really has, by name."""
        return {text: one for text, one in self._option_string_actions.items() if one.help != argparse.SUPPRESS}

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse options before, between and after the other words, which argparse does not do by default."""
        if self._mixing:
            return super().parse_known_args(args, namespace)
        words = list(sys.argv[1:] if args is None else args)
        branches = self.branches
        if branches is not None:
            return super().parse_known_args(self._name_first(words, branches), namespace)
        # A final "--" without words after it would be left over.
        words = words[:-1] if words[-1:] == ["--"] else words
        # argparse would first report missing options, of which a misspelt one may be the cause.
        options = words[: words.index("--")] if "--" in words else words
        unknown = [
            one for one in options if one.startswith("--") and one.partition("=")[0] not in self._option_string_actions
        ]
        if unknown:
            self._refuse(unknown, self.shown_options)
        self._mixing = True
        try:
            # This may call parse_known_args again.
            found, left = self.parse_known_intermixed_args(words, namespace)
        finally:
            self._mixing = False
        if left:
            self._refuse(left, self.shown_options)
        return found, left

    def _name_first(self, words: list[str], branches: argparse._SubParsersAction[Parser]) -> list[str]:
        """Return the words with the action's name first, so that its options may precede it.

        A command's name is where argparse expects it: only options of all commands may precede it.
        """
        is_root = self.prog == PROGRAM
        position = self._place_of_name(words, [self] if is_root else [self, *branches.choices.values()])
        if position is None:
            if is_root or {"-h", "--help"} & {*words}:
                return words
            instead = [name for option, name in self._options_for_names.items() if option in words]
            name = instead[0] if instead else self.default_name
            if not name:
                self.error(f"say what to do: {', '.join(_listed_names(branches))}")
            return [name, *words]
        name = words[position]
        if name not in branches.choices:
            kind, names = "command" if is_root else "action", _listed_names(branches)
            advice = guess(name, names) or f": the {kind}s are {', '.join(names)}"
            self.error(f"there is no {kind} {name}{advice}")
        return words if is_root else [name, *words[:position], *words[position + 1 :]]

    def _place_of_name(self, words: list[str], parsers: Iterable[Parser]) -> int | None:
        """Return the index of the first word that is neither an option nor its value; None if there is none."""
        options = {text: one for parser in parsers for text, one in parser.shown_options.items()}
        number = 0
        while number < len(words):
            word, equals, _value = words[number].partition("=")
            if word == "--":
                return number + 1 if number + 1 < len(words) else None
            if not word.startswith("-"):
                return number
            if word not in options:
                self._refuse([words[number]], options)
            number += 1 if equals or options[word].nargs == 0 else 2
        return None

    def _refuse(self, left: Sequence[str], known: Iterable[str]) -> NoReturn:
        option = next((word.partition("=")[0] for word in left if word.startswith("--")), "")
        self.error(f"unrecognized arguments: {' '.join(left)}{guess(option, known)}")

    def error(self, message: str) -> NoReturn:
        """Raise a UsageError, where argparse would exit with 2."""
        raise UsageError(f"{message} (see '{self.prog} --help')")

    def format_help(self) -> str:
        """Return the page, with the options that all commands have at its end."""
        self._action_groups.sort(key=lambda group: group is self._common_group)
        return super().format_help()

    def print_help(self, file: Any = None) -> None:
        """Print the page, on a terminal with colours."""
        stream = sys.stdout if file is None else file
        stream.write(paint_page(self.format_help(), stream))


def _listed_names(branches: argparse._SubParsersAction[Parser]) -> list[str]:
    """Return the names that help shows."""
    return [one.dest for one in branches._choices_actions]


def guess(word: str, known: Iterable[str]) -> str:
    """Return a question about the names that were probably meant: those that start with the word, and similar ones.

    It is empty if there is no such name.
    """
    # Imported here, because only an error needs it.
    from difflib import get_close_matches

    # Without the dashes, which all options have in common.
    names = {name.lstrip("-"): name for name in known}
    bare = word.lstrip("-")
    longer = [name for name in names if bare and name.startswith(bare)]
    near = [names[name] for name in dict.fromkeys([*longer, *get_close_matches(bare, names)])]
    words = " or ".join(filter(None, (", ".join(near[:-1]), *near[-1:])))
    return f": did you mean {words}?" if near else ""


class _OfOtherAction(argparse.Action):
    """An option that only other actions of the command have."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option_string: str | None = None
    ) -> None:
        """Refuse the option, or ignore it with a warning."""
        actions, is_ignored = self.const
        command, _space, action = parser.prog.rpartition(" ")
        words = f"{option_string} goes with {', '.join(actions)}, not with {action}"
        if not is_ignored:
            raise UsageError(f"{words} (see '{parser.prog} --help')")
        sys.stderr.write(f"{command}: ignored: {words}\n")


def _add_actions(parser: Parser, command: Command) -> None:
    branches = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", parser_class=Parser)
    parser.default_name = command.default
    parser._options_for_names = {action.option: action.name for action in command.actions if action.option}
    made: dict[str, Parser] = {}
    for action in command.actions:
        # argparse lists only those with a help text.
        suffix = " (the default)" if action.name == command.default else ""
        shown: dict[str, Any] = {"help": f"{action.summary}{suffix}"} if action.listed else {}
        sentence = f"{action.summary[:1].upper()}{action.summary[1:]}."
        made[action.name] = branches.add_parser(action.name, description=action.description or sentence, **shown)
        action.add_arguments(made[action.name])
        if action.option:
            made[action.name].add_argument(action.option, action="store_true", help=f"the same as {action.name}")
    owners: dict[str, list[str]] = {}
    for name, leaf in made.items():
        for text in leaf._option_string_actions:
            owners.setdefault(text, []).append(name)
    options = {text: option for leaf in made.values() for text, option in leaf._option_string_actions.items()}
    for leaf in made.values():
        for text in [text for text in options if text not in leaf._option_string_actions]:
            leaf.add_argument(
                text,
                action=_OfOtherAction,
                nargs=options[text].nargs,
                const=(owners[text], command.ignores and text not in command.refuses),
                default=argparse.SUPPRESS,
                help=argparse.SUPPRESS,
            )


def build_parser(commands: Sequence[Command]) -> Parser:
    """Return the parser of hpcnode with these sub-commands."""
    parser = Parser(PROGRAM, description=DESCRIPTION)
    parser.set_defaults(json=False, root="/", debug=False, command=None)
    parser.add_argument("--version", action="store_true", help="show the version")
    if commands:
        branches = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)
        for command in commands:
            branch = branches.add_parser(command.name, help=command.summary, description=command.description)
            branch.set_defaults(command=command)
            if command.actions:
                _add_actions(branch, command)
            else:
                command.add_arguments(branch)
    return parser
