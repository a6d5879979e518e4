# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stand-ins for what a check works with: files in a folder, commands from a table, and a fixed time.

For the tests of checks: ``from ..playing import answering, context``.
"""

from __future__ import annotations

import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, cast

from stand_ins.machine_tree import MachineTree
from stand_ins.sized_machine import SizedMachine

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import (
    FAIL,
    PERIODIC,
    Answer,
    Context,
    Finding,
    History,
    Reading,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.gpus import Gpus
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.settings import Settings
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu import GpuError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu.facts import NO_LIBRARY
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result, Run
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import VmSize, find_size

ND_A100 = "Standard_ND96asr_v4"
NOW = 1_795_365_600.0
"""2026-11-22 16:40:00 UTC."""
NOWHERE = "/nonexistent"
GOOD = Answer("all is well", readings=(Reading("count", 8),))
BAD = Answer(findings=(Finding(FAIL, "7 of 8"),), readings=(Reading("count", 7),))


def sleep(_context: Context) -> NoReturn:
    """Measure forever."""
    while True:
        time.sleep(60)


def raising(error: BaseException) -> Any:
    """Return a measurement that raises this error."""

    def measure(_context: Context) -> NoReturn:
        raise error

    return measure


def no_run(command: Sequence[str]) -> Result:
    """Answer as if the command was not installed."""
    return Result(tuple(command), 127, "", f"{command[0]}: command not found")


def answering(table: Mapping[str, str | tuple[int, str]]) -> Run:
    """Return a runner that answers commands from a table: with their output, or with exit status and text.

    A key is a command line or its first words; the first key that matches counts. Other commands are not installed.
    """

    def run(command: Sequence[str]) -> Result:
        words = " ".join(command)
        for beginning, answer in table.items():
            if words == beginning or words.startswith(f"{beginning} "):
                rc, output = (0, answer) if isinstance(answer, str) else answer
                return Result(tuple(command), rc, output if rc == 0 else "", output if rc else "")
        return no_run(command)

    return run


class NoGpus:
    """A machine without NVIDIA's driver: each request fails."""

    def __getattr__(self, name: str) -> Any:
        raise GpuError(NO_LIBRARY, "libnvidia-ml.so.1 is not there, and neither is nvidia-smi")


def context(
    root: pathlib.Path | MachineTree | SizedMachine | Root | None = None,
    run: Run | Mapping[str, str | tuple[int, str]] | None = None,
    size: str | VmSize | None = ND_A100,
    tier: str = PERIODIC,
    gpus: object | None = None,
    history: History | Mapping[str, Any] | None = None,
    seconds: float = 2.0,
    now: float = NOW,
    job: str = "",
    **settings: Any,
) -> Context:
    """Return the context that a check gets.

    :param root: the machine's root folder; by default a folder that does not exist.
    :param run: runs commands, or is a table for ``answering``; by default no command is installed.
    :param size: a VM size or its name; None for an unknown one.
    :param gpus: a stand-in for the GPUs' driver; by default there is no driver.
    :param history: what earlier runs stored.
    :param settings: fields of ``Settings``.
    """
    return Context(
        root=_root(root),
        run=answering(run) if isinstance(run, Mapping) else run or no_run,
        size=find_size(size) if isinstance(size, str) else size,
        tier=tier,
        settings=Settings(**settings),
        gpus=cast(Gpus, gpus or NoGpus()),
        history=history if isinstance(history, History) else History(history),
        seconds=seconds,
        now=now,
        job=job,
    )


def _root(given: pathlib.Path | MachineTree | SizedMachine | Root | None) -> Root:
    if isinstance(given, Root):
        return given
    path = given.path if isinstance(given, (MachineTree, SizedMachine)) else given
    return Root(str(path or NOWHERE))
