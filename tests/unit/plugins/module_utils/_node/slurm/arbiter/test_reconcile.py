# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Passes over a fake slurmctld: what they do, what they record, and what they report."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter import decide, reconcile, records, status
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.decide import NodeDecision
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.machine_log import LOG
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.observed import ObservedNode
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.settings import Settings

from .playing import HUNG, LOST, NOW, Slurmctld, report

SETTINGS = Settings(max_out="2", metrics="/metrics", stale_s=7200)
OURS = "hpcai: health: gpu_count: 7 of 8 GPUs: 0003:00:00.0 is not there"


@pytest.fixture
def root(tmp_path: pathlib.Path) -> Root:
    """A controller."""
    return Root(str(tmp_path))


def cluster(count: int = 3) -> Slurmctld:
    """A slurmctld with good nodes."""
    slurmctld = Slurmctld()
    for number in range(count):
        slurmctld.add(f"compute-{number}", report(vm_id=f"vm-{number}"))
    return slurmctld


def run_pass(
    slurmctld: Slurmctld, root: Root, settings: Settings = SETTINGS, minutes: float = 0.0
) -> reconcile.Reconciled:
    """Run a pass, this number of minutes later."""
    slurmctld.now = NOW + minutes * 60
    return reconcile.reconcile(root, slurmctld, settings, slurmctld.now)


def test_a_node_is_drained_and_resumed_until_it_is_held_after_three_drains(root: Root) -> None:
    slurmctld = cluster()
    for turn in range(3):
        began = turn * 20.0
        slurmctld.receive("compute-1", report(LOST, vm_id="vm-1", age=-began * 60))
        run_pass(slurmctld, root, minutes=began)
        assert slurmctld.reasons() == {"compute-1": OURS}
        slurmctld.receive("compute-1", report(vm_id="vm-1", age=-(began + 10) * 60))
        run_pass(slurmctld, root, minutes=began + 10)
        held = {"compute-1": f"{OURS} (held: 3 drains in 24 h)"} if turn == 2 else {}
        assert slurmctld.reasons() == held
    assert status.read_status(root) is not None
    document = run_pass(slurmctld, root, minutes=55).status
    assert [alert["kind"] for alert in document["alerts"]] == ["held"]
    assert status.is_bad(document)


def test_each_drain_is_one_command_that_touches_no_job(root: Root) -> None:
    slurmctld = cluster()
    slurmctld.receive("compute-1", report(LOST, vm_id="vm-1"))
    looked = run_pass(slurmctld, root)
    assert [one.words for one in looked.done] == [f"node compute-1 drained: {OURS}"]
    assert slurmctld.commands == [
        "scontrol --oneliner show nodes",
        "scontrol --oneliner show node compute-1",
        f"scontrol update NodeName=compute-1 State=DRAIN Reason={OURS}",
    ]


def test_good_nodes_need_one_query_and_no_record(root: Root) -> None:
    slurmctld = cluster()
    assert run_pass(slurmctld, root).done == ()
    assert slurmctld.commands == ["scontrol --oneliner show nodes"]
    assert records.read(root, SETTINGS.records).machines == {}


def test_a_reason_that_was_set_meanwhile_is_not_overwritten(root: Root) -> None:
    slurmctld = cluster()
    slurmctld.receive("compute-1", report(LOST, vm_id="vm-1"))

    def operator(command: Sequence[str]) -> Result:
        answer = slurmctld(command)
        if command[-1] == "nodes":
            slurmctld.nodes["compute-1"].update(state="IDLE+DRAIN", reason="ticket 4711")
        return answer

    document = reconcile.reconcile(root, operator, SETTINGS, NOW).status
    assert slurmctld.reasons() == {"compute-1": "ticket 4711"}
    assert "somebody else has changed it" in document["actions"][0]["problem"]
    assert records.read(root, SETTINGS.records).machines == {}


def test_a_refusal_of_slurmctld_is_reported_and_not_recorded_as_done(root: Root) -> None:
    slurmctld = cluster()
    slurmctld.refuses = "compute-1"
    for number in (1, 2):
        slurmctld.receive(f"compute-{number}", report(LOST, vm_id=f"vm-{number}"))
    document = run_pass(slurmctld, root).status
    assert slurmctld.reasons() == {"compute-2": OURS}
    assert document["out"] == ["compute-2"]
    assert status.is_bad(document)
    assert list(records.read(root, SETTINGS.records).machines) == ["vm-2"]


