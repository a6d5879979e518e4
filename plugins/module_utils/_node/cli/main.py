# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The main program of hpcnode: parses arguments, runs a sub-command, prints its answer, returns an exit status."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import shutil
import sys
import textwrap
import traceback
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from ..machine.config import ConfigError
from ..machine.root import NoRoot, existing_root
from ..machine.run import CommandFailed
from ..version import VERSION
from .command import BAD, GOOD, UNKNOWN, USAGE, Answer, Command, UsageError

if TYPE_CHECKING:
    # For AnsiballZ only, which packs every file that is imported somewhere. The whole node core is installed, also what
    # only modules use, so that one digest shows whether a node has this code.
    from ..health import pair_search  # noqa: F401
    from ..job.beeond import install as beeond_install  # noqa: F401
    from ..job.hooks import install as hooks_install  # noqa: F401
    from ..job.stage import copy  # noqa: F401
    from ..setup import daemon  # noqa: F401
    from ..setup.containers import ensure as containers_ensure  # noqa: F401
    from ..setup.image import generalise, settings  # noqa: F401
    from ..setup.metadata import plan as metadata_plan  # noqa: F401
    from ..setup.shared_fs import exports  # noqa: F401
    from ..setup.users import ensure as users_ensure  # noqa: F401
    from ..slurm import associations, ids, installed, slurmctld, slurmd  # noqa: F401
    from . import (  # noqa: F401
        arbiter,
        beeond,
        boot,
        checkpoint,
        clocks,
        containers,
        events,
        grants,
        health,
        job,
        metadata,
        nccl,
        pins,
        scratch,
        sku,
        slurm,
        stage,
        tools,
    )

PROGRAM = "hpcnode"
SCHEMA = 1
"""Version of the format of ``--json``."""

_JOBS = ("containers", "beeond", "job", "stage", "checkpoint", "events", "metadata", "grants", "slurm", "arbiter")
NAMES = ("sku", "boot", "health", "scratch", "clocks", "nccl", "pins", *_JOBS, "tools")
"""The sub-commands."""

DESCRIPTION = """\
hpcnode shows what an Azure HPC or AI virtual machine has and how it is configured, and configures it at boot. It is the
same code as the modules of the Ansible collection hpcai.azure, and needs neither Ansible nor a network.

systemd starts it at boot through hpcai-boot.target.

The options below can also follow the command. 'hpcnode COMMAND --help' describes a command.
"""
EPILOG = """\
exit status:

  0  Good: everything is correct, or was done.
  1  Bad: something is wrong, or failed.
  2  Unknown: hpcnode could not find out.
  3  Wrong usage; nothing was done.

files:

  /etc/hpcai/*.json  This node's settings. Ansible writes them, hpcnode reads them.
  /var/lib/hpcai     State that survives reboots.
  /run/hpcai         State until the next reboot.
  /usr/lib/hpcai     hpcnode itself, installed by the module hpcai.azure.node_tools.
"""


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
    """An argument parser with the options that all commands have, and our exit status for wrong usage."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        frame = {"allow_abbrev": False, "add_help": False, "formatter_class": Help, "epilog": EPILOG}
        super().__init__(*args, **{**frame, **kwargs})
        self._mixing = False
        # Suppressed, because a command's parser would otherwise overwrite an option given before the command.
        given: dict[str, Any] = {"default": argparse.SUPPRESS}
        self.add_argument("-h", "--help", action="help", help="show this page", **given)
        self.add_argument("--json", action="store_true", help="answer with one JSON object", **given)
        self.add_argument("--root", metavar="DIR", help="read the machine's files below DIR, not below /", **given)
        self.add_argument("--debug", action="store_true", help="show where in the code an error arose", **given)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse options before, between and after the other words, which argparse does not do by default."""
        if self._mixing or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self._mixing = True
        try:
            # This calls parse_known_args again.
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._mixing = False

    def error(self, message: str) -> NoReturn:
        """Raise a UsageError, where argparse would exit with 2."""
        raise UsageError(f"{message} (see '{self.prog} --help')")


