# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a machine of an elastic set does: it takes its node name from its lease, and drains when it is evicted."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.step import Context, Outcome
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.steps import instance, join
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import events as cli_events
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main import main
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.eviction import Evictions
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, PASS
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.events import service
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.imds import ScheduledEvent
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.report import Report, encode
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.slurmd_env import ENV_FILE, slurmd_env

VM, OTHER = "11111111-2222-4333-8444-555555555555", "99999999-2222-4333-8444-555555555555"
COMPUTE: dict[str, Any] = {
    "name": "gpu_7",
    "vmId": VM.upper(),
    "vmSize": "Standard_ND96asr_v4",
    "vmScaleSetName": "gpu",
    "osProfile": {"computerName": "gpu000007"},
}


class Node:
    """A machine, and a slurmctld that shows these nodes."""

    def __init__(self, path: Path, shown: str, elastic: bool = True) -> None:
        self.root, self.shown = Root(str(path)), shown
        self.updates: list[str] = []
        settings = {"schema": 1, "cluster": "c", "functions": ["compute"], "controllers": ["10.0.0.4"]}
        self.write("/etc/hpcai/cluster.json", json.dumps({**settings, "elastic": elastic}))
        self.write("/proc/sys/kernel/hostname", "gpu000007\n")
        instance.remember(self.root, COMPUTE)
        self.write(ENV_FILE, slurmd_env("gpu-7", ["10.0.0.4"]))

    def write(self, path: str, text: str) -> None:
        file = Path(self.root.at(path))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def run(self, command: Sequence[str]) -> Result:
        words = list(command[command.index("scontrol") + 1 :])
        if words[1] == "show":
            return Result(tuple(command), 0, self.shown, "")
        self.updates.append(" ".join(words))
        return Result(tuple(command), 0, "", "")

    def join(self) -> Outcome:
        return join.perform(Context(self.root, self.run), lambda _controllers: "10.0.0.9")

    @property
    def options(self) -> str:
        """slurmd's options."""
        return Path(self.root.at(ENV_FILE)).read_text(encoding="utf-8").splitlines()[-1]


def record(name: str, state: str, comment: str = "", address: str = "10.0.0.9") -> str:
    """A node as scontrol shows it."""
    return f"NodeName={name} Arch=x NodeAddr={address} NodeHostName=gpu000007 State={state} MCS=N/A {comment} \n"


def test_slurmd_reports_a_boot_only_while_slurmctld_waits_for_it(tmp_path: Path) -> None:
    lease = f"Comment=hpcai-lease/1/{VM}"
    node = Node(tmp_path, record("gpu-0", "IDLE+CLOUD+POWERED_DOWN") + record("gpu-3", "IDLE+CLOUD+POWERING_UP", lease))
    done = node.join()
    assert done.verdict == PASS
    assert node.options == 'SLURMD_OPTIONS="-N gpu-3 --conf-server 10.0.0.4 -b"'
    assert not node.updates
    # A restart of slurmd under a running job must not look like a reboot of the machine.
    node.shown = record("gpu-3", "ALLOCATED+CLOUD", lease)
    assert node.join().verdict == PASS
    assert node.options == 'SLURMD_OPTIONS="-N gpu-3 --conf-server 10.0.0.4"'
    assert not node.join().changes


@pytest.mark.parametrize("comment", ["", f"Comment=hpcai-lease/1/{OTHER}", f"Reason=Comment=hpcai-lease/1/{VM} [a@b]"])
def test_without_a_lease_slurmd_does_not_start_and_the_node_says_why(tmp_path: Path, comment: str) -> None:
    done = Node(tmp_path, record("gpu-7", "IDLE+CLOUD+POWERING_UP", comment)).join()
    assert done.verdict == FAIL
    assert f"machine {VM} has no lease" in done.summary
    assert "hpcnode elastic status" in done.action


def test_an_elastic_machine_never_claims_the_node_of_its_instance_id(tmp_path: Path) -> None:
    node = Node(tmp_path, "")
    instance.perform(Context(node.root, node.run), lambda _seconds: COMPUTE)
    # Only the real machine asks the metadata service, so the name is decided by the pure part.
    settings, name = instance._identify(Context(node.root, node.run), COMPUTE, False, instance._Notes())
    assert settings
    assert settings.elastic
    assert name == "gpu000007"


def claimed(vm_id: str, state: str, address: str = "10.0.0.8") -> str:
    """Another machine's node, with its health report."""
    report = encode(Report(1795687200, "abcd", vm_id))
    return record("gpu-7", state, f"Extra={report}", address)