def test_the_drain_limit_holds_in_each_pass_if_all_nodes_fail(root: Root) -> None:
    slurmctld = cluster(6)
    for number in range(6):
        slurmctld.receive(f"compute-{number}", report(LOST, vm_id=f"vm-{number}"))
    for minute in range(3):
        document = run_pass(slurmctld, root, minutes=minute).status
        assert list(slurmctld.reasons()) == ["compute-0", "compute-1"]
        assert list(document["refused"]) == ["compute-2", "compute-3", "compute-4", "compute-5"]
    assert status.is_bad(document)
    assert "hpcai_health_cap_reached 1\n" in (root.text(f"/metrics/{status.METRICS_FILE}") or "")


def test_a_node_that_is_faulty_after_its_restart_is_marked(root: Root) -> None:
    settings = replace(SETTINGS, escalate=True)
    slurmctld = cluster()
    slurmctld.receive("compute-1", report(HUNG, vm_id="vm-1"))
    run_pass(slurmctld, root, settings)
    assert slurmctld.reasons()["compute-1"].startswith("hpcai: health: gpu_xid: ")
    run_pass(slurmctld, root, settings, minutes=0.2)
    asked = "hpcai: health: reboot: gpu_xid: XID 79 of 0001:00:00.0: fallen off the bus"
    assert slurmctld.commands[-1] == f"scontrol reboot ASAP nextstate=RESUME reason={asked} compute-1"
    # It restarts, is resumed, and fails again.
    slurmctld.nodes["compute-1"].update(state="IDLE", reason="")
    failing = replace(report(HUNG, vm_id="vm-1", age=-600), boot="another")
    slurmctld.receive("compute-1", failing)
    for minutes in (10.0, 10.2):
        document = run_pass(slurmctld, root, settings, minutes=minutes).status
    assert slurmctld.reasons()["compute-1"].startswith("hpcai: health: replace: gpu_xid: ")
    [marked] = document["replace"]
    assert (marked["node"], marked["vm_id"], marked["host"], marked["action"]) == (
        "compute-1",
        "vm-1",
        "host-a",
        "reboot",
    )


def test_check_mode_changes_nothing(root: Root) -> None:
    slurmctld = cluster()
    slurmctld.receive("compute-1", report(LOST, vm_id="vm-1"))
    looked = reconcile.reconcile(root, slurmctld, SETTINGS, NOW, check=True)
    assert [one.action.node for one in looked.done] == ["compute-1"]
    assert slurmctld.reasons() == {}
    assert not root.entries("/")


def test_a_silent_slurmctld_is_an_error_and_nothing_is_written(root: Root) -> None:
    with pytest.raises(CommandFailed, match="Unable to contact"):
        reconcile.reconcile(root, Slurmctld(silent=True), SETTINGS, NOW)
    assert not root.entries("/")


def test_unreadable_records_are_reported_and_moved_aside(root: Root, tmp_path: pathlib.Path) -> None:
    path = tmp_path / SETTINGS.records.lstrip("/")
    path.parent.mkdir(parents=True)
    path.write_text("{", encoding="utf-8")
    slurmctld = cluster()
    slurmctld.nodes["compute-1"].update(state="IDLE+DRAIN", reason=OURS)
    document = run_pass(slurmctld, root).status
    assert document["alerts"][0]["kind"] == "lost"
    assert path.with_name("arbiter.json.unreadable").read_text(encoding="utf-8") == "{"
    # A node that we drained needs a report from after the loss.
    assert slurmctld.reasons() == {"compute-1": OURS}


@pytest.mark.parametrize(
    "damaged",
    [
        f"hpcai-health/1;t={'9' * 400};b=b;v=vm-0;h=host-a",
        f"hpcai-health/1;t={NOW - 60:.0f};b=b;v=vm-0;h=host-a;f=gpu_count:replace:{'9' * 400}b:lost",
        "hpcai-health/1;t=\u0661;b=b;v=vm-0;h=host-a",
    ],
)
def test_a_damaged_report_does_not_affect_the_other_nodes(root: Root, damaged: str) -> None:
    slurmctld = cluster()
    slurmctld.nodes["compute-0"]["extra"] = damaged
    slurmctld.receive("compute-1", report(LOST, vm_id="vm-1"))
    document = run_pass(slurmctld, root).status
    assert slurmctld.reasons() == {"compute-1": OURS}
    assert [(alert["kind"], alert["node"]) for alert in document["alerts"]] == [("unreadable", "compute-0")]


def test_a_summary_with_a_nul_byte_still_drains_its_node(root: Root) -> None:
    slurmctld = cluster()
    slurmctld.nodes["compute-1"]["extra"] = (
        f"hpcai-health/1;t={NOW - 60:.0f};b=b;v=vm-1;h=host-a;f=gpu_count:replace:1b:7 of 8%00%0a".replace(" ", "+")
    )
    run_pass(slurmctld, root)
    assert slurmctld.reasons() == {"compute-1": "hpcai: health: gpu_count: 7 of 8??"}


