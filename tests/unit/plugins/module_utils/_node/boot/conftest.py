# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A machine tree in a temporary folder, and steps for tests."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot import engine, record
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.step import Context, Outcome, Step
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

BOOT_ID = "11111111-2222-3333-4444-555555555555"


def no_run(command: Sequence[str]) -> Result:
    """Answer as if the command was not installed."""
    return Result(tuple(command), 127, "", f"{command[0]}: command not found")


class Machine:
    """A machine tree; its /proc contains only the processes that tests add."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.root = Root(str(folder))
        (folder / "proc/sys/kernel/random").mkdir(parents=True)
        self.boot()

    def boot(self, boot_id: str = BOOT_ID) -> None:
        """Boot, and keep the content of /run, as some containers do."""
        (self.folder / "proc/sys/kernel/random/boot_id").write_text(f"{boot_id}\n", encoding="utf-8")

    def process(self, pid: int, started: int = 0) -> None:
        """Add a process; with started=0 it has the start time of this process."""
        stat = pathlib.Path("/proc/self/stat").read_text(encoding="utf-8")
        before, fields = stat.rpartition(")")[0], stat.rpartition(")")[2].split()
        fields[19] = str(started or fields[19])
        folder = self.folder / f"proc/{pid}"
        folder.mkdir(exist_ok=True)
        (folder / "stat").write_text(f"{before}) {' '.join(fields)}\n", encoding="utf-8")

    def write(self, path: str, text: str) -> None:
        """Write a file."""
        place = self.folder / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")

    def perform(self, step: Step, check: bool = False) -> engine.StepRun:
        """Do a step."""
        return engine.perform(step, self.root, no_run, check)

    def stored(self, name: str = "demo") -> dict[str, Any]:
        """Return the step's record as it is stored."""
        return dict(json.loads((self.folder / f"run/hpcai/boot/{name}.json").read_text(encoding="utf-8")))

    def read(self, name: str = "demo") -> record.Record | None:
        """Return the step's record as boot/record.py reads it."""
        return record.read(self.root, name)


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    """A booted machine on which this process runs."""
    made = Machine(tmp_path)
    made.process(os.getpid())
    return made


MakeStep = Callable[..., Step]


@pytest.fixture
def make_step() -> MakeStep:
    """Return a function that makes a step from a function or an outcome."""

    def make(
        what: Callable[[Context], Outcome] | Outcome, name: str = "demo", blocking: bool = True, limit_s: float = 20
    ) -> Step:
        perform = what if callable(what) else lambda _context: what
        return Step(name, f"Does {name}", blocking, limit_s, perform)

    return make
