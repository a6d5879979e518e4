# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waiting with an end."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import patience


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long each sleep was; time passes in sleeps alone."""
    naps: list[float] = []
    # Of this module alone: threads of other tests may sleep meanwhile.
    monkeypatch.setattr(patience, "time", SimpleNamespace(sleep=naps.append, monotonic=lambda: sum(naps)))
    return naps


def test_what_is_there_is_not_waited_for(slept: list[float]) -> None:
    assert patience.wait_until(lambda: True, 0) is True
    assert slept == []


def test_looks_a_last_time_when_the_time_is_up(slept: list[float]) -> None:
    assert patience.wait_until(lambda: sum(slept) >= 2.5, 2.5, pause_s=1) is True
    assert slept == [1, 1, 0.5]


def test_waits_no_longer_than_it_may(slept: list[float]) -> None:
    assert patience.wait_until(lambda: False, 3, pause_s=2) is False
    assert slept == [2, 1]