def test_an_error_about_one_node_does_not_affect_the_other_nodes(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    real = decide.decide_node

    def decide_node(one: ObservedNode, *rest: Any) -> NodeDecision:
        if one.name == "compute-0":
            raise OverflowError("int too large to convert to float")
        return real(one, *rest)

    monkeypatch.setattr(decide, "decide_node", decide_node)
    slurmctld = cluster()
    slurmctld.receive("compute-1", report(LOST, vm_id="vm-1"))
    document = run_pass(slurmctld, root).status
    assert slurmctld.reasons() == {"compute-1": OURS}
    assert [(alert["kind"], alert["node"]) for alert in document["alerts"]] == [("unreadable", "compute-0")]


def test_a_damaged_record_does_not_affect_the_other_records(root: Root, tmp_path: pathlib.Path) -> None:
    slurmctld = cluster()
    for number in (1, 2):
        slurmctld.receive(f"compute-{number}", report(LOST, vm_id=f"vm-{number}"))
    run_pass(slurmctld, root)
    path = tmp_path / SETTINGS.records.lstrip("/")
    held = json.loads(path.read_text(encoding="utf-8"))
    held["machines"]["vm-2"]["drains"][0]["time"] = int("9" * 400)
    path.write_text(json.dumps(held), encoding="utf-8")
    found = records.read(root, SETTINGS.records)
    assert list(found.machines) == ["vm-1"]
    assert "vm-2" in found.problem
    assert path.with_name("arbiter.json.unreadable").exists()


def test_the_service_logs_its_actions_and_each_alert_once(root: Root) -> None:
    slurmctld = cluster()
    slurmctld.receive("compute-1", report(LOST, vm_id="vm-1"))
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        slurmctld.silent = len(pauses) in (2, 3)
        if len(pauses) == 4:
            slurmctld.receive("compute-1", report(vm_id="vm-1", age=-60))

    lines = list(
        islice(reconcile.reconcile_forever(root, slurmctld, SETTINGS, lambda: NOW + 60 * len(pauses), pause), 3)
    )
    assert lines == [
        f"<6>node compute-1 drained: {OURS}",
        "<3>no decision was made: 'scontrol --oneliner show nodes' failed (exit status 1): slurm_load_node error: "
        "Unable to contact slurm controller",
        "<6>node compute-1 is back in scheduling",
    ]
    assert set(pauses) == {10.0}


def test_metrics_have_the_format_that_prometheus_reads(root: Root) -> None:
    text = status.metrics(run_pass(cluster(), root).status)
    lines = text.splitlines()
    assert [line.split()[:2] for line in lines[:2]] == [["#", "HELP"], ["#", "TYPE"]]
    values = {line.split()[0]: float(line.split()[1]) for line in lines if not line.startswith("#")}
    assert set(values) == set(status.METRICS)
    assert values["hpcai_health_arbiter_timestamp_seconds"] == NOW
    assert all(lines.count(f"# TYPE {name} gauge") == 1 for name in values)


def test_a_status_with_another_schema_is_ignored(root: Root) -> None:
    run_pass(cluster(), root)
    document = json.loads(root.text(status.STATUS_FILE) or "")
    assert document["schema"] == 1
    status.write_status(root, {"schema": 2})
    assert status.read_status(root) is None


def machines_in(root: Root) -> list[tuple[str, str]]:
    """The nodes and machines in the log of machines."""
    lines = [json.loads(line) for line in (root.text(LOG) or "").splitlines()]
    return [(line["node"], line["vm_id"]) for line in lines]


def test_a_new_machine_of_a_node_is_logged_once(root: Root) -> None:
    slurmctld = cluster(2)
    run_pass(slurmctld, root)
    run_pass(slurmctld, root, minutes=1)
    assert machines_in(root) == [("compute-0", "vm-0"), ("compute-1", "vm-1")]
    slurmctld.receive("compute-1", report(vm_id="vm-9"))
    run_pass(slurmctld, root, minutes=2)
    assert machines_in(root)[2:] == [("compute-1", "vm-9")]


def test_a_log_of_machines_that_cannot_be_written_stops_nothing_and_is_tried_again(root: Root) -> None:
    slurmctld, known = cluster(1), dict[str, str]()
    blocked = pathlib.Path(root.at(LOG))
    blocked.mkdir(parents=True)
    looked = reconcile.reconcile(root, slurmctld, SETTINGS, NOW, machines=known)
    assert looked.status["nodes"] == 1
    assert known == {}
    blocked.rmdir()
    reconcile.reconcile(root, slurmctld, SETTINGS, NOW + 10, machines=known)
    assert machines_in(root) == [("compute-0", "vm-0")]
