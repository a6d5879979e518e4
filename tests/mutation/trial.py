# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Running tests against mutants, in memory: no file changes.

pytest collects all tests once. For each mutant it forks, and the child puts the mutant's code into the functions that
were imported, and runs the tests up to the first that fails. So a mutant takes no longer than its tests do.
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
"""A mutant hangs, which is noticed as a failure is, after so many seconds and so many times what its tests take."""

Swaps = Mapping[types.FunctionType, types.CodeType]
"""Functions, and the code that is to be in them."""


class CannotTry(Exception):
    """The tests fail without a mutant, or a mutant would reach none of them; the message says which."""


@dataclass
class Outcome:
    """What became of the mutants of a source.

    :ivar tried: how many there were of each kind.
    :ivar survivors: those that no test noticed.
    """

    source: pathlib.Path
    seconds: float = 0.0
    tried: dict[str, int] = field(default_factory=dict)
    survivors: list[Mutant] = field(default_factory=list)


def try_mutants(
    tests_of: Mapping[pathlib.Path, Sequence[pathlib.Path]], scratch: pathlib.Path, tell: Callable[[Outcome], None]
) -> None:
    """Try all mutants of sources, each on its tests.

    :param scratch: a folder for what the tests write.
    :param tell: is called as soon as all mutants of a source were tried.
    :raises CannotTry: nothing can be learnt from these tests.
    """
    sys.dont_write_bytecode = True
    trial = _Trial(tests_of, tell)
    files = sorted({str(test) for tests in tests_of.values() for test in tests})
    options = ["-qq", "-s", "-p", "no:cacheprovider", f"--basetemp={scratch / 'tests'}"]
    ended = pytest.main([*options, *files], plugins=[trial])
    if trial.problem or not trial.is_through:
        raise CannotTry(trial.problem or f"pytest could not collect the tests (exit status {ended:d})")


class _Trial:
    """The plugin that stands where pytest runs its tests."""

    def __init__(
        self, tests_of: Mapping[pathlib.Path, Sequence[pathlib.Path]], tell: Callable[[Outcome], None]
    ) -> None:
        self._tests_of, self._tell = tests_of, tell
        self.is_through, self.problem = False, ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed:
            return None
        try:
            for source, tests in self._tests_of.items():
                self._tell(_outcome([item for item in session.items if item.path in tests], source))
            self.is_through = True
        except CannotTry as error:
            self.problem = str(error)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> None:
        """End the child that runs a test where it fails: to tell how would take longer than most tests take."""
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
    """Return the functions that were imported from a source, closures that stand somewhere among them."""
    found = [one for one in gc.get_objects() if isinstance(one, types.FunctionType)]
    return {one: one.__code__ for one in found if os.path.realpath(one.__code__.co_filename) == str(source.resolve())}


def _pairs(before: types.CodeType, after: types.CodeType) -> Iterator[tuple[types.CodeType, types.CodeType]]:
    """Yield the code of all functions, those in functions too, with what it has become."""
    olds, news = ([one for one in code.co_consts if isinstance(one, types.CodeType)] for code in (before, after))
    for old, new in zip(olds, news, strict=True):
        yield old, new
        yield from _pairs(old, new)


def _passes(items: Sequence[pytest.Item], swaps: Swaps, patience_s: float) -> bool:
    """Return whether tests pass with other code in functions."""
    child = os.fork()
    if not child:
        os.setsid()
        os._exit(_run(items, swaps))
    try:
        return _status(child, patience_s) == 0
    finally:
        # Processes that tests have left.
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)


def _run(items: Sequence[pytest.Item], swaps: Swaps) -> int:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nowhere, descriptor)
    # It would touch, and so copy, all memory that the child shares with us.
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
    """Return how a process ended; one that takes too long is ended."""
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
