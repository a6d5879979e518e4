# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The steps of the boot phase, in their order.

To add a step: insert its name into ``NAMES`` in the order of the boot, import it below, and add its row to
``BOOT_UNITS`` in setup/tools/units.py, unless slurmd's own unit runs it (``WITHOUT_UNIT``). Tests compare this list
with the files in steps/ and the units.

At boot, each step has its own hpcnode process. It imports only this step, because importing all steps would take longer
than most steps take to run.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .step import Step

if TYPE_CHECKING:
    # For AnsiballZ only, which packs every file that is imported somewhere.
    from .steps import (  # noqa: F401
        access,
        clocks,
        containers,
        directories,
        fabric,
        gpu,
        health,
        instance,
        join,
        key,
        nccl,
        scratch,
    )

NAMES = (
    "instance",
    "key",
    "access",
    "gpu",
    "fabric",
    "scratch",
    "directories",
    "clocks",
    "nccl",
    "containers",
    "health",
    "join",
)
WITHOUT_UNIT = ("join",)
"""Steps that run as part of slurmd's own start, not before it."""


class NoSuchStep(ValueError):
    """There is no step of this name; the message lists the steps."""


def load(name: str) -> Step:
    """Return the step of this name."""
    step: Step = importlib.import_module(f".steps.{name}", __package__).STEP
    return step


def all_steps() -> tuple[Step, ...]:
    """Return all steps in the order of the boot."""
    return tuple(load(name) for name in NAMES)


def select_steps(names: Sequence[str] | None = None) -> tuple[Step, ...]:
    """Return the named steps in the order of the boot; without names, all steps that have a unit.

    :raises NoSuchStep: there is no step of this name.
    """
    for name in names or ():
        if name not in NAMES:
            raise NoSuchStep(f"there is no step {name}: the steps are {', '.join(NAMES)}")
    return tuple(load(name) for name in NAMES if (name in names if names else name not in WITHOUT_UNIT))
