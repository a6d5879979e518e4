# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The steps of the boot phase, in their order.

To add one: import it here, put it in its place in ``STEPS``, and add its row to ``BOOT_UNITS`` in setup/tools/units.py,
unless slurmd's own unit runs it (``WITHOUT_UNIT``). Tests compare this list with the files in steps/ and the units.

No discovery: AnsiballZ packs only what is imported. What a step needs and what takes long to import (whatever speaks
HTTP) it imports when it is performed: this list is imported at each start of hpcnode.
"""

from __future__ import annotations

from collections.abc import Sequence

from .step import Step
from .steps import clocks, directories, fabric, gpu, instance, join, key, nccl, scratch

STEPS: tuple[Step, ...] = (
    instance.STEP,
    key.STEP,
    gpu.STEP,
    fabric.STEP,
    scratch.STEP,
    directories.STEP,
    clocks.STEP,
    nccl.STEP,
    join.STEP,
)
WITHOUT_UNIT = ("join",)
"""Steps that run as a part of slurmd's start, not before it."""


class NoSuchStep(ValueError):
    """A name that is no step's; the message tells the names."""


def chosen(names: Sequence[str] | None = None) -> tuple[Step, ...]:
    """Return the steps of these names in the order of the boot; without names all that are units.

    :raises NoSuchStep: a name is no step's.
    """
    known = [step.name for step in STEPS]
    for name in names or ():
        if name not in known:
            raise NoSuchStep(f"there is no step {name}: there are {', '.join(known)}")
    return tuple(step for step in STEPS if (step.name in names if names else step.name not in WITHOUT_UNIT))
