# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stand-ins for the tools of the deep tier: what they print, and how they are called."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from stand_ins.sized_machine import SizedMachine

from ansible_collections.hpcai.azure.plugins.module_utils._node.health import deep
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

Output = tuple[int, str, str]
"""Exit status and both outputs."""


@dataclass
class Tool:
    """A stand-in for a tool, which gives the answer of a test and records how it was called.

    :ivar answer: its output (exit status 0), its exit status and both outputs, or a function of its command line.
    :ivar commands: its command lines, without `timeout` and `env`.
    :ivar environments: the variables that each call got.
    """

    answer: str | Output | Callable[[list[str]], str | Output]
    commands: list[list[str]] = field(default_factory=list)
    environments: list[dict[str, str]] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, command: Sequence[str]) -> Result:
        words = list(command)
        assert words[0] == "timeout", "a tool without a timeout"
        limit, words = float(words[2]), words[3:]
        environment = {}
        if words[0] == "env":
            words = words[1:]
            while "=" in words[0]:
                name, _equals, value = words.pop(0).partition("=")
                environment[name] = value
        with self._lock:
            self.commands.append(words)
            self.environments.append(environment)
            self.limits.append(limit)
        output = self.answer(words) if callable(self.answer) else self.answer
        rc, stdout, stderr = (0, output, "") if isinstance(output, str) else output
        return Result(tuple(command), rc, stdout, stderr)


def machine(path: pathlib.Path, size: str, *programs: str) -> SizedMachine:
    """Return a machine of this size with these programs."""
    tree = SizedMachine.of_size(path, size)
    for program in programs:
        tree.write(program, "")
    return tree


def set_compute_processes(monkeypatch: pytest.MonkeyPatch, computing: dict[int, tuple[str, ...]] | None = None) -> None:
    """Set the compute processes that the driver reports; none by default."""
    monkeypatch.setattr(deep, "compute_processes", lambda _root: computing or {})


def recorded(name: str) -> str:
    """Return a recorded output."""
    return (pathlib.Path(__file__).parent / "recorded_tools" / name).read_text(encoding="utf-8")
