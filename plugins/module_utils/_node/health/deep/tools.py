# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The tools that checks of the deep tier run: where they are, and how they are run within a limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...machine.run import Result
from ..check import FAIL, UNKNOWN, CannotTell, Check, Context, Finding

OVERDUE, MISSING = 124, 127
KILLED_BY = 128
"""What the exit status of a program that a signal ended is above, where another program reports it."""
_USUAL = ("/usr/local/bin", "/usr/bin", "/usr/local/cuda/bin", "/opt/hpcai/bin")
_KILL_AFTER_S = 5
_UNUSABLE = ("error while loading shared libraries", "No such file or directory", "Permission denied")
_FULL = ("out of memory", "Cannot allocate memory")


def program_of(context: Context, check: Check, name: str, folders: Sequence[str] = ()) -> str | None:
    """Return the path of a tool: the one in the site's option ``program``, else the first that is found.

    :param folders: where it is looked for before the folders of programs.
    """
    given: str = context.settings.option(check, "program")
    if given:
        return given
    paths = (f"{folder}/{name}" for folder in (*folders, *_USUAL))
    return next((path for path in paths if context.root.exists(path)), None)


def needed(context: Context, check: Check, name: str, folders: Sequence[str] = (), source: str = "") -> str:
    """Return the path of a tool without which nothing can be measured.

    :param source: where it comes from, for people.
    :raises CannotTell: it is not there.
    """
    path = program_of(context, check, name, folders)
    if path is None:
        comes = f" ({source})" if source else ""
        raise CannotTell(f"{name}{comes} is not installed, or set options.{check.name}.program in health_checks_*")
    return path


def call(
    context: Context, command: Sequence[str], within_s: float, environment: Mapping[str, str] | None = None
) -> Result:
    """Run a tool, which is ended with exit status 124 when its time is over."""
    words = ["timeout", f"--kill-after={_KILL_AFTER_S}", f"{within_s:g}"]
    if environment:
        words += ["env", *(f"{name}={value}" for name, value in sorted(environment.items()))]
    return context.run([*words, *command])


def last_line(result: Result) -> str:
    """Return the last line that says something, of the errors first."""
    lines = [line.strip() for text in (result.stderr, result.stdout) for line in reversed(text.splitlines())]
    return next((line for line in lines if line.strip("#-=* ")), "nothing was printed")


def no_answer(context: Context, what: str, within_s: float, device: str = "") -> Finding:
    """Return what it means that a measurement did not end in its time: twice running, it is the device's fault."""
    silent = _silent(what, device)
    before = bool(context.history.get(silent))
    context.history.keep(silent, True)
    of = f" for {device}" if device else ""
    words = f"{what} did not end within {within_s:g} s{of}{', twice running' if before else ''}"
    hint = "See 'journalctl -k -b' for what does not answer" if before else "Run the check again"
    return Finding(FAIL if before else UNKNOWN, words, device, hint)


def answered(context: Context, what: str, device: str = "") -> None:
    """Forget that a measurement did not end the last time."""
    if context.history.get(_silent(what, device)):
        context.history.keep(_silent(what, device), None)


def _silent(what: str, device: str) -> str:
    return f"silent: {what} {device}".strip()


def refusal(context: Context, result: Result, what: str, within_s: float, device: str = "") -> Finding | None:
    """Return what is wrong with a run as such; None where it came to a good end.

    A tool that does not end in its time is UNKNOWN, and a FAIL when that happens twice running: then it is the device.
    One that cannot be started, or finds the memory taken, says nothing of the device. One that crashes does.

    :param what: the tool and what it was to measure, for people.
    """
    if result.rc in (OVERDUE, KILLED_BY + 9):
        return no_answer(context, what, within_s, device)
    answered(context, what, device)
    if result.rc == 0:
        return None
    said = last_line(result)
    whole = f"{result.stdout}\n{result.stderr}"
    if result.rc in (126, MISSING) or any(words in whole for words in _UNUSABLE):
        return Finding(UNKNOWN, f"{what} cannot be started: {said}", device, "Install it with its libraries")
    if any(words in whole for words in _FULL):
        hint = "See what holds the memory: nvidia-smi, free"
        return Finding(UNKNOWN, f"{what} found too little memory: {said}", device, hint)
    return Finding(FAIL, f"{what} failed (exit status {result.rc}): {said}", device)
