# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What to upload when the machine is about to be removed, and whether there is enough time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MARGIN_S = 3.0
"""Time for the manifests and for deviations from the rate."""


@dataclass(frozen=True)
class Candidate:
    """A finished checkpoint of which this node's part is not published.

    :ivar remaining_bytes: bytes still to upload.
    :ivar running: whether it is being uploaded now.
    :ivar is_current: whether the running attempt saved it, so that it is newer than any other attempt's.
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
    :ivar fits: whether it will be done in time; None if the rate or the time is unknown.
    """

    id: str
    fits: bool | None
    words: str


def decide(candidates: Sequence[Candidate], rate: float | None, seconds_left: float | None) -> Choice:
    """Return the newest candidate that fits; else the running one, else the newest.

    A candidate that does not fit is uploaded as well: the notice gives the earliest time of the removal, and a later
    upload continues from there if the machine's disks survive.

    :param rate: measured bytes per second; None if unknown.
    :param seconds_left: until the machine may be removed; None if the notice does not say.
    """
    ordered = sorted(candidates, key=lambda one: (one.is_current, one.step, one.id), reverse=True)
    if not ordered:
        return Choice("", True, "nothing is left to upload")
    if rate is None or seconds_left is None or rate <= 0:
        unknown = "no rate was measured yet" if seconds_left is not None else "the notice gives no time"
        return Choice(ordered[0].id, None, f"uploading step {ordered[0].step}; whether it fits is unknown: {unknown}")
    for one in ordered:
        needed = one.remaining_bytes / rate + MARGIN_S
        if needed <= seconds_left:
            words = f"step {one.step} needs {needed:.0f} s at {_rate(rate)}, and {seconds_left:.0f} s are left: it fits"
            return Choice(one.id, True, words)
    one = next((one for one in ordered if one.running), ordered[0])
    needed = one.remaining_bytes / rate + MARGIN_S
    words = (
        f"step {one.step} needs {needed:.0f} s at {_rate(rate)}, but only {max(0.0, seconds_left):.0f} s are left: the "
        "upload will be incomplete unless the machine stays longer"
    )
    return Choice(one.id, False, words)


def _rate(rate: float) -> str:
    return f"{rate / 1e6:.1f} MB/s"
