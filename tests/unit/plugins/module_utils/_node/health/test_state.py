# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is kept between runs: latched findings, and their identity."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.hpcai.azure.plugins.module_utils._node.health import state
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, Answer, Check, Finding

CHECK = Check("gpu_xid", "x", "x", (), lambda _context: Answer(), action="reboot")
XID = Finding(FAIL, "Xid 95", "0001:00:00.0", action="reset_gpu", latch=True)
BOOT = "this"


def after(kept: tuple[state.Latched, ...], *findings: Finding, now: float = 1, released: tuple[str, ...] = ()) -> Any:
    """What is kept after these findings."""
    return state.latched_after(kept, CHECK, Answer(findings=findings, released=released), BOOT, now)


def test_only_what_asks_for_it_is_kept() -> None:
    assert [one.finding for one in after((), XID, replace(XID, latch=False, summary="other"))] == [XID]


def test_the_same_again_is_kept_once_with_its_first_time() -> None:
    kept = after(after((), XID), XID, now=9)
    assert [(one.finding, one.since) for one in kept] == [(XID, 1)]
    other = replace(XID, device="0002:00:00.0")
    assert [one.since for one in after(kept, other, now=9)] == [1, 9]


def test_a_reset_mends_what_a_reset_mends() -> None:
    graver = replace(XID, summary="Xid 79", action="reboot")
    by_check = replace(XID, summary="Xid 48", action=None)
    elsewhere = replace(XID, device="0002:00:00.0")
    kept = after(after((), XID, graver, by_check, elsewhere), released=("0001:00:00.0",))
    assert [one.finding for one in kept] == [graver, by_check, elsewhere]


def test_what_was_found_after_the_reset_stays() -> None:
    assert [one.finding for one in after(after((), XID), XID, released=("0001:00:00.0",))] == [XID]


def test_a_restart_ends_all() -> None:
    kept = after((), XID)
    assert state.latched_in_boot(kept, BOOT) == kept
    assert state.latched_in_boot(kept, "another") == ()
    assert state.latched_in_boot(kept, "") == kept


def test_what_is_seen_again_is_not_told_twice() -> None:
    kept = after((), XID)
    assert state.unseen(kept, Answer()) == (XID,)
    assert state.unseen(kept, Answer(findings=(XID,))) == ()


def test_a_log_full_of_them_does_not_fill_the_disk() -> None:
    many = [replace(XID, summary=f"Xid {number}") for number in range(1000)]
    kept = after((), *many)
    assert [one.finding for one in kept] == many[-state.MOST :]
