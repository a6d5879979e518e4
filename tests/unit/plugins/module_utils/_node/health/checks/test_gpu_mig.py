# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""MIG mode: off, on, wanted, unknown to the model, not told."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.gpu_mig import CHECK

from ..gpu_playing import assert_unread_gpus_are_unknown, gpu, look

WANTED = {"gpu_mig": {"enabled": True}}


@pytest.mark.parametrize(("mig", "told"), [(False, "off"), (None, "none")])
def test_passes_where_it_is_off_or_unknown_to_the_model(mig: bool | None, told: str) -> None:
    result = look(CHECK, gpu(0, mig=mig))
    assert (result.verdict, result.answer.readings[0].value) == ("pass", told)
    assert (result.summary, result.answer.limit) == ("MIG mode is off, as wanted", "off")


def test_passes_where_it_is_on_and_wanted() -> None:
    result = look(CHECK, gpu(0, mig=True), options=WANTED)
    assert (result.verdict, result.answer.readings[0].value) == ("pass", "on")
    assert (result.summary, result.answer.limit) == ("MIG mode is on, as wanted", "on")


def test_fails_to_be_as_it_should_where_it_is_on() -> None:
    result = look(CHECK, gpu(0), gpu(1, mig=True))
    assert result.verdict == "warn"
    assert result.summary.startswith("MIG mode of GPU 1 (0002:00:00.0) is on")
    assert result.hint.startswith("'nvidia-smi -i 1 -mig 0' on the drained node")


@pytest.mark.parametrize("mig", [False, None])
def test_fails_to_be_as_it_should_where_it_is_off_and_wanted(mig: bool | None) -> None:
    result = look(CHECK, gpu(0, mig=mig), options=WANTED)
    assert (result.verdict, result.summary) == ("warn", "MIG mode of GPU 0 (0001:00:00.0) is off, and is wanted")


def test_cannot_measure_where_a_gpu_does_not_tell() -> None:
    result = look(CHECK, gpu(0, mig=None, errors={"mig": "Unknown Error"}))
    assert (result.verdict, result.summary) == (
        "unknown",
        "GPU 0 (0001:00:00.0) does not tell whether MIG mode is on: Unknown Error",
    )


def test_cannot_measure_gpus_that_cannot_be_read() -> None:
    assert_unread_gpus_are_unknown(CHECK)
