# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run tests against mutants in memory; no file is changed.

pytest collects all tests once. For each mutant it forks. The child replaces the code of the imported functions by the
mutant's and runs the tests until the first one fails. So a mutant takes no longer than its tests.
"""

from __future__ import annotations

import gc
import os
import pathlib
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from .mutants import Mutant, compile_source, mutants_of

PATIENCE_S, PATIENCE_TIMES = 10.0, 5.0
"""A mutant hangs, which counts as detected, after PATIENCE_S plus PATIENCE_TIMES the time that its tests take."""

Swaps = Mapping[types.FunctionType, types.CodeType]
"""Functions, and their new code."""


class CannotTry(Exception):
    """The tests fail without a mutant, or no imported function contains a mutant. The message names the file."""


@dataclass
class Outcome:
    """The results for the mutants of a source file.

    :ivar tried: the number of mutants of each kind.
    :ivar survivors: the mutants that no test detected.
    """

    source: pathlib.Path
    seconds: float = 0.0
    tried: dict[str, int] = field(default_factory=dict)
    survivors: list[Mutant] = field(default_factory=list)


def try_mutants(
    tests_of: Mapping[pathlib.Path, Sequence[pathlib.Path]], scratch: pathlib.Path, report: Callable[[Outcome], None]
) -> None:
    """Try all mutants of source files, each on its tests.

    :param scratch: a folder for files that the tests write.
    :param report: called as soon as all mutants of a source file were tried.
    :raises CannotTry: these tests or mutants cannot give a result.
    """
    sys.dont_write_bytecode = True
    trial = _Trial(tests_of, report)
    files = sorted({str(test) for tests in tests_of.values() for test in tests})
    options = ["-qq", "-s", "-p", "no:cacheprovider", f"--basetemp={scratch / 'tests'}"]
    ended = pytest.main([*options, *files], plugins=[trial])
    if trial.problem or not trial.is_through:
        raise CannotTry(trial.problem or f"pytest could not collect the tests (exit status {ended:d})")


class _Trial:
    """The plugin that replaces pytest's loop over the tests."""

    def __init__(
        self, tests_of: Mapping[pathlib.Path, Sequence[pathlib.Path]], report: Callable[[Outcome], None]
    ) -> None:
        self._tests_of, self._report = tests_of, report
        self.is_through, self.problem = False, ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed:
            return None
        try:
            for source, tests in self._tests_of.items():
                self._report(_outcome([item for item in session.items if item.path in tests], source))
            self.is_through = True
        except CannotTry as error:
            self.problem = str(error)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> None:
        """End the child at the first failure: to report it in detail would take longer than most tests."""
        if call.excinfo and not call.excinfo.errisinstance(pytest.skip.Exception):
            os._exit(1)


def _outcome(items: Sequence[pytest.Item], source: pathlib.Path) -> Outcome:
    began = time.monotonic()
    outcome = Outcome(source)
    if not items or not _passes(items, {}, PATIENCE_S * PATIENCE_TIMES):
        raise CannotTry(f"{source} has no tests, or they fail without a mutant")
    patience_s = PATIENCE_S + PATIENCE_TIMES * (time.monotonic() - began)
    text = source.read_text(encoding="utf-8")
    module = compile_source(text, str(source))
    imported = _functions_of(source)
    for mutant in mutants_of(text, str(source)):
        changed = {old: new for old, new in _pairs(module, mutant.code) if old != new}
        swaps = {function: changed[code] for function, code in imported.items() if code in changed}
        if not swaps:
            raise CannotTry(f"{source}:{mutant.line}: no function that was imported decides {mutant.change}")
        outcome.tried[mutant.kind] = outcome.tried.get(mutant.kind, 0) + 1
        if _passes(items, swaps, patience_s):
            outcome.survivors.append(mutant)
    outcome.seconds = time.monotonic() - began
    return outcome


def _functions_of(source: pathlib.Path) -> dict[types.FunctionType, types.CodeType]:
    """Return the functions that were imported from a source file, including closures."""
    found = [one for one in gc.get_objects() if isinstance(one, types.FunctionType)]
    return {one: one.__code__ for one in found if os.path.realpath(one.__code__.co_filename) == str(source.resolve())}


def _pairs(before: types.CodeType, after: types.CodeType) -> Iterator[tuple[types.CodeType, types.CodeType]]:
    """Yield the code of all functions, nested ones too, before and after the change."""
    olds, news = ([one for one in code.co_consts if isinstance(one, types.CodeType)] for code in (before, after))
    for old, new in zip(olds, news, strict=True):
        yield old, new
        yield from _pairs(old, new)


def _passes(items: Sequence[pytest.Item], swaps: Swaps, patience_s: float) -> bool:
    """Return whether the tests pass with the new code in the functions."""
    child = os.fork()
    if not child:
        os.setsid()
        os._exit(_run(items, swaps))
    try:
        return _status(child, patience_s) == 0
    finally:
        # Kill processes that the tests left behind.
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)


def _run(items: Sequence[pytest.Item], swaps: Swaps) -> int:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nowhere, descriptor)
    # The collector would write to, and so copy, all memory that the child shares with its parent.
    gc.disable()
    try:
        for function, code in swaps.items():
            function.__code__ = code
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    except BaseException:
        return 1
    return 0


def _status(child: int, patience_s: float) -> int:
    """Return the exit status of a process. Kill it after patience_s."""
    deadline = time.monotonic() + patience_s
    pause = 0.001
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]
