# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Recovery of jobs: which jobs, which decision, and which commands Slurm gets."""

from __future__ import annotations

import itertools
import json
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger import checkpoints, decisions
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.checkpoints import Checkpoint
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.decisions import append_decision, read_decisions
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.recover import look
from ansible_collections.hpcai.azure.plugins.module_utils._node.recover.job_log import HANGS
from ansible_collections.hpcai.azure.plugins.module_utils._node.recover.settings import Settings

from ..ledger.playing import END, T0, gone, lines, run_line

ASKS = "hpcai:recover"
DEAD = "c-1|2026-01-01T00:01:40|Unknown|DOWN*|slurm||Not responding"


@dataclass
class Slurmctld:
    """A slurmctld with jobs, which records what it is asked to change.

    :ivar jobs: lines of squeue; after the first answer ``later``, if it is given.
    """

    jobs: list[str]
    later: list[str] | None = None
    nodes: str = "NodeName=c-1 State=DOWN Reason=Not responding [slurm@2026-01-01T00:01:40]\n"
    refuses: str = ""
    changes: list[str] = field(default_factory=list)
    asked: int = 0

    def __call__(self, words: Sequence[str]) -> Result:
        if words[0] == "squeue":
            self.asked += 1
            shown = self.later if self.asked > 1 and self.later is not None else self.jobs
            return Result(tuple(words), 0, "".join(f"{line}\n" for line in shown), "")
        if words[:3] == ["scontrol", "show", "job"]:
            return Result(tuple(words), 1, "", "Invalid job id specified")
        if "show" in words:
            return Result(tuple(words), 0, self.nodes, "")
        self.changes.append(" ".join(words[1:]))
        if self.refuses and self.refuses in words:
            return Result(tuple(words), 1, "", "refused")
        return Result(tuple(words), 0, "", "")


def one_pass(
    tmp_path: pathlib.Path,
    slurmctld: Slurmctld,
    runs: Sequence[str],
    events: Sequence[str] = (),
    settings: Settings | None = None,
    handled: set[tuple[int, int, bool]] | None = None,
) -> list[Any]:
    """One pass."""
    known = set[tuple[int, int, bool]]() if handled is None else handled
    return look.look(
        Root(str(tmp_path)), slurmctld, settings or Settings(), END, known, ask=lines(list(runs), list(events))
    )


def saved(tmp_path: pathlib.Path, *steps: tuple[str, float]) -> None:
    """Checkpoints that the ledger knows."""
    checkpoints.write_record(Root(str(tmp_path)), [Checkpoint(name, T0 + when) for name, when in steps])


def test_a_job_of_a_dead_node_is_started_without_it(tmp_path: pathlib.Path) -> None:
    """Slurm has requeued it already; it must not start on the dead node when that comes back broken."""
    saved(tmp_path, ("000000000040-7.0-w2", 60))
    slurmctld = Slurmctld(["7|PENDING|1|1|1000|7|N/A||"])
    (done,) = one_pass(tmp_path, slurmctld, [run_line(7, "NODE_FAIL", 0, 120, "c-[0-1]", comment=ASKS)], [DEAD])
    assert (done.decision.action, done.decision.leave_out) == ("requeue", ("c-1",))
    # Slurm would let it wait for cred_expire.
    assert slurmctld.changes[0] == "update JobId=7 ExcNodeList=c-1 StartTime=now"
    assert "AdminComment=hpcai: a node failed on c-1; it advanced from step 0 to 40" in slurmctld.changes[1]
    (entry,) = read_decisions(Root(str(tmp_path)), 0, END)
    assert (entry["job"], entry["action"], entry["leave_out"]) == (7, "requeue", ["c-1"])


def test_a_failed_job_is_requeued_held_changed_and_released(tmp_path: pathlib.Path) -> None:
    slurmctld = Slurmctld(["7|FAILED|0|1|1000|7|N/A||"])
    line = run_line(7, "FAILED", 0, 120, "c-[0-1]", comment=ASKS).replace("@0:0@", "@1:0@")
    (done,) = one_pass(tmp_path, slurmctld, [line])
    assert done.decision.action == "requeue"
    assert slurmctld.changes[0] == "requeuehold 7"
    assert "ExcNodeList=c-1" in slurmctld.changes[1]
    assert "StartTime=now+60" in slurmctld.changes[1]
    assert slurmctld.changes[2] == "release 7"


