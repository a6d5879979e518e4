# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sending the report to slurmctld: when, in which field, and which texts are not overwritten."""

from __future__ import annotations

import fnmatch
import json
import pathlib
import re
from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health import record
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.report import files, send
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.report.files import ScriptFault
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.report.send import Sent
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools import services
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.report import Report, decode
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.node_queries import NoController

from ..playing import NOW
from .playing import Node, check, document


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Node:
    """A node that has run its periodic checks."""
    made = Node(tmp_path)
    made.record_run("periodic", check("gpu_count"))
    return made


def send_report(node: Node) -> Sent:
    """Send the report."""
    return send.send(node.root, node.run, node.find_address, node.clock, node.pause)


def updates(node: Node) -> list[str]:
    """Return the updates since the last call."""
    found = [command for command in node.commands if command.startswith("update")]
    node.commands.clear()
    return found


def test_a_new_report_is_sent_at_once_and_the_same_one_is_not(node: Node) -> None:
    assert send_report(node).known
    assert len(updates(node)) == 1
    node.now += 300
    node.record_run("periodic", check("gpu_count"))
    assert send_report(node) == Sent(True, "slurmctld already has the report")
    assert node.commands == []
    node.record_run("periodic", check("gpu_count", "fail"))
    send_report(node)
    assert len(updates(node)) == 1
    assert decode(node.extra).faults[0].check == "gpu_count"


@pytest.mark.parametrize(("tier", "requested"), [("periodic", True), ("deep", True), ("epilog", False)])
def test_a_periodic_or_deep_run_requests_a_report_which_removes_the_request(
    node: Node, tier: str, requested: bool
) -> None:
    request = node.folder / record.REPORT_REQUEST.lstrip("/")
    record.write(node.root, 0, document(tier, check("gpu_count")))
    assert request.exists() is requested
    # systemd starts the service for what the glob matches.
    [glob] = re.findall("^PathExistsGlob=(.+)$", services.UNITS[services.HEALTH_REPORT_PATH], re.M)
    assert fnmatch.fnmatch(record.REPORT_REQUEST, glob)

    send_report(node)

    assert not request.exists()


def test_a_result_that_comes_while_the_report_is_sent_requests_another_one(node: Node) -> None:
    def run_while_a_check_ends(command: Sequence[str]) -> Result:
        record.write(node.root, 0, document("deep", check("gpu_count", "fail")))
        return node.run(command)

    send.send(node.root, run_while_a_check_ends, node.find_address, node.clock, node.pause)
    assert (node.folder / record.REPORT_REQUEST.lstrip("/")).exists()


def test_an_unchanged_report_is_renewed_when_it_is_old(node: Node) -> None:
    send_report(node)
    began = node.now
    for seconds, sent in ((0.7 * send.RENEW_S, 1), (1.01 * send.RENEW_S, 2)):
        node.now = began + seconds
        node.record_run("periodic", check("gpu_count"))
        send_report(node)
        assert len([command for command in node.commands if command.startswith("update")]) == sent
    assert decode(node.extra).time == int(node.now)


def test_a_report_that_was_cut_is_not_sent_each_time(node: Node) -> None:
    many = [check(f"check_{n}", "fail", summary="x" * 400) for n in range(30)]
    node.record_run("periodic", *many)
    for _turn in range(6):
        send_report(node)
        node.now += 10
        node.record_run("periodic", *many)
    updates(node)
    send_report(node)
    assert updates(node) == []


@pytest.mark.parametrize("theirs", ["rack", '{"rack":4}', "hpcai-healthy"])
def test_a_foreign_text_is_not_overwritten(node: Node, theirs: str) -> None:
    node.extra = theirs
    sent = send_report(node)
    assert not sent.known
    assert "Extra of node compute-0 has somebody else's text" in sent.words
    assert "health_checks_report.field to Comment" in sent.words
    assert (node.extra, updates(node)) == (theirs, [])


def test_the_site_can_choose_the_other_field(node: Node) -> None:
    node.extra = "rack"
    node.write("/etc/hpcai/health_report.json", json.dumps({"schema": 1, "field": "Comment"}))
    assert send_report(node).known
    assert node.extra == "rack"
    assert decode(node.comment).vm_id == "vm-0"


def test_a_report_that_slurmctld_rejected_is_sent_again(node: Node) -> None:
    node.answer_rc = 1
    assert not send_report(node).known
    node.answer_rc = 0
    assert send_report(node).known
    assert decode(node.extra)


