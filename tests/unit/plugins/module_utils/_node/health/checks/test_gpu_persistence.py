# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Persistence mode: on, off, not told."""

from __future__ import annotations

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.gpu_persistence import CHECK

from ..gpu_playing import assert_unread_gpus_are_unknown, gpu, look


def test_passes_where_it_is_on() -> None:
    result = look(CHECK, gpu(0), gpu(1))
    assert (result.verdict, [one.value for one in result.answer.readings]) == ("pass", [1, 1])


def test_fails_to_be_as_it_should_where_it_is_off() -> None:
    result = look(CHECK, gpu(0), gpu(1, persistence=False))
    assert result.verdict == "warn"
    assert result.summary.startswith("persistence mode of GPU 1 (0002:00:00.0) is off")


def test_cannot_measure_where_a_gpu_does_not_tell() -> None:
    result = look(CHECK, gpu(0, persistence=None))
    assert (result.verdict, result.summary) == (
        "unknown",
        "GPU 0 (0001:00:00.0) does not tell whether persistence mode is on",
    )


def test_cannot_measure_gpus_that_cannot_be_read() -> None:
    assert_unread_gpus_are_unknown(CHECK)