def test_the_users_own_excluded_nodes_stay_excluded(tmp_path: pathlib.Path) -> None:
    """scontrol replaces the list."""
    slurmctld = Slurmctld(["7|PENDING|1|1|1000|7|N/A|c-[5,8]|"])
    one_pass(tmp_path, slurmctld, [run_line(7, "NODE_FAIL", 0, 120, "c-[0-1]", comment=ASKS)], [DEAD])
    assert slurmctld.changes[0] == "update JobId=7 ExcNodeList=c-[5,8],c-1 StartTime=now"


def test_a_task_of_an_array_is_requeued_without_the_other_tasks(tmp_path: pathlib.Path) -> None:
    """The id of the task that is numbered like its array would mean all tasks."""
    slurmctld = Slurmctld(["7|FAILED|0|1|1000|7|3||"])
    one_pass(tmp_path, slurmctld, [run_line(7, "FAILED", 0, 60, comment=ASKS)])
    assert [one.split()[1] for one in slurmctld.changes] == ["7_3", "JobId=7_3", "7_3", "JobId=7_3"]


def test_one_command_asks_for_a_bounded_number_of_jobs(tmp_path: pathlib.Path) -> None:
    slurmctld = Slurmctld([f"{number}|FAILED|0|1|{number % 20}|{number}|N/A||" for number in range(1, 2502)])
    asked: list[int] = []

    def ask(words: Sequence[str], handle: Callable[[str], None]) -> None:
        asked.append(sum(word.count(",") + 1 for word in words if word.startswith("--jobs=")))
        numbers = next(word for word in words if word.startswith("--jobs="))[7:].split(",")
        lines([run_line(int(number), "FAILED", 0, 60) for number in numbers])(words, handle)

    handled = set[tuple[int, int, bool]]()
    for _pass in range(4):
        look.look(Root(str(tmp_path)), slurmctld, Settings(), END, handled, ask=ask)
    assert asked == [1000, 1000, 501]


def test_many_jobs_of_a_user_do_not_keep_others_waiting(tmp_path: pathlib.Path) -> None:
    """slurmdbd never has a run of a job that was cancelled while it was pending, so no pass is done with it."""
    mallorys = [f"{number}|CANCELLED|0|1|1001|{number}|N/A||" for number in range(100, 2100)]
    slurmctld = Slurmctld([*mallorys, "7|FAILED|0|1|1000|7|N/A||", "2101|FAILED|0|1|1001|2101|N/A||"])
    done = one_pass(tmp_path, slurmctld, [run_line(number, "FAILED", 0, 60, comment=ASKS) for number in (7, 2101)])
    assert [one.job for one in done] == [7, 2101]


def test_jobs_are_taken_in_turns_of_their_users() -> None:
    shown = [f"{number}|FAILED|0|1|{uid}|{number}|N/A||" for number, uid in enumerate((5, 5, 5, 6, 6, 7))]
    assert [one.job for one in look.next_ones(look.parse_ended("\n".join(shown)))] == [0, 3, 5, 1, 4, 2]