def test_without_a_controller_nothing_is_sent(node: Node) -> None:
    def nobody(_controllers: object) -> str:
        raise NoController("10.0.0.4:6817: Connection refused")

    sent = send.send(node.root, node.run, nobody, node.clock, node.pause)
    assert sent == Sent(False, "cannot send the report: 10.0.0.4:6817: Connection refused")
    assert node.commands == []


def test_an_invalid_field_is_reported(node: Node) -> None:
    node.write("/etc/hpcai/health_report.json", json.dumps({"schema": 1, "field": "Reason"}))
    sent = send_report(node)
    assert not sent.known
    assert "field must be Extra or Comment, not 'Reason'" in sent.words


def test_a_machine_without_slurmd_env_sends_nothing(node: Node, tmp_path: pathlib.Path) -> None:
    (tmp_path / "etc/hpcai/slurmd.env").unlink()
    assert send_report(node).known
    assert node.commands == []


def test_nodes_renew_at_different_times() -> None:
    assert len({send._share(f"compute-{n}") for n in range(100)}) > 80
    assert all(0 <= send._share(f"compute-{n}") < 1 for n in range(100))


def test_a_waiting_prolog_is_answered_once_the_node_is_drained(node: Node) -> None:
    files.write_question(node.root, "7.1")
    node.record_run("prolog", check("gpu_count", "fail"))

    def pause(seconds: float) -> None:
        node.now += seconds
        if node.now > node_began + 8:
            node.state, node.reason = "IDLE+DRAIN", "hpcai: health: gpu_count: x"

    node_began = node.now
    sent = send.send(node.root, node.run, node.find_address, node.clock, pause)
    assert sent.words.endswith("the node is drained: hpcai: health: gpu_count: x")
    given = files.read_answer(node.root, "7.1")
    assert given
    assert (given.refuse, given.words) == (True, "hpcai: health: gpu_count: x")
    assert files.pending_question(node.root) == ""
    assert node.now - node_began < 16


def test_a_new_result_is_sent_at_once_while_a_prolog_waits(node: Node) -> None:
    """Otherwise the arbiter would drain the node for a fault that has been repaired."""
    node.record_run("prolog", check("ib_ports", "fail"))
    files.write_question(node.root, "7.1")
    mended, delays = node.now + 10, []

    def pause(seconds: float) -> None:
        if not decode(node.extra).faults:
            delays.append(node.now - mended)
        if node.now < mended <= node.now + seconds:
            node.now = mended
            node.record_run("periodic", check("ib_ports"))
        node.now += seconds

    send.send(node.root, node.run, node.find_address, node.clock, pause)
    assert len(updates(node)) == 2
    assert decode(node.extra).faults == ()
    assert delays[0] < 10


def test_a_failed_script_is_the_first_fault_until_it_is_answered(node: Node) -> None:
    node.record_run("periodic", check("gpu_count", "fail"), age=200)
    files.write_question(node.root, "7.1", ScriptFault("prolog", "50-mine: no licence (job 7)", int(node.now)))
    reports: list[Report] = []

    def pause(seconds: float) -> None:
        reports.append(decode(node.extra))
        node.now += seconds
        node.state, node.reason = "IDLE+DRAIN", "hpcai: prolog: 50-mine: no licence (job 7)"

    send.send(node.root, node.run, node.find_address, node.clock, pause)
    first = reports[0].faults[0]
    assert (first.check, first.summary, first.blocks) == ("prolog", "50-mine: no licence (job 7)", True)
    # The report is newer than the last check, so that a node that was resumed since is drained, too.
    assert reports[0].time == int(NOW)
    assert [fault.check for fault in decode(node.extra).faults] == ["gpu_count"]


def test_a_waiting_prolog_may_not_refuse_if_the_node_is_not_drained(node: Node) -> None:
    files.write_question(node.root, "7.1")
    began = node.now
    send_report(node)
    given = files.read_answer(node.root, "7.1")
    assert given
    assert (given.refuse, given.words) == (False, "the arbiter has not drained this node within 40 s: see its journal")
    assert 20 < node.now - began <= send.ANSWER_S
    # The nodes of a large job must not each ask slurmctld every second.
    assert len([command for command in node.commands if "show" in command]) < 15


def test_a_waiting_prolog_is_answered_if_slurmctld_does_not_answer(node: Node) -> None:
    files.write_question(node.root, "7.1")
    node.answer_rc = 124
    send_report(node)
    given = files.read_answer(node.root, "7.1")
    assert given
    assert not given.refuse
    assert "gave no answer" in given.words
