# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Which checkpoints lead to the newest one of the running attempt, and which are of another branch. Pure.

A step alone does not say what is newer: after a restore of step 200, the new attempt's step 210 is newer than step 500
of the attempt before. That step 500 belongs to a branch that the training has left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .names import Id


@dataclass(frozen=True)
class Line:
    """The whole checkpoints of a store, sorted.

    :ivar line: those that lead to the newest one, the oldest first.
    :ivar branches: those of earlier attempts at steps that a later attempt did not continue from.
    """

    line: tuple[Id, ...] = ()
    branches: tuple[Id, ...] = ()

    @property
    def ordered(self) -> tuple[Id, ...]:
        """All of them, the newest last."""
        return (*self.branches, *self.line)


def line_of(written: Mapping[Id, float], attempt: str = "", resumed: int | None = None) -> Line:
    """Sort whole checkpoints.

    :param written: when each was written, by the store's clock.
    :param attempt: the running attempt, which is the newest; without one, the attempt that was first written to last.
    :param resumed: the step that the running attempt has restored. Without it, an attempt is taken to continue from the
        step before its own first one.
    """
    attempts: dict[str, list[Id]] = {}
    for id_ in sorted(written, key=lambda one: one.order):
        attempts.setdefault(id_.attempt, []).append(id_)
    line: list[Id] = []
    branches: list[Id] = []
    # Before its first whole checkpoint the running attempt has only gone back.
    below = resumed + 1 if resumed is not None and attempt not in attempts else None
    newest_first = sorted(
        attempts.values(),
        key=lambda ids: (ids[0].attempt == attempt, min(map(written.__getitem__, ids)), ids[0].attempt_order),
        reverse=True,
    )
    for ids in newest_first:
        mine = [id_ for id_ in ids if below is None or id_.step < below]
        branches += ids[len(mine) :]
        line = mine + line
        if mine:
            below = mine[0].step
            if mine[0].attempt == attempt and resumed is not None:
                below = min(below, resumed + 1)
    return Line(tuple(line), tuple(sorted(branches, key=lambda one: one.order)))
