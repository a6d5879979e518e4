# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Step fabric: fabric manager and InfiniBand ports that are up, late, wrong or missing."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from stand_ins.infiniband import put_port, put_ports_of
from stand_ins.sized_machine import SizedMachine

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.step import Context, Outcome
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.steps.fabric import STEP
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

START = "systemctl --no-block start nvidia-fabricmanager"
RUNNING, FAILED = "loaded active running success", "loaded failed failed exit-code"
STARTING, STOPPED = "loaded activating start success", "loaded inactive dead success"
MISSING, MASKED = "not-found inactive dead success", "masked inactive dead success"


class Node:
    """A machine of a VM size, its fabric manager, and a clock that only sleep() advances."""

    def __init__(self, path: Path, size: str) -> None:
        self.path = path
        SizedMachine.of_size(path, size)
        put_ports_of(path, size)
        self.settings(vm_size=size)
        self.manager, self.after_start = RUNNING, RUNNING
        self.now = 0.0
        self.ran: list[str] = []
        self.events: list[tuple[float, Callable[[], Any]]] = []

    def settings(self, **content: Any) -> None:
        """Write /etc/hpcai/node.json."""
        file = self.path / "etc/hpcai/node.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"schema": 1, **content}), encoding="ascii")

    def at(self, second: float, what: Callable[[], Any]) -> None:
        """Call a function at this second of the step's wait."""
        self.events.append((second, what))

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        for event in [event for event in self.events if event[0] <= self.now]:
            self.events.remove(event)
            event[1]()

    def run(self, command: Sequence[str]) -> Result:
        """Answer as systemd and journald do."""
        line = " ".join(command)
        if command[:2] == ["systemctl", "show"] and command[2] == "nvidia-fabricmanager":
            names = command[3].removeprefix("--property=").split(",")
            values = zip(names, self.manager.split(), strict=True)
            return Result(tuple(command), 0, "".join(f"{name}={value}\n" for name, value in values), "")
        self.ran.append(line)
        if line == START:
            self.manager = self.after_start
            return Result(tuple(command), 0, "", "")
        assert command[0] == "journalctl"
        return Result(tuple(command), 0, "fabric manager NVIDIA GPU driver version 550.1 does not match\n", "")

    def perform(self, check: bool = False) -> Outcome:
        """Perform the step."""
        return STEP.perform(Context(Root(str(self.path)), self.run, check, STEP.limit_s))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A healthy ND96asr_v4."""
    made = Node(tmp_path, "Standard_ND96asr_v4")
    monkeypatch.setattr(time, "sleep", made.sleep)
    monkeypatch.setattr(time, "monotonic", lambda: made.now)
    return made


def verdict(outcome: Outcome) -> tuple[str, str]:
    """Return the verdict and the summary."""
    return outcome.verdict, outcome.summary


def test_manager_and_eight_ports_pass_at_once(node: Node) -> None:
    outcome = node.perform()
    assert verdict(outcome) == ("pass", "nvidia-fabricmanager is active, 8 InfiniBand ports are active")
    assert (node.now, node.ran, outcome.changes) == (0, [], ())
    json.dumps(dict(outcome.details))


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ("Standard_NC96ads_A100_v4", "Standard_NC96ads_A100_v4 is expected to have neither NVSwitch nor InfiniBand"),
        ("Standard_Mine", "Standard_Mine is expected to have neither NVSwitch nor InfiniBand"),
    ],
)
def test_a_size_without_nvswitch_and_infiniband_is_skipped(node: Node, size: str, words: str) -> None:
    shutil.rmtree(node.path / "sys/class/infiniband")
    node.manager = MISSING
    node.settings(vm_size=size, vm_sizes={"Standard_Mine": {"vcpus": 4}})
    assert verdict(node.perform()) == ("skip", words)


def test_a_controller_of_an_unknown_size_is_skipped(node: Node) -> None:
    node.settings(vm_size="Standard_D4s_v5")
    cluster = {"schema": 1, "cluster": "a", "functions": ["controller"], "controllers": ["10.0.0.4"]}
    (node.path / "etc/hpcai/cluster.json").write_text(json.dumps(cluster), encoding="ascii")
    assert node.perform().verdict == "skip"


def test_a_size_without_infiniband_needs_the_manager_only(node: Node) -> None:
    shutil.rmtree(node.path / "sys/class/infiniband")
    node.settings(vm_size="Standard_ND96is_H100_v5")
    assert verdict(node.perform()) == ("pass", "nvidia-fabricmanager is active")


def test_a_size_without_nvswitch_needs_infiniband_only(node: Node) -> None:
    node.manager = MISSING
    for number in range(8):
        put_port(node.path, f"mlx5_ib{number}", gbps=400)
    node.settings(vm_size="Standard_ND96isr_MI300X_v5")
    assert verdict(node.perform()) == ("pass", "8 InfiniBand ports are active")


@pytest.mark.parametrize("state", [STOPPED, FAILED])
def test_a_stopped_manager_is_started_once_and_waited_for(node: Node, state: str) -> None:
    """It exits at once if it was started before the driver was loaded."""
    node.manager, node.after_start = state, STARTING
    node.at(20, lambda: setattr(node, "manager", RUNNING))
    outcome = node.perform()
    assert (outcome.verdict, outcome.changes) == ("pass", ("systemctl start nvidia-fabricmanager",))
    assert (node.ran, node.now) == ([START], 20)


def test_a_manager_that_fails_again_is_reported_with_its_log(node: Node) -> None:
    node.manager = node.after_start = FAILED
    outcome = node.perform()
    assert verdict(outcome) == (
        "fail",
        "nvidia-fabricmanager is failed (exit-code), but the NVSwitches need it: "
        "fabric manager NVIDIA GPU driver version 550.1 does not match",
    )
    assert "journalctl -b -u nvidia-fabricmanager" in outcome.action
    assert (node.ran[0], node.now) == (START, 0)


def test_the_wait_for_a_starting_manager_is_limited(node: Node) -> None:
    node.manager = STARTING
    assert node.perform().summary.startswith("nvidia-fabricmanager is activating")
    assert STEP.limit_s - 15 < node.now < STEP.limit_s


@pytest.mark.parametrize(("state", "words"), [(MISSING, "not installed"), (MASKED, "masked")])
def test_a_missing_or_masked_manager_fails_at_once(node: Node, state: str, words: str) -> None:
    node.manager = state
    outcome = node.perform()
    assert verdict(outcome) == ("fail", f"nvidia-fabricmanager is {words}, but the NVSwitches need it")
    assert (node.ran, node.now) == ([], 0)


def test_a_systemd_that_does_not_answer_is_unknown(node: Node) -> None:
    node.run = lambda command: Result(tuple(command), 1, "", "Failed to connect to bus")  # type: ignore[method-assign]
    assert node.perform().verdict == "unknown"


@pytest.mark.parametrize(("state", "physical"), [("DOWN", "2: Polling"), ("INIT", "5: LinkUp"), ("ARMED", "5: LinkUp")])
def test_waits_for_ports_that_come_up_late(node: Node, state: str, physical: str) -> None:
    put_port(node.path, "mlx5_ib3", state=state, physical=physical)
    node.at(30, lambda: put_port(node.path, "mlx5_ib3"))
    assert node.perform().verdict == "pass"
    assert node.now == 30


def test_ports_that_stay_down_are_named_within_the_time_limit(node: Node) -> None:
    put_port(node.path, "mlx5_ib3", state="DOWN", physical="2: Polling")
    put_port(node.path, "mlx5_ib6", state="INIT")
    outcome = node.perform()
    assert verdict(outcome) == (
        "fail",
        "InfiniBand port mlx5_ib3 (0104:00:00.0) is DOWN (Polling) (and 1 more)",
    )
    assert outcome.details["findings"][1]["summary"] == "InfiniBand port mlx5_ib6 (0107:00:00.0) is INIT (LinkUp)"
    assert "subnet manager" in outcome.details["findings"][1]["action"]
    assert node.now < STEP.limit_s


def test_an_ethernet_port_does_not_count_as_infiniband(node: Node) -> None:
    put_port(node.path, "mlx5_ib7", link_layer="Ethernet")
    outcome = node.perform()
    assert verdict(outcome) == ("fail", "InfiniBand adapter 0108:00:00.0 has no RDMA device")


def test_adapters_missing_or_without_rdma_device_are_named(node: Node) -> None:
    for number in (1, 4):
        shutil.rmtree(node.path / f"sys/class/infiniband/mlx5_ib{number}")
    shutil.rmtree(node.path / "sys/bus/pci/devices/0105:00:00.0")
    assert [found["summary"] for found in node.perform().details["findings"]] == [
        "InfiniBand adapter 0105:00:00.0 is not on the PCI bus",
        "InfiniBand adapter 0102:00:00.0 has no RDMA device",
    ]


def test_missing_rdma_devices_of_all_adapters_fail(node: Node) -> None:
    shutil.rmtree(node.path / "sys/class/infiniband")
    outcome = node.perform()
    assert verdict(outcome) == ("fail", "InfiniBand adapter 0101:00:00.0 has no RDMA device (and 7 more)")
    assert "mlx5_ib" in outcome.action


def test_a_machine_without_adapters_fails(node: Node) -> None:
    shutil.rmtree(node.path / "sys/class/infiniband")
    for adapter in (node.path / "sys/bus/pci/devices").glob("01*"):
        shutil.rmtree(adapter)
    outcome = node.perform()
    assert verdict(outcome) == ("fail", "InfiniBand adapter 0101:00:00.0 is not on the PCI bus (and 7 more)")


def test_a_sysfs_without_any_devices_is_unknown(node: Node) -> None:
    shutil.rmtree(node.path / "sys/class/infiniband")
    shutil.rmtree(node.path / "sys/bus/pci/devices")
    assert verdict(node.perform()) == ("unknown", "sysfs shows neither PCI nor RDMA devices")


def test_extra_ports_are_ignored(node: Node) -> None:
    put_port(node.path, "mlx5_ib8", state="DOWN", physical="2: Polling")
    assert node.perform().verdict == "pass"


def test_warns_of_a_slow_port(node: Node) -> None:
    put_port(node.path, "mlx5_ib2", gbps=100)
    outcome = node.perform()
    assert verdict(outcome) == (
        "warn",
        "mlx5_ib2 (0103:00:00.0) runs at 100 Gb/s instead of 200",
    )
    assert node.now == 0


def test_the_worst_finding_is_the_summary_and_details_list_all(node: Node) -> None:
    put_port(node.path, "mlx5_ib2", gbps=100)
    node.manager = MISSING
    outcome = node.perform()
    assert verdict(outcome) == (
        "fail",
        "nvidia-fabricmanager is not installed, but the NVSwitches need it (and 1 more)",
    )
    assert [found["verdict"] for found in outcome.details["findings"]] == ["fail", "warn"]


def test_check_mode_starts_nothing_and_does_not_wait(node: Node) -> None:
    node.manager = STOPPED
    outcome = node.perform(check=True)
    assert (outcome.verdict, outcome.changes) == ("pass", ("systemctl start nvidia-fabricmanager",))
    put_port(node.path, "mlx5_ib3", state="DOWN")
    assert node.perform(check=True).verdict == "fail"
    assert (node.ran, node.now) == ([], 0)
