# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The steps of the boot phase, in their order.

To add one: put its name in its place in ``NAMES``, import it below, and add its row to ``BOOT_UNITS`` in
setup/tools/units.py, unless slurmd's own unit runs it (``WITHOUT_UNIT``). Tests compare this list with the files in
steps/ and the units.

At boot each step is run by an hpcnode of its own, which imports this one step and not what all the others need: that
would take longer than most steps do.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .step import Step

if TYPE_CHECKING:
    # Read by AnsiballZ, which packs what it finds imported somewhere, and by nobody else.
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
"""Steps that run as a part of slurmd's start, not before it."""


class NoSuchStep(ValueError):
    """A name that is no step's; the message tells the names."""


def load(name: str) -> Step:
    """Return the step of this name."""
    step: Step = importlib.import_module(f".steps.{name}", __package__).STEP
    return step


def all_steps() -> tuple[Step, ...]:
    """Return all steps in the order of the boot."""
    return tuple(load(name) for name in NAMES)


def select_steps(names: Sequence[str] | None = None) -> tuple[Step, ...]:
    """Return the steps of these names in the order of the boot; without names all that are units.

    :raises NoSuchStep: a name is no step's.
    """
    for name in names or ():
        if name not in NAMES:
            raise NoSuchStep(f"there is no step {name}: there are {', '.join(NAMES)}")
    return tuple(load(name) for name in NAMES if (name in names if names else name not in WITHOUT_UNIT))