def build_parser(commands: Sequence[Command]) -> Parser:
    """Return the parser of hpcnode with these sub-commands."""
    parser = Parser(PROGRAM, description=DESCRIPTION)
    parser.set_defaults(json=False, root="/", debug=False, command=None)
    parser.add_argument("--version", action="store_true", help="show the version")
    if commands:
        branches = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)
        for command in commands:
            branch = branches.add_parser(command.name, help=command.summary, description=command.description)
            command.add_arguments(branch)
            branch.set_defaults(command=command)
    return parser


def all_commands() -> tuple[Command, ...]:
    """Return the sub-commands."""
    return tuple(_load(name) for name in NAMES)


def _load(name: str) -> Command:
    command: Command = importlib.import_module(f".{name}", __package__).COMMAND
    return command


def _needed(words: Sequence[str]) -> tuple[Command, ...]:
    """Return only the called command if it comes first, because importing all would slow down each boot step."""
    return (_load(words[0]),) if words and words[0] in NAMES else all_commands()


def main(argv: Sequence[str] | None = None, commands: Sequence[Command] | None = None) -> int:
    """Run hpcnode and return its exit status.

    :param commands: the sub-commands, for tests.
    """
    for stream in (sys.stdout, sys.stderr):
        # A character that the locale cannot encode must not suppress the rest of the output.
        getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
    words = list(sys.argv[1:] if argv is None else argv)
    # Needed before the arguments are parsed, because errors in the arguments have the same output format.
    as_json, debug = "--json" in words, "--debug" in words
    name = ""
    try:
        args = build_parser(_needed(words) if commands is None else commands).parse_args(words)
        if args.version:
            return write(as_json, "version", GOOD, f"{PROGRAM} {VERSION}", {"version": VERSION})
        if args.command is None:
            raise UsageError(f"no command given (see '{PROGRAM} --help')")
        name = args.command.name
        existing_root(args.root, "--root")
        answer: Answer = args.command.execute(args)
        return write(as_json, name, answer.status, answer.text, answer.data)
    except SystemExit as ended:  # argparse after --help
        return ended.code if isinstance(ended.code, int) else GOOD
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            traceback.print_exc()
        return refuse(as_json, name, error)


def refuse(as_json: bool, name: str, error: BaseException) -> int:
    """Write the error in one line, and return its exit status."""
    # Imported here, because it loads the facts of all VM sizes: a third of the time that a prolog takes.
    from ..sku.lookup import UnknownVmSize

    if isinstance(error, (UsageError, NoRoot)):
        status, message = USAGE, str(error)
    elif isinstance(error, (ConfigError, UnknownVmSize)):
        status, message = UNKNOWN, str(error)
    elif isinstance(error, (CommandFailed, OSError)):
        status, message = BAD, str(error)
    elif isinstance(error, KeyboardInterrupt):
        status, message = UNKNOWN, "interrupted"
    else:
        status = UNKNOWN
        message = f"{type(error).__name__}: {error}: this is a defect of {PROGRAM}; --debug shows where it arose"
    message = " ".join(message.split())
    sys.stderr.write(f"{PROGRAM}{f' {name}' if name else ''}: {message}\n")
    return write(True, name, status, "", {"error": message}) if as_json else status


def write(as_json: bool, name: str, status: int, words: str, data: Mapping[str, Any]) -> int:
    """Write the answer and return its exit status, or UNKNOWN if it could not be written."""
    if as_json:
        reserved = {"schema", "command", "status"} & data.keys()
        if reserved:
            raise TypeError(f"the answer of {name} has keys that the frame sets: {', '.join(sorted(reserved))}")
        words = json.dumps({"schema": SCHEMA, "command": name or None, "status": status, **data}, indent=2)
    try:
        if words:
            sys.stdout.write(f"{words}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader closed the pipe. Without this, Python prints another error when it closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write(f"{PROGRAM}: cannot write the answer: {error.strerror}\n")
        return UNKNOWN
    return status
