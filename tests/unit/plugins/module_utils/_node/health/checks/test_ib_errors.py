# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Errors of InfiniBand links, flaps, and the adapters' driver in the kernel's log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stand_ins.infiniband import put_ports_of

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import Answer, History
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.ib_errors import (
    BEARABLE,
    IB_DRIVER_LOG,
    IB_ERRORS,
    IB_FLAPS,
    LIMITS,
    WINDOW_S,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size

from ..kernel_log_playing import PlayedLog
from ..playing import ND_A100, NOW, context


class IbErrorsNode:
    """A machine whose error counters a test sets."""

    def __init__(self, path: Path) -> None:
        self.path, self.history = path, History()
        put_ports_of(path, ND_A100)
        for number in range(8):
            for name in LIMITS:
                self.count(f"mlx5_ib{number}", name, 3)

    def count(self, device: str, name: str, value: int) -> None:
        """Set a counter."""
        file = self.path / f"sys/class/infiniband/{device}/ports/1/counters/{name}"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{value}\n", encoding="ascii")

    def measure(self) -> Answer:
        """Check the counters; the history is kept for the next run."""
        return IB_ERRORS.measure(context(root=self.path, history=self.history))


@pytest.fixture
def node_ib_errors(tmp_path: Path) -> IbErrorsNode:
    """A machine that was checked once."""
    made = IbErrorsNode(tmp_path)
    assert made.measure().skipped.startswith("the first run in this boot")
    return made


@pytest.mark.parametrize("name", LIMITS)
def test_ib_errors_passes_up_to_the_limit(node_ib_errors: IbErrorsNode, name: str) -> None:
    node_ib_errors.count("mlx5_ib5", name, 3 + LIMITS[name])
    answer = node_ib_errors.measure()
    assert answer.findings == ()
    assert len(answer.readings) == 8 * len(LIMITS)


@pytest.mark.parametrize("name", LIMITS)
def test_ib_errors_fails_if_too_many_come_twice_in_a_row(node_ib_errors: IbErrorsNode, name: str) -> None:
    node_ib_errors.count("mlx5_ib5", name, 3 + LIMITS[name] + 1)
    (first,) = node_ib_errors.measure().findings
    assert (first.verdict, first.device) == ("warn", "mlx5_ib5")
    assert first.summary == f"mlx5_ib5 has 11 new {name} since the last run"
    node_ib_errors.count("mlx5_ib5", name, 100)
    (second,) = node_ib_errors.measure().findings
    assert (second.verdict, second.summary) == (
        "fail",
        f"mlx5_ib5 has 86 new {name} since the last run, as before",
    )


def test_ib_errors_that_stop_in_between_do_not_fail(node_ib_errors: IbErrorsNode) -> None:
    for value, verdicts in ((50, ["warn"]), (50, []), (90, ["warn"])):
        node_ib_errors.count("mlx5_ib5", "symbol_error", value)
        assert [found.verdict for found in node_ib_errors.measure().findings] == verdicts


def test_ib_errors_a_counter_that_was_reset_starts_again(node_ib_errors: IbErrorsNode) -> None:
    node_ib_errors.count("mlx5_ib5", "symbol_error", 1000)
    node_ib_errors.measure()
    node_ib_errors.count("mlx5_ib5", "symbol_error", 10)
    assert node_ib_errors.measure().findings == ()
    node_ib_errors.count("mlx5_ib5", "symbol_error", 0)
    assert node_ib_errors.measure().findings == ()


def test_ib_errors_a_new_counter_is_compared_in_the_next_run(node_ib_errors: IbErrorsNode) -> None:
    node_ib_errors.count("mlx5_ib5", "symbol_error", 20)
    (node_ib_errors.path / "sys/class/infiniband/mlx5_ib5/ports/1/counters/symbol_error").unlink()
    assert node_ib_errors.measure().findings == ()
    node_ib_errors.count("mlx5_ib5", "symbol_error", 5000)
    answer = node_ib_errors.measure()
    assert (answer.findings, len(answer.readings)) == ((), 8 * len(LIMITS) - 1)


def test_ib_errors_cannot_measure_without_counters(tmp_path: Path) -> None:
    put_ports_of(tmp_path, ND_A100)
    (found,) = IB_ERRORS.measure(context(root=tmp_path)).findings
    assert (found.verdict, found.summary) == ("unknown", "no InfiniBand port shows its error counters")


def test_ib_errors_cannot_measure_one_port_without_counters(node_ib_errors: IbErrorsNode) -> None:
    for name in LIMITS:
        (node_ib_errors.path / f"sys/class/infiniband/mlx5_ib5/ports/1/counters/{name}").unlink()
    assert [(found.verdict, found.device) for found in node_ib_errors.measure().findings] == [("unknown", "mlx5_ib5")]


LINK_DOWNED, CARRIER = "link_downed", "carrier_down_count"


class IbFlapsNode:
    """A machine with eight ports, their IPoIB interfaces, and what networkd logged about them."""

    def __init__(self, path: Path) -> None:
        self.path, self.history, self.now = path, History(), NOW
        put_ports_of(path, ND_A100)
        for number, hca in enumerate(find_size(ND_A100).hcas or ()):
            folder = path / f"sys/class/net/ib{number}"
            folder.mkdir(parents=True)
            (folder / "device").symlink_to(f"../../../{hca.busid}")
            self.count(number, 1)
        self.log: dict[str, str | tuple[int, str]] = {}

    def count(self, number: int, value: int, *names: str) -> None:
        """Set counters of a port, by default both."""
        port, net = self._files(number)
        port.parent.mkdir(exist_ok=True)
        for name in names or (LINK_DOWNED, CARRIER):
            (port if name == LINK_DOWNED else net).write_text(f"{value}\n", encoding="ascii")

    def without_counters(self, number: int) -> None:
        """Remove both counters of a port."""
        for file in self._files(number):
            file.unlink()

    def logged(self, *lines: tuple[float, str]) -> None:
        """Set the lines that networkd logged, each this many seconds ago."""
        entries = [{"__REALTIME_TIMESTAMP": str(int((self.now - ago) * 1e6)), "MESSAGE": text} for ago, text in lines]
        text = "\n".join(json.dumps(entry) for entry in entries)
        self.log = {"journalctl --boot --unit=systemd-networkd": text}

    def look(self, later_s: float = 300, **also: Any) -> Answer:
        """Check the links some time later."""
        self.now += later_s
        return IB_FLAPS.measure(context(root=self.path, run=self.log, history=self.history, now=self.now, **also))

    def _files(self, number: int) -> tuple[Path, Path]:
        port = self.path / f"sys/class/infiniband/mlx5_ib{number}/ports/1/counters/{LINK_DOWNED}"
        return port, self.path / f"sys/class/net/ib{number}/{CARRIER}"


@pytest.fixture
def node_ib_flaps(tmp_path: Path) -> IbFlapsNode:
    """A machine that was checked once."""
    made = IbFlapsNode(tmp_path)
    assert made.look().skipped.startswith("the first run in this boot")
    return made


@pytest.mark.parametrize("names", [(), (LINK_DOWNED,), (CARRIER,)])
def test_ib_flaps_fails_if_a_link_was_lost_too_often(node_ib_flaps: IbFlapsNode, names: tuple[str, ...]) -> None:
    node_ib_flaps.count(3, 1 + BEARABLE, *names)
    assert not node_ib_flaps.look().findings
    node_ib_flaps.count(3, 2 + BEARABLE, *names)
    (found,) = node_ib_flaps.look().findings
    assert (found.verdict, found.device) == ("fail", "mlx5_ib3")
    assert found.summary == "mlx5_ib3 lost its link 5 times within 24 hours"
    assert (IB_FLAPS.fault, IB_FLAPS.action, IB_FLAPS.blocks_job) == ("NHC2005", "replace", False)


def test_ib_flaps_fails_for_a_day_and_no_longer(node_ib_flaps: IbFlapsNode) -> None:
    node_ib_flaps.count(3, 6)
    assert node_ib_flaps.look().findings
    assert node_ib_flaps.look(later_s=WINDOW_S).findings
    assert not node_ib_flaps.look(later_s=300).findings


def test_ib_flaps_fails_for_losses_logged_before_the_first_run(tmp_path: Path) -> None:
    node_ib_flaps = IbFlapsNode(tmp_path)
    lost = [(3600.0 * number, "ib2: Lost carrier") for number in range(5)]
    node_ib_flaps.logged(*lost, (10, "ib4: Lost carrier"), (20, "ib2: Gained carrier"), (30, "eth0: Lost carrier"))
    answer = node_ib_flaps.look(later_s=0)
    assert [found.summary for found in answer.findings] == ["mlx5_ib2 lost its link 5 times within 24 hours"]
    # Losses from the log are kept, and the counters add to them.
    node_ib_flaps.log = {}
    node_ib_flaps.count(4, 5)
    assert [found.device for found in node_ib_flaps.look().findings] == ["mlx5_ib2", "mlx5_ib4"]


def test_ib_flaps_passes_with_stable_links(node_ib_flaps: IbFlapsNode) -> None:
    answer = node_ib_flaps.look()
    assert (answer.findings, answer.good) == ((), "8 InfiniBand links are stable")
    assert [(one.name, one.value, one.limit) for one in answer.readings] == [("ib_flaps", 0, BEARABLE)] * 8


def test_ib_flaps_passes_losses_logged_more_than_a_day_ago(tmp_path: Path) -> None:
    node_ib_flaps = IbFlapsNode(tmp_path)
    node_ib_flaps.logged(*[(WINDOW_S + 60.0, "ib2: Lost carrier")] * 9, (5, "ib2: Gained carrier"))
    answer = node_ib_flaps.look(later_s=0)
    assert (answer.findings, len(answer.readings)) == ((), 8)


def test_ib_flaps_passes_a_counter_that_was_reset(node_ib_flaps: IbFlapsNode) -> None:
    node_ib_flaps.count(3, 200)
    node_ib_flaps.history = History()
    node_ib_flaps.look()
    node_ib_flaps.count(3, 2)
    answer = node_ib_flaps.look()
    assert not answer.findings
    assert [one.value for one in answer.readings if one.device == "mlx5_ib3"] == [2]


def test_ib_flaps_the_site_can_allow_more(node_ib_flaps: IbFlapsNode) -> None:
    node_ib_flaps.count(3, 8)
    answer = node_ib_flaps.look(limits={"ib_flaps": 7})
    assert not answer.findings
    assert answer.limit.startswith("at most 7 times within 24 hours")
    assert [found.verdict for found in node_ib_flaps.look(limits={"ib_flaps": 6}).findings] == ["fail"]


def test_ib_flaps_after_the_first_run_no_process_is_started(node_ib_flaps: IbFlapsNode) -> None:
    node_ib_flaps.log = {}
    assert IB_FLAPS.measure(
        context(
            root=node_ib_flaps.path,
            history=node_ib_flaps.history,
            now=node_ib_flaps.now,
            run=lambda command: pytest.fail(str(command)),
        )
    ).readings


def test_ib_flaps_cannot_measure_without_counters_and_log(node_ib_flaps: IbFlapsNode) -> None:
    node_ib_flaps.without_counters(5)
    answer = node_ib_flaps.look()
    assert [(found.verdict, found.device) for found in answer.findings] == [("unknown", "mlx5_ib5")]
    assert len(answer.readings) == 7


def test_ib_flaps_an_empty_log_is_no_proof_of_stable_links(tmp_path: Path) -> None:
    node_ib_flaps = IbFlapsNode(tmp_path)
    node_ib_flaps.logged()
    assert node_ib_flaps.look().skipped.startswith("the first run in this boot")


def test_ib_flaps_without_counters_the_log_counts(node_ib_flaps: IbFlapsNode) -> None:
    node_ib_flaps.without_counters(5)
    node_ib_flaps.logged(*[(60.0, "ib5: Lost carrier")] * 5)
    assert [(found.verdict, found.device) for found in node_ib_flaps.look(0).findings] == [("fail", "mlx5_ib5")]


def test_ib_flaps_cannot_measure_without_ports(tmp_path: Path) -> None:
    assert [found.verdict for found in IB_FLAPS.measure(context(root=tmp_path)).findings] == ["unknown"]


@pytest.mark.parametrize(
    "line",
    [
        "poll_health:801:(pid 0): device's health compromised - reached miss count",
        "poll_health:812:(pid 0): Fatal error 3 detected",
        "print_health_info:431:(pid 0): Health issue observed, firmware internal error, severity(3) ERROR:",
        "wait_func:1137:(pid 1): ACCESS_REG(0x805) timeout. Will cause a leak of a command resource",
    ],
)
def test_ib_driver_log_fails_for_firmware_that_stopped(log: PlayedLog, line: str) -> None:
    log.write(f"mlx5_core 0104:00:00.0: {line}")
    (found,) = log.look(IB_DRIVER_LOG).findings
    assert (found.verdict, found.device, found.action, found.fault) == ("fail", "0104:00:00.0", "replace", "NHC2002")
    assert found.latch


def test_ib_driver_log_warns_of_a_cable_error(log: PlayedLog) -> None:
    cable = "mlx5_port_module_event:1131:(pid 0): Port module event[error]: module 0, Cable error, High Temperature"
    log.write(f"mlx5_core 0104:00:00.0: {cable}")
    assert [found.verdict for found in log.look(IB_DRIVER_LOG).findings] == ["warn"]


def test_ib_driver_log_passes_messages_of_a_normal_start(log: PlayedLog) -> None:
    log.write(
        "mlx5_core 0104:00:00.0: firmware version: 20.31.1014",
        "mlx5_core 0104:00:00.0: Port module event: module 0, Cable plugged",
        "mlx5_core 0104:00:00.0: Health issue observed, firmware internal error, severity(6) INFORMATIONAL:",
    )
    answer = log.look(IB_DRIVER_LOG)
    assert (answer.findings, [one.value for one in answer.readings]) == ((), [0])


def test_ib_driver_log_applies_to_sizes_with_infiniband() -> None:
    assert IB_DRIVER_LOG.applies(find_size("Standard_ND96asr_v4")) == ""
    assert "InfiniBand" in IB_DRIVER_LOG.applies(find_size("Standard_NC24ads_A100_v4"))


def test_ib_driver_log_cannot_measure_without_the_log_or_with_lost_lines(log: PlayedLog) -> None:
    assert log.look_without_log(IB_DRIVER_LOG) == ["unknown", "unknown"]
