# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What slows GPUs down: nothing, each of the reasons alone and together with others, no answer."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.gpu_throttle import CHECK

from ..gpu_playing import assert_unread_gpus_are_unknown, gpu, look

# As nvml.h numbers them, and not as the product spells them.
IDLE, SETTING, POWER_CAP, HARDWARE, SYNC_BOOST, THERMAL, HARDWARE_THERMAL, POWER_BRAKE, DISPLAY = (
    1,
    2,
    4,
    8,
    0x10,
    0x20,
    0x40,
    0x80,
    0x100,
)


@pytest.mark.parametrize("reasons", [0, IDLE, SETTING, POWER_CAP, SYNC_BOOST, DISPLAY, IDLE | SETTING | DISPLAY])
def test_passes_where_nothing_is_wrong(reasons: int) -> None:
    result = look(CHECK, gpu(0, reasons=reasons))
    assert (result.verdict, result.answer.readings[0].value) == ("pass", reasons)


@pytest.mark.parametrize(
    ("reasons", "why", "fault"),
    [
        (HARDWARE_THERMAL, "it is too hot (HW thermal slowdown)", "NHC2017"),
        (POWER_BRAKE, "its power supply demands it (HW power brake)", "NHC2010"),
        (HARDWARE, "of heat or power (HW slowdown)", "NHC2010"),
        # Bits come together: comparing the whole number with one of them finds nothing.
        (HARDWARE_THERMAL | HARDWARE, "it is too hot (HW thermal slowdown)", "NHC2017"),
        (POWER_BRAKE | HARDWARE | POWER_CAP, "its power supply demands it (HW power brake)", "NHC2010"),
        (HARDWARE | IDLE | SETTING | THERMAL, "of heat or power (HW slowdown)", "NHC2010"),
    ],
)
def test_fails_where_the_hardware_slows_down(reasons: int, why: str, fault: str) -> None:
    result = look(CHECK, gpu(0), gpu(1, reasons=reasons))
    assert (result.verdict, result.fault) == ("fail", fault)
    assert result.summary == f"the hardware slows GPU 1 (0002:00:00.0) down because {why}"


def test_heat_that_the_driver_answers_to_is_a_warning() -> None:
    result = look(CHECK, gpu(0, reasons=THERMAL | SETTING))
    assert (result.verdict, result.summary) == (
        "warn",
        "the driver slows GPU 0 (0001:00:00.0) down because it is too hot (SW thermal slowdown)",
    )


@pytest.mark.parametrize(("limit", "verdict"), [(399.0, "warn"), (400.0, "pass"), (None, "pass")])
def test_a_power_cap_is_a_warning_where_somebody_has_lowered_it(limit: float | None, verdict: str) -> None:
    assert look(CHECK, gpu(0, reasons=POWER_CAP, power_limit=limit)).verdict == verdict
    assert look(CHECK, gpu(0, reasons=IDLE, power_limit=limit)).verdict == "pass"


def test_cannot_measure_where_a_gpu_does_not_tell() -> None:
    result = look(CHECK, gpu(0, reasons=None))
    assert (result.verdict, result.summary) == (
        "unknown",
        "GPU 0 (0001:00:00.0) does not tell why its clocks are not higher",
    )


def test_cannot_measure_gpus_that_cannot_be_read() -> None:
    assert_unread_gpus_are_unknown(CHECK)
