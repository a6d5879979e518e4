# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What other users did decides nothing about a job."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger import checkpoints, decisions
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.checkpoints import Checkpoint
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.decisions import append_decision, read_decisions
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.recover import look
from ansible_collections.hpcai.azure.plugins.module_utils._node.recover.settings import Settings
from ansible_collections.hpcai.azure.plugins.module_utils._node.recover.suspects import SlowChecks

from ..ledger.playing import END, T0, lines, run_line
from .test_look import ASKS, Slurmctld, one_pass


def test_runs_of_another_users_job_with_this_id_do_not_count(tmp_path: pathlib.Path) -> None:
    """slurmdbd keeps them when the ids begin again."""
    earlier = [run_line(7, "FAILED", 100 * one, 100 * one + 50, comment=ASKS, user="bob") for one in range(4)]
    slurmctld = Slurmctld(["7|FAILED|0|1|1000|7|N/A||"])
    running = run_line(7, "RUNNING", 500, None, comment=ASKS)
    assert not one_pass(tmp_path, slurmctld, [*earlier, running])
    ended = run_line(7, "FAILED", 500, 560, comment=ASKS)
    (done,) = one_pass(tmp_path, slurmctld, [*earlier, ended])
    assert done.decision.action == "requeue"
    # Also if it was the same user.
    (done,) = one_pass(tmp_path / "x", slurmctld, [*(one.replace("bob", "alice") for one in earlier), ended])
    assert done.decision.action == "requeue"


def test_another_users_store_holds_no_job(tmp_path: pathlib.Path) -> None:
    forged = Checkpoint("000000000005-7.0-w1", T0 + 10, "bobs")
    checkpoints.write_record(Root(str(tmp_path)), [forged])
    noted = f"{ASKS},hpcai:training=llama,hpcai:saved=0.40.{int((T0 + 50) * 1000)}"
    (done,) = one_pass(
        tmp_path, Slurmctld(["7|FAILED|0|1|1000|7|N/A||"]), [run_line(7, "FAILED", 0, 60, comment=noted)]
    )
    assert "from step 0 to 40" in done.decision.reason


def test_steps_of_jobs_are_not_read(tmp_path: pathlib.Path) -> None:
    asked: list[Sequence[str]] = []

    def ask(words: Sequence[str], handle: Callable[[str], None]) -> None:
        asked.append(words)
        lines([])(words, handle)

    look.look(Root(str(tmp_path)), Slurmctld(["7|FAILED|0|1|1000|7|N/A||"]), Settings(), END, set(), ask=ask)
    assert "--allocations" in asked[0]


def test_a_user_with_many_failing_jobs_removes_no_decisions_about_jobs_of_others(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the causes of their earlier runs would be unknown, and their failed jobs would be started again."""
    monkeypatch.setattr(look, "MOST_OF_A_USER", 5)
    earlier = {"action": "requeue", "reason": "x", "user": "alice"}
    for number in range(5):
        append_decision(Root(str(tmp_path)), END - 86401, 100 + number, 1, earlier)
    jobs = [*range(11, 18), 7]
    slurmctld = Slurmctld([f"{job}|FAILED|0|1|{1000 if job > 7 else 1007}|{job}|N/A||" for job in jobs])
    runs = [run_line(job, "FAILED", 0, 60, comment=ASKS, user="alice" if job > 7 else "bob") for job in jobs]
    done = one_pass(tmp_path, slurmctld, runs)
    refused = [one.job for one in done if "decisions about jobs of this user" in one.problem]
    # Alice had five decisions on the day before.
    assert refused == [16, 17]
    asked = {words.split()[1] for words in slurmctld.changes if words.startswith("requeuehold")}
    assert asked == {"7", "11", "12", "13", "14", "15"}
    kept = [one["job"] for one in read_decisions(Root(str(tmp_path)), END, END)]
    assert sorted(kept) == [7, 11, 12, 13, 14, 15]


def test_a_job_that_was_left_held_is_released_above_the_limit_of_its_user(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user cannot release a job that root has requeued held."""
    monkeypatch.setattr(look, "MOST_OF_A_USER", 2)
    ended = run_line(7, "FAILED", 0, 60, comment=ASKS)
    one_pass(tmp_path, Slurmctld(["7|FAILED|0|1|1000|7|N/A||"], refuses="release"), [ended])
    append_decision(Root(str(tmp_path)), END, 100, 1, {"action": "requeue", "reason": "x", "user": "alice"})
    slurmctld = Slurmctld(["7|PENDING|1|1|1000|7|N/A||", "8|FAILED|0|1|1000|8|N/A||"])
    runs = [ended.replace("FAILED", "REQUEUED"), run_line(8, "FAILED", 0, 60, comment=ASKS)]
    done = {one.job: one.problem for one in one_pass(tmp_path, slurmctld, runs)}
    assert done[7] == ""
    assert "decisions about jobs of this user" in done[8]
    assert [words.split()[0] for words in slurmctld.changes] == ["update", "release", "update"]


def test_decisions_remove_no_checks_of_nodes(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks that a user caused limit further ones: each is an exclusive job of root on a node."""
    monkeypatch.setattr(decisions, "LARGEST", 1000)
    slow = run_line(7, "COMPLETED", 0, 60, "c-[0-1]", comment="hpcai:slow=c-0")
    slurmctld = Slurmctld(["7|COMPLETED|0|1|1000|7|N/A||"])
    (first,) = one_pass(tmp_path, slurmctld, [slow])
    assert (first.problem, first.unrecorded) == ("", "")
    for number in range(100):
        append_decision(Root(str(tmp_path)), END, number, 1, {"action": "hold", "reason": "x"})
    assert not one_pass(tmp_path, slurmctld, [slow])
    assert [one["node"] for one in read_decisions(Root(str(tmp_path)), 0, END) if one["action"] == "check"] == ["c-0"]


def test_refused_checks_are_in_no_log(tmp_path: pathlib.Path) -> None:
    """A user can cause any number of them."""
    settings = Settings(slow=SlowChecks(per_user=1))
    slow = run_line(7, "COMPLETED", 0, 60, "c-[0,2]", comment="hpcai:slow=c-0,hpcai:slow=c-2")
    done = one_pass(tmp_path, Slurmctld(["7|COMPLETED|0|1|1000|7|N/A||"]), [slow], settings=settings)
    assert [bool(one.problem) for one in done] == [False, True]
    assert len(read_decisions(Root(str(tmp_path)), 0, END)) == 1
