# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What to upload when the machine is about to go, and whether that fits into the time that is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MARGIN_S = 3.0
"""For manifests, and for what a rate does not tell."""


@dataclass(frozen=True)
class Candidate:
    """A finished checkpoint whose part of this node is not published.

    :ivar remaining_bytes: bytes that are still to be uploaded.
    :ivar running: whether it is being uploaded now.
    :ivar is_current: whether the running attempt saved it: that makes it newer than any of another attempt.
    """

    id: str
    step: int
    remaining_bytes: int
    running: bool = False
    is_current: bool = True


@dataclass(frozen=True)
class Choice:
    """What to upload.

    :ivar id: of the candidate; empty if there is nothing to upload.
    :ivar fits: whether it will be done in time; None where no rate or no time is known.
    """

    id: str
    fits: bool | None
    words: str


def decide(candidates: Sequence[Candidate], rate: float | None, seconds_left: float | None) -> Choice:
    """Return the newest that fits; else what is running, else the newest.

    Also what does not fit is uploaded: the notice says when the machine goes at the earliest, and what was uploaded
    need not be again where its disks survive.

    :param rate: bytes a second, as measured; None where nothing was.
    :param seconds_left: until the machine may go; None where the notice does not say.
    """
    ordered = sorted(candidates, key=lambda one: (one.is_current, one.step, one.id), reverse=True)
    if not ordered:
        return Choice("", True, "nothing is left to upload")
    if rate is None or seconds_left is None or rate <= 0:
        unknown = "no rate was measured yet" if seconds_left is not None else "the notice gives no time"
        return Choice(ordered[0].id, None, f"step {ordered[0].step} is tried: {unknown}")
    for one in ordered:
        needed = one.remaining_bytes / rate + MARGIN_S
        if needed <= seconds_left:
            words = f"step {one.step} needs {needed:.0f} s at {_rate(rate)}, and {seconds_left:.0f} s are left: it fits"
            return Choice(one.id, True, words)
    one = next((one for one in ordered if one.running), ordered[0])
    needed = one.remaining_bytes / rate + MARGIN_S
    words = (
        f"step {one.step} needs {needed:.0f} s at {_rate(rate)}, and {max(0.0, seconds_left):.0f} s are left: it will "
        "not be whole unless the machine lives longer; it is tried"
    )
    return Choice(one.id, False, words)


def _rate(rate: float) -> str:
    return f"{rate / 1e6:.1f} MB/s"