def test_a_second_claimant_of_a_static_node_starts_no_slurmd_and_says_why(tmp_path: Path) -> None:
    node = Node(tmp_path, claimed(OTHER, "IDLE+CLOUD"), elastic=False)
    done = node.join()
    assert done.verdict == FAIL
    assert OTHER in done.summary
    assert VM in done.summary
    assert not node.updates


def test_a_second_claimant_of_a_node_whose_machine_sent_no_report_waits_too(tmp_path: Path) -> None:
    node = Node(tmp_path, record("gpu-7", "IDLE+CLOUD", "Extra=", "10.0.0.8"), elastic=False)
    done = node.join()
    assert (done.verdict, node.updates) == (FAIL, [])
    assert "node gpu-7 belongs to another machine at 10.0.0.8, which answers slurmctld" in done.summary
    # slurmctld has noticed that the former machine is gone, or that this one has another address now.
    node.shown = record("gpu-7", "IDLE+CLOUD+NOT_RESPONDING", "Extra=", "10.0.0.8")
    assert node.join().verdict == PASS


@pytest.mark.parametrize(("started", "verdict"), [("11:00:00", PASS), ("09:00:00", FAIL)])
def test_a_node_whose_former_address_is_another_nodes_by_now_is_taken_over(
    tmp_path: Path, started: str, verdict: str
) -> None:
    """slurmctld's pings do not name the node, so the other node's slurmd answers for both."""
    former = claimed(OTHER, "IDLE+CLOUD").replace(" State=", " SlurmdStartTime=2026-11-28T10:00:00 State=")
    other = record("gpu-8", f"IDLE+CLOUD SlurmdStartTime=2026-11-28T{started}", "", "10.0.0.8")
    node = Node(tmp_path, former + other, elastic=False)
    assert node.join().verdict == verdict


@pytest.mark.parametrize(
    ("vm_id", "state"), [(VM, "IDLE+CLOUD"), (OTHER, "IDLE+CLOUD+NOT_RESPONDING"), (OTHER, "DOWN+CLOUD")]
)
def test_a_node_whose_machine_is_gone_or_the_same_is_taken_over(tmp_path: Path, vm_id: str, state: str) -> None:
    node = Node(tmp_path, claimed(vm_id, state), elastic=False)
    assert node.join().verdict == PASS
    assert node.updates == ["update NodeName=gpu-7 NodeAddr=10.0.0.9 NodeHostName=gpu000007"]


def event(kind: str = "Preempt", name: str = "e1") -> ScheduledEvent:
    """A scheduled event of this machine."""
    return ScheduledEvent(name, kind, ("gpu_7",), "Scheduled", 1_700_000_030.0, -1)


def test_an_eviction_drains_the_node_once_with_its_time(tmp_path: Path) -> None:
    node = Node(tmp_path, "")
    evictions = Evictions(node.root, node.run)
    assert not evictions.notice([event("Freeze")], 1_700_000_000.0)
    assert "drained node gpu-7" in evictions.notice([event()], 1_700_000_000.0)
    assert not evictions.notice([event()], 1_700_000_002.0)
    assert node.updates == ["update NodeName=gpu-7 State=DRAIN Reason=hpcai: elastic: evicted at 2023-11-14T22:13:50Z"]


def test_the_service_drains_an_evicted_node_and_then_starts_the_eviction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(tmp_path, "")
    lines: list[str] = []
    asked: list[list[str]] = []

    class Events:
        """Stands in for the service: it gets one event twice."""

        def __init__(self, _root: Root, notice: Callable[[Sequence[ScheduledEvent]], str]) -> None:
            self._notice = notice

        def start_unused(self, ids: set[str]) -> str:
            asked.append(sorted(ids))
            return "started"

        def serve(self, _every_s: float, _ended: Callable[[], bool]) -> None:
            lines.extend(self._notice(events) for events in ([], [event()], [event()]))

    monkeypatch.setattr(service, "Service", Events)
    monkeypatch.setattr(cli_events, "run", node.run)
    monkeypatch.setattr(cli_events.signal, "signal", lambda *_given: None)
    monkeypatch.setattr(cli_events, "Root", lambda _path: node.root)
    monkeypatch.setattr(Root, "is_this_machine", property(lambda _root: True))
    monkeypatch.setattr(Root, "at", lambda root, path: f"{root.path}/{path.lstrip('/')}")
    assert main(["events", "serve"]) == 0
    assert asked == [[], ["e1"]]
    assert (lines[0], lines[2]) == ("started", "started")
    assert "drained node gpu-7" in lines[1]


def test_an_eviction_of_a_static_node_is_left_to_its_watchers(tmp_path: Path) -> None:
    node = Node(tmp_path, "", elastic=False)
    assert not Evictions(node.root, node.run).notice([event()], 1_700_000_000.0)
    assert not node.updates
