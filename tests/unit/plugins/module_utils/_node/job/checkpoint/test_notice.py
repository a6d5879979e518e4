# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which checkpoint is uploaded when the machine is about to be evicted."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.notice import Candidate, decide

BIG, SMALL = Candidate("b", 300, 1_000_000_000), Candidate("a", 200, 100_000_000)
RATE = 50e6


@pytest.mark.parametrize(
    ("seconds_left", "chosen", "fits"),
    [(60.0, "b", True), (23.1, "b", True), (22.0, "a", True), (4.0, "b", False), (-5.0, "b", False), (None, "b", None)],
)
def test_the_newest_checkpoint_that_fits_is_uploaded(
    seconds_left: float | None, chosen: str, fits: bool | None
) -> None:
    choice = decide([SMALL, BIG], RATE, seconds_left)
    assert (choice.id, choice.fits) == (chosen, fits)


def test_a_checkpoint_that_does_not_fit_is_reported_and_tried() -> None:
    choice = decide([BIG], RATE, 10.0)
    assert choice.words.startswith("step 300 needs 23 s at 50.0 MB/s, but only 10 s are left: the upload")
    running = Candidate("a", 200, 900_000_000, running=True)
    assert decide([BIG, running], RATE, 10.0).id == "a"


def test_without_a_rate_the_newest_checkpoint_is_tried() -> None:
    choice = decide([SMALL, BIG], None, 10.0)
    assert (choice.id, choice.fits) == ("b", None)


def test_nothing_left_to_upload_fits() -> None:
    assert decide([], RATE, 10.0).fits is True
