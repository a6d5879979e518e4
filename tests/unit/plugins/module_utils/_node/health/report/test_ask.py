# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a prolog may refuse a job."""

from __future__ import annotations

import json
import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.report import files
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.report.ask import Permission, ask, ask_for_script
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.report.files import ArbiterAnswer, ScriptFault

from .playing import Node, check

PROBLEM = "gpu_count: gpu_count is so"


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Node:
    """A node whose prolog found missing GPUs."""
    made = Node(tmp_path)
    made.record_run("prolog", check("gpu_count", "fail"))
    return made


def ask_arbiter(node: Node, seconds: float = 50, answer: ArbiterAnswer | None = None, after: float = 3) -> Permission:
    """Ask for permission to refuse a job; the answer comes after this many seconds."""
    began = node.now

    def pause(length: float) -> None:
        node.now += length
        if answer and node.now - began >= after and files.pending_question(node.root):
            files.write_answer(node.root, ArbiterAnswer(files.pending_question(node.root), answer.refuse, answer.words))

    return ask(node.root, "7", seconds, node.clock, pause)


def test_refuses_the_job_once_the_arbiter_has_drained_the_node(node: Node) -> None:
    given = ask_arbiter(node, answer=ArbiterAnswer("", True, "hpcai: health: gpu_count: x"))
    assert given == Permission(True, PROBLEM, "hpcai: health: gpu_count: x")


def test_the_job_starts_if_the_arbiter_does_not_drain_the_node(node: Node) -> None:
    given = ask_arbiter(node, answer=ArbiterAnswer("", False, "the limit is reached"))
    assert given == Permission(False, PROBLEM, "the limit is reached")


def test_the_job_starts_without_an_answer_in_time(node: Node) -> None:
    began = node.now
    given = ask_arbiter(node, seconds=5)
    assert (given.refuse, given.problem) == (False, PROBLEM)
    assert 5 <= node.now - began < 6
    assert files.pending_question(node.root) == ""


def test_an_answer_to_another_question_is_ignored(node: Node) -> None:
    files.write_answer(node.root, ArbiterAnswer("6.1", True, "hpcai: health: gpu_count: x"))
    assert not ask_arbiter(node, seconds=5).refuse


def test_two_prologs_at_the_same_time_share_one_answer(node: Node) -> None:
    files.write_question(node.root, "6.1")
    given = ask_arbiter(node, answer=ArbiterAnswer("", True, "drained"))
    assert given.refuse
    assert files.read_answer(node.root, "6.1") == ArbiterAnswer("6.1", True, "drained")


@pytest.mark.parametrize("name", ["free_space", "gpu_clocks"])
def test_a_failed_check_that_blocks_no_job_refuses_none(node: Node, name: str) -> None:
    node.record_run("prolog", check(name, "fail"))
    assert ask_arbiter(node, answer=ArbiterAnswer("", True, "drained")) == Permission(
        False, "", "everything that every job needs is good"
    )


def test_with_refuse_jobs_false_no_job_is_refused(node: Node) -> None:
    node.write("/etc/hpcai/health_report.json", json.dumps({"schema": 1, "refuse_jobs": False}))
    given = ask_arbiter(node, answer=ArbiterAnswer("", True, "drained"))
    assert (given.refuse, given.problem) == (False, PROBLEM)
    assert node.now == Node(node.folder).now


def test_a_failed_script_shares_the_question_of_a_waiting_prolog(node: Node) -> None:
    """One answer serves both, and the arbiter learns of the script."""
    files.write_question(node.root, "6.1")
    fault, heard = ScriptFault("prolog", "50-mine: no licence (job 7)", 1), []

    def pause(seconds: float) -> None:
        node.now += seconds
        heard.append((files.pending_question(node.root), files.pending_fault(node.root)))
        files.write_answer(node.root, ArbiterAnswer("6.1", True, "drained"))

    given = ask_for_script(node.root, "7", fault, 50, node.clock, pause)
    assert given == Permission(True, fault.summary, "drained")
    assert heard == [("6.1", fault)]


def test_with_refuse_jobs_false_a_failed_script_still_refuses(node: Node) -> None:
    node.write("/etc/hpcai/health_report.json", json.dumps({"schema": 1, "refuse_jobs": False}))

    def pause(seconds: float) -> None:
        node.now += seconds
        files.write_answer(node.root, ArbiterAnswer(files.pending_question(node.root), True, "drained"))

    assert ask_for_script(node.root, "7", ScriptFault("epilog", "50-mine: x", 1), 50, node.clock, pause).refuse
