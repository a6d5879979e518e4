# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services: running, failed, missing, starting, and which of them a node needs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import TIERS, Answer, History
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.services import SERVICES
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

from ..playing import ND_A100, NOW, context

RUNNING, FAILED = "loaded active running success", "loaded failed failed exit-code"
STARTING, STOPPED = "loaded activating auto-restart exit-code", "loaded inactive dead success"
MISSING, MASKED = "not-found inactive dead success", "masked x dead x"
PROPERTIES = "--property=LoadState,ActiveState,SubState,Result"


class Node:
    """A node with systemd."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.history = folder, History()
        self.states: dict[str, str] = {"chrony": MISSING}
        self.failed, self.now = "", NOW
        self.rc = {"show": 0, "list-units": 0}
        self.ran: list[str] = []

    def join_cluster(self, *functions: str) -> None:
        """Let the node belong to a cluster, with these functions."""
        file = self.folder / "etc/hpcai/cluster.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        content = {"schema": 1, "cluster": "a", "functions": list(functions), "controllers": ["10.0.0.4"]}
        file.write_text(json.dumps(content), encoding="ascii")

    def run(self, command: Sequence[str]) -> Result:
        """Answer as systemctl does."""
        self.ran.append(" ".join(command))
        assert command[0] == "systemctl"
        rc = self.rc[command[1]]
        if rc:
            return Result(tuple(command), rc, "", "Failed to connect to bus")
        if command[1] == "list-units":
            return Result(tuple(command), 0, self.failed, "")
        assert command[-1] == PROPERTIES
        names = [name.split("=")[-1] for name in PROPERTIES.split("=")[1].split(",")]
        blocks = []
        for unit in command[2:-1]:
            values = self.states.get(unit, RUNNING).split()
            if not values:
                blocks.append(f"Id={unit}.service\n")
                continue
            blocks.append("".join(f"{name}={value}\n" for name, value in zip(names, values, strict=True)))
        return Result(tuple(command), 0, "\n".join(blocks), "")

    def measure(self, tier: str = "periodic", size: str | None = ND_A100, **options: object) -> Answer:
        """Check the services."""
        given = context(
            root=self.folder,
            run=self.run,
            tier=tier,
            size=size,
            history=self.history,
            now=self.now,
            options={"services": options},
        )
        return SERVICES.measure(given)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A compute node with all services running."""
    made = Node(tmp_path)
    made.join_cluster("compute")
    return made


def verdicts(answer: Answer) -> list[tuple[str, str]]:
    """Return verdict and summary of each finding."""
    return [(found.verdict, found.summary) for found in answer.findings]


def test_passes_if_all_run_with_one_command_before_a_job(node: Node) -> None:
    answer = node.measure("prolog")
    assert answer.findings == ()
    assert answer.good == "munge, slurmd, nvidia-fabricmanager, nvidia-persistenced, chronyd run"
    asked = "munge slurmd nvidia-fabricmanager nvidia-persistenced chrony chronyd"
    assert node.ran == [f"systemctl show {asked} {PROPERTIES}"]
    assert answer.limit == "active: munge, slurmd, nvidia-fabricmanager"


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", ["munge", "nvidia-fabricmanager"])
def test_fails_if_a_needed_service_does_not_run(node: Node, name: str, tier: str) -> None:
    node.states[name] = FAILED
    who = "the NVSwitches need" if name.startswith("nvidia") else "Slurm needs"
    assert verdicts(node.measure(tier)) == [("fail", f"{name} is failed (exit-code), but {who} it")]


@pytest.mark.parametrize(
    ("state", "words"),
    [(STOPPED, "inactive"), (MISSING, "not installed"), (MASKED, "masked"), (FAILED, "failed (exit-code)")],
)
def test_fails_in_each_state_other_than_active(node: Node, state: str, words: str) -> None:
    node.states["slurmd"] = state
    assert verdicts(node.measure()) == [("fail", f"slurmd is {words}, but jobs need it")]


def test_slurmd_is_not_checked_at_boot_because_it_starts_later(node: Node) -> None:
    node.states["slurmd"] = STOPPED
    assert node.measure("boot").findings == ()


