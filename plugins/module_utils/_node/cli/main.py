# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The main program of hpcnode: parses arguments, runs a sub-command, prints its answer, returns an exit status."""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..machine.config import ConfigError
from ..machine.root import NoRoot, existing_root
from ..machine.run import CommandFailed
from ..version import VERSION
from .command import BAD, GOOD, PROGRAM, UNKNOWN, USAGE, Answer, Command, UsageError
from .parsing.parser import build_parser
from .terminal import harmless, paint, paint_error, paint_page

if TYPE_CHECKING:
    # For AnsiballZ only, which packs every file that is imported somewhere. The whole node core is installed, also what
    # only modules use, so that one digest shows whether a node has this code.
    from ..health import pair_search  # noqa: F401
    from ..job.beeond import install as beeond_install  # noqa: F401
    from ..job.hooks import install as hooks_install  # noqa: F401
    from ..job.stage import copy  # noqa: F401
    from ..machine import progress  # noqa: F401
    from ..setup import daemon  # noqa: F401
    from ..setup.containers import ensure as containers_ensure  # noqa: F401
    from ..setup.image import generalise, settings  # noqa: F401
    from ..setup.metadata import plan as metadata_plan  # noqa: F401
    from ..setup.shared_fs import exports  # noqa: F401
    from ..setup.users import ensure as users_ensure  # noqa: F401
    from ..slurm import associations, ids, installed, rolling, slurmctld, slurmd  # noqa: F401
    from . import (  # noqa: F401
        arbiter,
        beeond,
        bench,
        boot,
        checkpoint,
        clocks,
        containers,
        diag,
        elastic,
        events,
        goodput,
        grants,
        health,
        job,
        metadata,
        metrics,
        nccl,
        pins,
        recover,
        scratch,
        sku,
        slurm,
        stage,
        tools,
        train,
    )

SCHEMA = 1
"""Version of the format of ``--json``."""

_JOBS = ("containers", "beeond", "job", "stage", "checkpoint", "events", "metadata", "grants", "slurm", "arbiter")
NAMES = (
    "sku",
    "boot",
    "health",
    "scratch",
    "clocks",
    "nccl",
    "pins",
    "bench",
    "train",
    *_JOBS,
    "elastic",
    "diag",
    "goodput",
    "recover",
    "metrics",
    "tools",
)
"""The sub-commands."""


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
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        # A character that the locale cannot encode must not suppress the rest of the output.
        getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
    words = list(sys.argv[1:] if argv is None else argv)
    # Needed before the arguments are parsed, because errors in the arguments have the same output format.
    as_json, debug = "--json" in words, "--debug" in words
    name = ""
    try:
        parser = build_parser(_needed(words) if commands is None else commands)
        args = parser.parse_args(words)
        # For the command that compares the generated pages of all commands.
        args.all_commands = all_commands
        if args.version:
            return write(as_json, "version", GOOD, f"{PROGRAM} {VERSION}", {"version": VERSION})
        if args.command is None:
            if as_json:
                raise UsageError(f"no command given (see '{PROGRAM} --help')")
            # Not GOOD, because a script that forgot the command did nothing.
            return write(False, "", USAGE, paint_page(parser.format_help(), sys.stdout).rstrip("\n"), {})
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


def _open_closed_streams() -> None:
    """Use /dev/null for standard streams that the caller closed, as slurmctld does before 23.02 (power_save.c)."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


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
    beginning = paint_error(f"{PROGRAM}{f' {name}' if name else ''}:", sys.stderr)
    sys.stderr.write(f"{beginning} {harmless(message, sys.stderr)}\n")
    return write(True, name, status, "", {"error": message}) if as_json else status


def write(as_json: bool, name: str, status: int, words: str, data: Mapping[str, Any]) -> int:
    """Write the answer and return its exit status, or UNKNOWN if it could not be written."""
    if as_json:
        reserved = {"schema", "command", "status"} & data.keys()
        if reserved:
            raise TypeError(f"the answer of {name} has keys that hpcnode sets: {', '.join(sorted(reserved))}")
        words = json.dumps({"schema": SCHEMA, "command": name or None, "status": status, **data}, indent=2)
    else:
        # The page of help already has its colours.
        words = paint(harmless(words, sys.stdout), sys.stdout) if name else words
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
