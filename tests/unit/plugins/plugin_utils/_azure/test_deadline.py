# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.deadline import Deadline


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_time_that_is_left_gets_less_and_is_never_negative() -> None:
    clock = Clock()
    deadline = Deadline(10, clock, clock.sleep)

    assert deadline.remaining() == 10
    deadline.wait(4)
    assert deadline.remaining() == 6
    clock.now += 100
    assert deadline.remaining() == 0


def test_nobody_waits_longer_than_there_is_time() -> None:
    clock = Clock()
    deadline = Deadline(10, clock, clock.sleep)

    deadline.wait(60)

    assert clock.now == 110


def test_waiting_is_allowed_only_if_time_is_left_afterwards() -> None:
    clock = Clock()
    deadline = Deadline(10, clock, clock.sleep)

    assert deadline.allows(9.9)
    assert not deadline.allows(10)
