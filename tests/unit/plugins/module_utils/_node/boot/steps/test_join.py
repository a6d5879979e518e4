# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Step join: what a node updates at slurmctld, and what it does not change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.step import Context, Outcome, StepFailed
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.steps import join
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, PASS, SKIP
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import node_queries
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.node_queries import NoController
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.slurmd_env import ENV_FILE, slurmd_env

SPARE = "NodeAddr=127.0.0.1 NodeHostName=compute-17 State=DOWN+CLOUD Reason=hpcai: no such instance"
JOINED = "NodeAddr=10.0.0.9 NodeHostName=compute00000H State=IDLE+CLOUD"
OWN = ("10.0.0.9", "10.0.1.1")
STATIC = "NodeAddr=10.0.1.1 NodeHostName=compute-17 State=IDLE"
DRAINED = "State=DOWN+DRAIN Reason=hpcai: boot: gpu: 7 of 8 GPUs [root@2026-11-21T18:16:10]"


class Node:
    """A machine, and a slurmctld that shows the machine's node as ``shown``."""

    def __init__(self, path: Path, shown: str | None) -> None:
        self.root = Root(str(path))
        self.shown = shown
        self.known = True
        self.updates: list[str] = []
        self.write("/proc/sys/kernel/hostname", "compute00000H.internal\n")
        self.write(ENV_FILE, slurmd_env("compute-17", ["10.0.0.4"]))

    def write(self, path: str, text: str) -> None:
        """Write a file of the machine."""
        file = Path(self.root.at(path))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def run(self, command: Sequence[str]) -> Result:
        """Stand in for scontrol."""
        words = list(command[command.index("scontrol") + 1 :])
        if words[:3] == ["--oneliner", "show", "node"]:
            if self.shown is None:
                return Result(tuple(command), 1, f"Node {words[3]} not found\n", "")
            return Result(tuple(command), 0, f"NodeName={words[3]} Arch=x86_64 {self.shown} \n", "")
        if not self.known:
            return Result(tuple(command), 1, "", "slurm_update error: Invalid node name specified\n")
        self.updates.append(" ".join(words))
        return Result(tuple(command), 0, "", "")

    def join(self, check: bool = False) -> Outcome:
        """Do the step."""
        return join.perform(Context(self.root, self.run, check), lambda _controllers: "10.0.0.9", OWN.__contains__)


def test_spare_node_gets_its_address_and_host_name(tmp_path: Path) -> None:
    node = Node(tmp_path, SPARE)
    done = node.join()
    assert done.verdict == PASS
    assert node.updates == ["update NodeName=compute-17 NodeAddr=10.0.0.9 NodeHostName=compute00000H"]
    assert done.changes == ("updated node compute-17 at slurmctld: NodeAddr=10.0.0.9 NodeHostName=compute00000H",)
    assert done.summary == "slurmctld at 10.0.0.4 has node compute-17 at 10.0.0.9"


@pytest.mark.parametrize(("shown", "address"), [(JOINED, "10.0.0.9"), (STATIC, "10.0.1.1")])
def test_node_that_is_up_to_date_or_static_is_not_updated(tmp_path: Path, shown: str, address: str) -> None:
    node = Node(tmp_path, shown)
    done = node.join()
    assert (done.verdict, done.changes, node.updates) == (PASS, (), [])
    assert done.summary.endswith(f"at {address}")


def test_a_machine_with_the_name_of_a_former_static_node_waits_for_site_yml(tmp_path: Path) -> None:
    """Azure has given the instance id again, with another address. slurm.conf on all machines has the former one."""
    node = Node(tmp_path, STATIC.replace("10.0.1.1", "10.0.2.2"))
    done = node.join()
    assert (done.verdict, done.changes, node.updates) == (FAIL, (), [])
    assert done.summary.endswith("declares node compute-17 with the address 10.0.2.2, but this machine has 10.0.0.9")
    assert "Run site.yml" in done.action
    node.shown = STATIC
    assert node.join().verdict == PASS


@pytest.mark.parametrize(
    ("address", "own"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("10.255.255.254", False), ("fd12:3456:789a::1", False)],
)
def test_private_addresses_of_other_machines_are_recognised(address: str, own: bool) -> None:
    assert node_queries.is_own_address(address) == own


@pytest.mark.parametrize("address", ["20.50.60.70", "compute-17.internal", ""])
def test_a_name_or_a_translated_address_may_be_this_machines(address: str) -> None:
    assert node_queries.is_own_address(address)


