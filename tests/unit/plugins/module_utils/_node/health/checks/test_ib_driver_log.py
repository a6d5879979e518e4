# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the InfiniBand adapters' driver says of firmware and cables."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.ib_driver_log import CHECK
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size

from ..kernel_log_playing import PlayedLog


@pytest.mark.parametrize(
    "line",
    [
        "poll_health:801:(pid 0): device's health compromised - reached miss count",
        "poll_health:812:(pid 0): Fatal error 3 detected",
        "print_health_info:431:(pid 0): Health issue observed, firmware internal error, severity(3) ERROR:",
        "wait_func:1137:(pid 1): ACCESS_REG(0x805) timeout. Will cause a leak of a command resource",
    ],
)
def test_fails_for_firmware_that_stopped(log: PlayedLog, line: str) -> None:
    log.write(f"mlx5_core 0104:00:00.0: {line}")
    (found,) = log.look(CHECK).findings
    assert (found.verdict, found.device, found.action, found.fault) == ("fail", "0104:00:00.0", "replace", "NHC2002")
    assert found.latch


def test_a_complaint_about_a_cable_warns(log: PlayedLog) -> None:
    cable = "mlx5_port_module_event:1131:(pid 0): Port module event[error]: module 0, Cable error, High Temperature"
    log.write(f"mlx5_core 0104:00:00.0: {cable}")
    assert [found.verdict for found in log.look(CHECK).findings] == ["warn"]


def test_passes_what_adapters_say_when_they_start(log: PlayedLog) -> None:
    log.write(
        "mlx5_core 0104:00:00.0: firmware version: 20.31.1014",
        "mlx5_core 0104:00:00.0: Port module event: module 0, Cable plugged",
        "mlx5_core 0104:00:00.0: Health issue observed, firmware internal error, severity(6) INFORMATIONAL:",
    )
    answer = log.look(CHECK)
    assert (answer.findings, [one.value for one in answer.readings]) == ((), [0])


def test_sizes_without_infiniband_are_left_out() -> None:
    assert CHECK.applies(find_size("Standard_ND96asr_v4")) == ""
    assert "InfiniBand" in CHECK.applies(find_size("Standard_NC24ads_A100_v4"))


def test_cannot_measure_without_the_log_or_what_it_has_lost(log: PlayedLog) -> None:
    assert log.look_in_vain(CHECK) == ["unknown", "unknown"]