def test_a_starting_service_fails_after_two_minutes(node: Node) -> None:
    node.states["slurmd"] = STARTING
    assert verdicts(node.measure()) == [("warn", "slurmd is activating (exit-code)")]
    node.now += 119
    assert verdicts(node.measure()) == [("warn", "slurmd is activating (exit-code)")]
    node.now += 1
    assert verdicts(node.measure()) == [("fail", "slurmd is activating (exit-code), but jobs need it")]
    del node.states["slurmd"]
    assert node.measure().findings == ()
    node.states["slurmd"] = STARTING
    assert verdicts(node.measure()) == [("warn", "slurmd is activating (exit-code)")]


def test_prolog_and_epilog_during_a_restart_of_slurmd_only_warn(node: Node) -> None:
    """slurmd ends its prolog before it stops, and the epilog follows at once."""
    node.states["slurmd"] = "loaded deactivating stop-sigterm success"
    assert verdicts(node.measure("prolog")) == [("warn", "slurmd is deactivating")]
    assert verdicts(node.measure("epilog")) == [("warn", "slurmd is deactivating")]


def test_history_of_an_earlier_release_is_ignored(node: Node) -> None:
    node.history.keep("on_their_way", ["slurmd"])
    node.states["slurmd"] = STARTING
    assert verdicts(node.measure()) == [("warn", "slurmd is activating (exit-code)")]


def test_optional_services_only_warn(node: Node) -> None:
    node.states.update({"nvidia-persistenced": FAILED, "chronyd": STOPPED})
    assert verdicts(node.measure()) == [
        ("warn", "nvidia-persistenced is failed (exit-code)"),
        ("warn", "chronyd is inactive"),
    ]
    node.states.update({"nvidia-persistenced": MISSING, "chronyd": MISSING})
    assert node.measure().findings == ()


def test_other_failed_units_warn(node: Node) -> None:
    node.failed = "cloud-final.service loaded failed failed Execute\nslurmd.service loaded failed failed Slurm\n"
    node.failed += "home.mount loaded failed failed /home\n"
    node.states["slurmd"] = FAILED
    assert verdicts(node.measure()) == [
        ("fail", "slurmd is failed (exit-code), but jobs need it"),
        ("warn", "2 units failed: cloud-final.service, home.mount"),
    ]


@pytest.mark.parametrize(
    ("functions", "size", "needed"),
    [
        (("controller",), None, "munge, slurmctld"),
        (("controller", "compute"), None, "munge, slurmd, slurmctld"),
        (("compute",), "Standard_NC96ads_A100_v4", "munge, slurmd"),
        (("login",), "Standard_ND96is_H100_v5", "nvidia-fabricmanager"),
    ],
)
def test_function_and_size_decide_which_services_are_needed(
    node: Node, functions: tuple[str, ...], size: str | None, needed: str
) -> None:
    node.join_cluster(*functions)
    assert node.measure(size=size).limit == f"active: {needed}"


def test_outside_a_cluster_services_of_devices_are_checked(tmp_path: Path) -> None:
    assert Node(tmp_path).measure(size="Standard_NC96ads_A100_v4").good == "nvidia-persistenced run"
    assert Node(tmp_path).measure(size=None, needed=["sssd"]).good == "sssd run"


def test_amd_gpus_need_no_service_of_nvidia(node: Node) -> None:
    assert node.measure(size="Standard_ND96isr_MI300X_v5").good == "munge, slurmd, chronyd run"


def test_the_site_can_add_and_remove_services(node: Node) -> None:
    node.states.update({"munge": FAILED, "sssd": FAILED})
    answer = node.measure(needed=["sssd"], not_needed=["munge"])
    assert verdicts(answer) == [("fail", "sssd is failed (exit-code), but the site needs it")]


def test_is_skipped_if_nothing_is_needed(tmp_path: Path) -> None:
    assert Node(tmp_path).measure(size=None).skipped.startswith("this machine belongs to no cluster")


@pytest.mark.parametrize("rc", [1, 124, 127])
def test_cannot_measure_without_an_answer_from_systemd(node: Node, rc: int) -> None:
    node.rc["show"] = rc
    assert verdicts(node.measure()) == [("unknown", "cannot get the state of services from systemd")]
    node.rc["show"] = 0
    node.states["munge"] = ""
    assert verdicts(node.measure()) == [("unknown", "cannot get the state of munge from systemd")]
    del node.states["munge"]
    node.rc["list-units"] = rc
    assert verdicts(node.measure()) == [("unknown", "cannot get the failed units from systemd")]
