# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tools of the deep tier, played: what they print, with the environment they are given."""

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
    """A tool that answers with what it is told to, and remembers how it was called.

    :ivar answer: what it prints (it ends well then), its exit status with both outputs, or a function of its words.
    :ivar commands: its command lines, without `timeout` and `env`.
    :ivar environments: the variables each was given.
    """

    answer: str | Output | Callable[[list[str]], str | Output]
    commands: list[list[str]] = field(default_factory=list)
    environments: list[dict[str, str]] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, command: Sequence[str]) -> Result:
        words = list(command)
        assert words[0] == "timeout", "a tool without a limit"
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
    """A machine of this size, with programs."""
    tree = SizedMachine.of_size(path, size)
    for program in programs:
        tree.write(program, "")
    return tree


def is_idle(monkeypatch: pytest.MonkeyPatch, computing: dict[int, tuple[str, ...]] | None = None) -> None:
    """Let the driver say which processes compute; none by default."""
    monkeypatch.setattr(deep, "compute_processes", lambda _root: computing or {})


def recorded(name: str) -> str:
    """A recorded output."""
    return (pathlib.Path(__file__).parent / "recorded_tools" / name).read_text(encoding="utf-8")
