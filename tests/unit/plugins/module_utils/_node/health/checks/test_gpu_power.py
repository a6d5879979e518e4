# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Power limits: the model's own, a lowered one, one that is not told."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.gpu_power import CHECK

from ..gpu_playing import assert_unread_gpus_are_unknown, gpu, look


@pytest.mark.parametrize("watts", [400.0, 450.0])
def test_passes_where_a_gpu_may_draw_what_its_model_may(watts: float) -> None:
    result = look(CHECK, gpu(0, power_limit=watts, power=312.5))
    assert result.verdict == "pass"
    assert [(one.name, one.value, one.limit) for one in result.answer.readings] == [
        ("gpu_power", 312.5, None),
        ("gpu_power_limit", watts, 400.0),
    ]


def test_fails_to_be_as_it_should_where_the_limit_was_lowered() -> None:
    result = look(CHECK, gpu(0), gpu(1, power_limit=399.0))
    assert (result.verdict, result.summary) == (
        "warn",
        "GPU 1 (0002:00:00.0) may draw 399 W only, and its model 400 W",
    )
    assert result.hint.startswith("'nvidia-smi -i 1 -pl 400' sets it back")


@pytest.mark.parametrize("untold", ["power_limit", "power_default"])
def test_cannot_measure_where_a_gpu_does_not_tell(untold: str) -> None:
    result = look(CHECK, gpu(0, errors={untold: "Unknown Error"}, **{untold: None}))
    assert (result.verdict, result.summary) == (
        "unknown",
        "GPU 0 (0001:00:00.0) does not tell what power it may draw: Unknown Error",
    )


def test_cannot_measure_gpus_that_cannot_be_read() -> None:
    assert_unread_gpus_are_unknown(CHECK)