def test_a_user_whose_files_hang_delays_others_once_in_a_pass(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []

    def append(_path: str, uid: int, _line: str) -> str:
        tried.append(uid)
        return f"{HANGS} (it was waiting)" if uid == 1001 else ""

    monkeypatch.setattr(look, "append_as_user", append)
    jobs = {7: 1001, 8: 1001, 9: 1000, 10: 1000}
    slurmctld = Slurmctld([f"{number}|FAILED|0|1|{uid}|{number}|N/A||" for number, uid in jobs.items()])
    done = one_pass(tmp_path, slurmctld, [run_line(number, "FAILED", 0, 60, comment=ASKS) for number in jobs])
    assert len(done) == 4
    assert sorted(tried) == [1000, 1000, 1001]


def test_progress_is_known_from_notes_without_a_store(tmp_path: pathlib.Path) -> None:
    slurmctld = Slurmctld(["7|PENDING|1|1|1000|7|N/A||"])
    comment = f"{ASKS},hpcai:saved=0.40.{int(T0 + 60) * 1000}"
    (done,) = one_pass(tmp_path, slurmctld, [run_line(7, "NODE_FAIL", 0, 120, "c-[0-1]", comment=comment)], [DEAD])
    assert "it advanced from step 0 to 40" in done.decision.reason


def test_a_users_own_bug_is_held_after_the_same_exit_on_other_nodes(tmp_path: pathlib.Path) -> None:
    slurmctld = Slurmctld(["7|FAILED|1|1|1000|7|N/A||"], nodes="NodeName=c-9 State=IDLE\n")
    first, second = (
        run_line(7, "FAILED", start, start + 60, nodes, comment=ASKS).replace("@0:0@", "@1:0@")
        for start, nodes in ((0, "c-[0-1]"), (200, "c-[2-3]"))
    )
    (done,) = one_pass(tmp_path, slurmctld, [first, second])
    assert done.decision.action == "hold"
    assert "the cause is the program and not a node" in done.decision.reason
    assert slurmctld.changes[:2] == ["requeuehold 7", "uhold 7"]


def test_a_job_that_this_requeued_is_not_decided_about_twice(tmp_path: pathlib.Path) -> None:
    """It waits in the queue with one more restart, like one that Slurm has requeued; also after a restart of this."""
    ended = run_line(7, "FAILED", 0, 60, comment=ASKS).replace("@0:0@", "@3:0@")
    assert one_pass(tmp_path, Slurmctld(["7|FAILED|0|1|1000|7|N/A||"]), [ended])
    waiting = Slurmctld(["7|PENDING|1|1|1000|7|N/A||"])
    assert not one_pass(tmp_path, waiting, [ended.replace("FAILED", "REQUEUED")])
    assert waiting.changes == []


def test_a_bug_is_one_although_slurm_forgets_why_a_requeued_run_ended(tmp_path: pathlib.Path) -> None:
    """The record of a failed run becomes REQUEUED, which alone looks like a node that the checks refused."""
    first, second = (
        run_line(7, "FAILED", start, start + 60, nodes, comment=ASKS).replace("@0:0@", "@3:0@")
        for start, nodes in ((0, "c-0"), (200, "c-2"))
    )
    nodes = "NodeName=c-9 State=IDLE\n"
    (done,) = one_pass(tmp_path, Slurmctld(["7|FAILED|0|1|1000|7|N/A||"], nodes=nodes), [first])
    assert done.decision.action == "requeue"
    again = Slurmctld(["7|FAILED|1|1|1000|7|N/A||"], nodes=nodes)
    (done,) = one_pass(tmp_path, again, [first.replace("FAILED", "REQUEUED"), second])
    assert done.decision.action == "hold"
    assert "the cause is the program and not a node" in done.decision.reason


def test_an_earlier_job_with_the_same_number_is_another_job(tmp_path: pathlib.Path) -> None:
    """Numbers begin again with a new state folder."""
    append_decision(Root(str(tmp_path)), T0 - 5000, 7, 1, {"action": "hold", "reason": "x", "problem": ""})
    assert one_pass(tmp_path, Slurmctld(["7|FAILED|0|1|1000|7|N/A||"]), [run_line(7, "FAILED", 0, 60, comment=ASKS)])


def test_a_job_that_hangs_is_recovered_as_one(tmp_path: pathlib.Path) -> None:
    slurmctld = Slurmctld(["7|FAILED|0|1|1000|7|N/A||"], nodes="NodeName=c-9 State=IDLE\n")
    line = run_line(7, "FAILED", 0, 60, comment=f"{ASKS},hpcai:hang=0").replace("@0:0@", "@0:9@")
    (done,) = one_pass(tmp_path, slurmctld, [line])
    assert done.decision.reason.startswith("the program made no progress and was ended")


@pytest.mark.parametrize(
    ("comment", "partitions", "recovered"),
    [("", (), False), ("hpcai:recovery", (), False), (ASKS, (), True), ("", ("gpu",), True), ("", ("cpu",), False)],
)
def test_only_jobs_that_ask_are_touched(
    tmp_path: pathlib.Path, comment: str, partitions: tuple[str, ...], recovered: bool
) -> None:
    slurmctld = Slurmctld(["7|FAILED|0|1|1000|7|N/A||"])
    done = one_pass(
        tmp_path, slurmctld, [run_line(7, "FAILED", 0, 60, comment=comment)], settings=Settings(partitions=partitions)
    )
    assert bool(done) == recovered
    assert bool(slurmctld.changes) == recovered


def test_each_end_is_handled_once(tmp_path: pathlib.Path) -> None:
    slurmctld, handled = Slurmctld(["7|FAILED|0|1|1000|7|N/A||"]), set[tuple[int, int, bool]]()
    runs = [run_line(7, "FAILED", 0, 60, comment=ASKS)]
    assert one_pass(tmp_path, slurmctld, runs, handled=handled)
    assert not one_pass(tmp_path, slurmctld, runs, handled=handled)


def test_a_job_that_was_cancelled_meanwhile_stays_cancelled(tmp_path: pathlib.Path) -> None:
    slurmctld = Slurmctld(["7|FAILED|0|1|1000|7|N/A||"], later=[])
    (done,) = one_pass(tmp_path, slurmctld, [run_line(7, "FAILED", 0, 60, comment=ASKS)])
    assert "changed meanwhile" in done.problem
    assert slurmctld.changes == []


def test_without_the_end_in_slurmdbd_the_next_pass_decides(tmp_path: pathlib.Path) -> None:
    slurmctld, handled = Slurmctld(["7|FAILED|0|1|1000|7|N/A||"]), set[tuple[int, int, bool]]()
    assert not one_pass(tmp_path, slurmctld, [run_line(7, "RUNNING", 0, None, comment=ASKS)], handled=handled)
    assert one_pass(tmp_path, slurmctld, [run_line(7, "FAILED", 0, 60, comment=ASKS)], handled=handled)


def test_a_refused_command_leaves_the_job_held_and_is_recorded(tmp_path: pathlib.Path) -> None:
    slurmctld = Slurmctld(["7|FAILED|0|1|1000|7|N/A||"], refuses="release")
    (done,) = one_pass(tmp_path, slurmctld, [run_line(7, "FAILED", 0, 60, comment=ASKS)])
    assert "refused" in done.problem
    assert read_decisions(Root(str(tmp_path)), 0, END)[0]["problem"] == done.problem


@pytest.mark.parametrize("refused", ["JobId=7", "release"])
def test_a_job_that_was_left_held_is_released_in_the_next_pass(tmp_path: pathlib.Path, refused: str) -> None:
    ended = run_line(7, "FAILED", 0, 60, comment=ASKS)
    one_pass(tmp_path, Slurmctld(["7|FAILED|0|1|1000|7|N/A||"], refuses=refused), [ended])
    for _again in range(2):
        waiting = Slurmctld(["7|PENDING|1|1|1000|7|N/A||"], refuses=refused)
        one_pass(tmp_path, waiting, [ended.replace("FAILED", "REQUEUED")])
        waiting.refuses = ""
    waiting = Slurmctld(["7|PENDING|1|1|1000|7|N/A||"])
    (done,) = one_pass(tmp_path, waiting, [ended.replace("FAILED", "REQUEUED")])
    assert not done.problem
    assert [one.split()[0] for one in waiting.changes] == ["update", "release", "update"]


def test_a_hold_that_this_did_not_make_is_not_released(tmp_path: pathlib.Path) -> None:
    ended = run_line(7, "FAILED", 0, 60, comment=ASKS)
    one_pass(tmp_path, Slurmctld(["7|FAILED|0|1|1000|7|N/A||"], refuses="requeuehold"), [ended])
    waiting = Slurmctld(["7|PENDING|1|1|1000|7|N/A||"])
    assert one_pass(tmp_path, waiting, [ended.replace("FAILED", "REQUEUED")])
    assert "release 7" not in waiting.changes


def test_a_removed_node_cannot_be_excluded_and_stops_nothing(tmp_path: pathlib.Path) -> None:
    unknown = "ExcNodeList=c-5,c-1"
    slurmctld = Slurmctld(["7|PENDING|1|1|1000|7|N/A|c-5|"], refuses=unknown)
    (done,) = one_pass(tmp_path, slurmctld, [run_line(7, "NODE_FAIL", 0, 120, "c-[0-1]", comment=ASKS)], [DEAD])
    assert not done.problem
    assert slurmctld.changes[1] == "update JobId=7 ExcNodeList=c-1 StartTime=now"


def test_a_log_that_cannot_be_written_stops_no_job(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(look, "append_decision", full)
    slurmctld = Slurmctld([f"{job}|FAILED|0|1|1000|{job}|N/A||" for job in (7, 8)])
    runs = [run_line(job, "FAILED", 0, 60, comment=ASKS) for job in (7, 8)]
    handled = set[tuple[int, int, bool]]()
    done = one_pass(tmp_path, slurmctld, runs, handled=handled)
    assert [one.job for one in done] == [7, 8]
    assert "not in the log of decisions: No space left" in done[0].words
    assert not one_pass(tmp_path, slurmctld, runs, handled=handled)


def test_without_slurmdbd_or_slurmctld_nothing_is_done_and_it_is_said_once(tmp_path: pathlib.Path) -> None:
    slurmctld = Slurmctld(["7|FAILED|0|1|1000|7|N/A||"])
    passes: list[float] = []
    said = look.look_forever(Root(str(tmp_path)), slurmctld, Settings(), lambda: END, passes.append, ask=gone)
    assert "slurmdbd" in next(said)

    def away(words: Sequence[str]) -> Result:
        return Result(tuple(words), 1, "", "Unable to contact slurm controller")

    with pytest.raises(CommandFailed, match="Unable to contact"):
        look.look(Root(str(tmp_path)), away, Settings(), END, set(), ask=lines([]))
    assert slurmctld.changes == []


@pytest.mark.parametrize(
    "line",
    [
        "7|PENDING|0|1|1000|7|N/A||",
        "7|FAILED|0|0|1000|7|N/A||",
        "7_[1-3]|PENDING|1|1|1000|7|1-3||",
        "x",
        "7|FAILED||1|1000|7|N/A||",
    ],
)
def test_jobs_that_wait_for_their_first_start_or_have_no_script_are_not_considered(line: str) -> None:
    assert look.parse_ended(line) == []


def test_requeues_are_bounded(tmp_path: pathlib.Path) -> None:
    """A job whose nodes die again and again, without progress that is known."""
    actions = []
    for count in range(1, 6):
        runs = [
            run_line(7, "NODE_FAIL", 100 * number, 100 * number + 50, f"c-{number}", comment=ASKS)
            for number in range(count)
        ]
        slurmctld = Slurmctld([f"7|PENDING|{count}|1|1000|7|N/A||"], nodes="NodeName=c-99 State=IDLE\n")
        (done,) = one_pass(tmp_path, slurmctld, runs)
        actions.append(done.decision.action)
    assert actions[0] == "requeue"
    assert actions[-1] == "hold"
    assert [key for key, _group in itertools.groupby(actions)] == ["requeue", "hold"]


def test_a_cut_line_of_the_log_is_skipped(tmp_path: pathlib.Path) -> None:
    root = Root(str(tmp_path))
    append_decision(root, T0, 7, 1, {"action": "hold", "reason": "x"})
    path = tmp_path / "var/lib/hpcai/ledger/decisions.jsonl"
    path.write_text(path.read_text() + json.dumps({"time": T0})[:-3])
    assert len(read_decisions(root, 0, END)) == 1


def test_the_log_of_decisions_has_a_size_limit(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Users cause decisions, and each pass reads the log."""
    monkeypatch.setattr(decisions, "LARGEST", 1000)
    root = Root(str(tmp_path))
    for number in range(200):
        append_decision(root, T0 + number, number, 1, {"action": "hold", "reason": "x"})
    folder = tmp_path / "var/lib/hpcai/ledger"
    assert sum(path.stat().st_size for path in folder.iterdir()) < 2200
    kept = [one["job"] for one in read_decisions(root, 0, END)]
    assert kept == list(range(kept[0], 200))
    assert len(kept) > 10
