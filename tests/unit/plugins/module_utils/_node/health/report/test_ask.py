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
    """A node without its GPUs."""
    made = Node(tmp_path)
    made.ran("prolog", check("gpu_count", "fail"))
    return made


def asked(node: Node, seconds: float = 50, answer: ArbiterAnswer | None = None, after: float = 3) -> Permission:
    """Ask; somebody answers after so many seconds."""
    began = node.now

    def pause(length: float) -> None:
        node.now += length
        if answer and node.now - began >= after and files.pending_question(node.root):
            files.write_answer(node.root, ArbiterAnswer(files.pending_question(node.root), answer.refuse, answer.words))

    return ask(node.root, "7", seconds, node.clock, pause)


def test_it_refuses_once_the_arbiter_has_drained_the_node(node: Node) -> None:
    given = asked(node, answer=ArbiterAnswer("", True, "hpcai: health: gpu_count: x"))
    assert given == Permission(True, PROBLEM, "hpcai: health: gpu_count: x")


def test_it_lets_the_job_start_where_the_arbiter_has_not(node: Node) -> None:
    given = asked(node, answer=ArbiterAnswer("", False, "the limit is reached"))
    assert given == Permission(False, PROBLEM, "the limit is reached")


def test_it_lets_the_job_start_where_nobody_answers_in_time(node: Node) -> None:
    began = node.now
    given = asked(node, seconds=5)
    assert (given.refuse, given.problem) == (False, PROBLEM)
    assert 5 <= node.now - began < 6
    assert files.pending_question(node.root) == ""


def test_a_late_answer_to_another_question_is_none(node: Node) -> None:
    files.write_answer(node.root, ArbiterAnswer("6.1", True, "hpcai: health: gpu_count: x"))
    assert not asked(node, seconds=5).refuse


def test_two_prologs_at_a_time_share_one_answer(node: Node) -> None:
    files.write_question(node.root, "6.1")
    given = asked(node, answer=ArbiterAnswer("", True, "drained"))
    assert given.refuse
    assert files.read_answer(node.root, "6.1") == ArbiterAnswer("6.1", True, "drained")


@pytest.mark.parametrize("name", ["free_space", "gpu_clocks"])
def test_nothing_else_refuses_a_job(node: Node, name: str) -> None:
    node.ran("prolog", check(name, "fail"))
    assert asked(node, answer=ArbiterAnswer("", True, "drained")) == Permission(
        False, "", "everything that every job needs is good"
    )


def test_a_site_may_forbid_it(node: Node) -> None:
    node.write("/etc/hpcai/health_report.json", json.dumps({"schema": 1, "refuse_jobs": False}))
    given = asked(node, answer=ArbiterAnswer("", True, "drained"))
    assert (given.refuse, given.problem) == (False, PROBLEM)
    assert node.now == Node(node.folder).now


def test_a_script_asks_beside_a_prolog_that_waits_already(node: Node) -> None:
    """One answer does for both, and the arbiter hears of the script."""
    files.write_question(node.root, "6.1")
    fault, heard = ScriptFault("prolog", "50-mine: no licence (job 7)", 1), []

    def pause(seconds: float) -> None:
        node.now += seconds
        heard.append((files.pending_question(node.root), files.pending_fault(node.root)))
        files.write_answer(node.root, ArbiterAnswer("6.1", True, "drained"))

    given = ask_for_script(node.root, "7", fault, 50, node.clock, pause)
    assert given == Permission(True, fault.summary, "drained")
    assert heard == [("6.1", fault)]


def test_a_site_that_lets_no_check_refuse_a_job_has_scripts_that_fail_all_the_same(node: Node) -> None:
    node.write("/etc/hpcai/health_report.json", json.dumps({"schema": 1, "refuse_jobs": False}))

    def pause(seconds: float) -> None:
        node.now += seconds
        files.write_answer(node.root, ArbiterAnswer(files.pending_question(node.root), True, "drained"))

    assert ask_for_script(node.root, "7", ScriptFault("epilog", "50-mine: x", 1), 50, node.clock, pause).refuse