@pytest.mark.parametrize(
    "shown",
    [
        JOINED.replace("10.0.0.9", "10.0.0.8").replace("IDLE+CLOUD", "IDLE+CLOUD+NOT_RESPONDING"),
        JOINED.replace("compute00000H", "other"),
    ],
)
def test_changed_address_or_host_name_is_updated(tmp_path: Path, shown: str) -> None:
    node = Node(tmp_path, shown)
    assert node.join().verdict == PASS
    assert node.updates == ["update NodeName=compute-17 NodeAddr=10.0.0.9 NodeHostName=compute00000H"]


def test_spare_node_that_slurmctld_hides_is_updated(tmp_path: Path) -> None:
    node = Node(tmp_path, None)
    assert node.join().verdict == PASS
    assert len(node.updates) == 1


def test_node_that_slurmctld_does_not_know_fails(tmp_path: Path) -> None:
    node = Node(tmp_path, None)
    node.known = False
    done = node.join()
    assert (done.verdict, done.summary) == (FAIL, "slurmctld at 10.0.0.4 knows no node compute-17")
    assert "slurm_spare_nodes" in done.action
    assert "site.yml" in done.action


@pytest.mark.parametrize(
    "shown", [f"{STATIC.rpartition('State')[0]}{DRAINED}", JOINED.replace("State=IDLE+CLOUD", DRAINED)]
)
def test_drain_by_an_earlier_boot_is_undone(tmp_path: Path, shown: str) -> None:
    node = Node(tmp_path, shown)
    done = node.join()
    assert done.verdict == PASS
    assert node.updates == ["update NodeName=compute-17 State=UNDRAIN"]
    assert done.changes == ("undrained node compute-17, which had the reason: hpcai: boot: gpu: 7 of 8 GPUs",)


@pytest.mark.parametrize(
    "reason",
    ["bad fan, ticket 4711", "hpcai: site: could not be configured", "hpcai: health: boot: slow", "hpcai: boots"],
)
def test_any_other_drain_reason_stays(tmp_path: Path, reason: str) -> None:
    node = Node(tmp_path, f"NodeAddr=10.0.1.1 NodeHostName=a State=IDLE+DRAIN Reason={reason} [op@2026-11-21T18:16:10]")
    assert node.join().verdict == PASS
    assert node.updates == []


def test_check_mode_reports_the_same_and_changes_nothing(tmp_path: Path) -> None:
    shown = SPARE.replace("DOWN+CLOUD", "DOWN+CLOUD+DRAIN").replace("no such instance", "boot: gpu: none")
    checked, done = Node(tmp_path, shown), Node(tmp_path, shown)
    assert checked.join(check=True) == done.join()
    assert checked.updates == []
    assert len(done.updates) == 2


def test_unreachable_controller_fails_at_once(tmp_path: Path) -> None:
    node = Node(tmp_path, SPARE)

    def refuse(controllers: Sequence[str]) -> str:
        assert tuple(controllers) == ("10.0.0.4",)
        raise NoController("10.0.0.4:6817: Connection refused")

    done = join.perform(Context(node.root, node.run), refuse)
    assert done.verdict == FAIL
    assert "no controller answers (10.0.0.4:6817: Connection refused)" in done.summary
    assert node.updates == []


def test_machine_without_slurmd_env_is_skipped(tmp_path: Path) -> None:
    node = Node(tmp_path, SPARE)
    Path(node.root.at(ENV_FILE)).unlink()
    assert node.join().verdict == SKIP


def test_incomplete_slurmd_env_is_an_error(tmp_path: Path) -> None:
    node = Node(tmp_path, SPARE)
    node.write(ENV_FILE, "SLURMD_OPTIONS=\n")
    with pytest.raises(ConfigError, match="no SLURMD_OPTIONS"):
        node.join()


def test_machine_without_a_host_name_is_an_error(tmp_path: Path) -> None:
    node = Node(tmp_path, SPARE)
    node.write("/proc/sys/kernel/hostname", "\n")
    with pytest.raises(StepFailed, match="no host name"):
        node.join()


def test_error_of_slurmctld_is_passed_on(tmp_path: Path) -> None:
    node = Node(tmp_path, SPARE)

    def run(command: Sequence[str]) -> Result:
        return Result(tuple(command), 1, "", "slurm_load_node error: Protocol authentication error\n")

    with pytest.raises(CommandFailed, match="Protocol authentication error"):
        join.perform(Context(node.root, run), lambda _controllers: "10.0.0.9")
