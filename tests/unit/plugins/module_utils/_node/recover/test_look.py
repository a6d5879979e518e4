# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Recovery of jobs: which jobs, which decision, and which commands Slurm gets."""

from __future__ import annotations

import itertools
import json
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger import checkpoints
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.checkpoints import Checkpoint
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.decisions import append_decision, read_decisions
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.recover import look
from ansible_collections.hpcai.azure.plugins.module_utils._node.recover.settings import Settings

from ..ledger.playing import END, T0, gone, lines, run_line

ASKS = "hpcai:recover"
DEAD = "c-1|2026-01-01T00:01:40|Unknown|DOWN*|slurm|Not responding"


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
) -> list[look.Done]:
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
    slurmctld = Slurmctld(["7|PENDING|1|1|"])
    (done,) = one_pass(tmp_path, slurmctld, [run_line(7, "NODE_FAIL", 0, 120, "c-[0-1]", comment=ASKS)], [DEAD])
    assert (done.decision.action, done.decision.leave_out) == ("requeue", ("c-1",))
    assert slurmctld.changes[0] == "update JobId=7 ExcNodeList=c-1"
    assert "AdminComment=hpcai: a node failed on c-1; it advanced from step 0 to 40" in slurmctld.changes[1]
    (entry,) = read_decisions(Root(str(tmp_path)), 0, END)
    assert (entry["job"], entry["action"], entry["leave_out"]) == (7, "requeue", ["c-1"])


def test_a_failed_job_is_requeued_held_changed_and_released(tmp_path: pathlib.Path) -> None:
    slurmctld = Slurmctld(["7|FAILED|0|1|"])
    line = run_line(7, "FAILED", 0, 120, "c-[0-1]", comment=ASKS).replace("@0:0@", "@1:0@")
    (done,) = one_pass(tmp_path, slurmctld, [line])
    assert done.decision.action == "requeue"
    assert slurmctld.changes[0] == "requeuehold 7"
    assert "ExcNodeList=c-1" in slurmctld.changes[1]
    assert "StartTime=now+60" in slurmctld.changes[1]
    assert slurmctld.changes[2] == "release 7"


def test_a_users_own_bug_is_held_after_the_same_exit_on_other_nodes(tmp_path: pathlib.Path) -> None:
    slurmctld = Slurmctld(["7|FAILED|1|1|"], nodes="NodeName=c-9 State=IDLE\n")
    first, second = (
        run_line(7, "FAILED", start, start + 60, nodes, comment=ASKS).replace("@0:0@", "@1:0@")
        for start, nodes in ((0, "c-[0-1]"), (200, "c-[2-3]"))
    )
    (done,) = one_pass(tmp_path, slurmctld, [first, second])
    assert done.decision.action == "hold"
    assert "the cause is the program and not a node" in done.decision.reason
    assert slurmctld.changes[:2] == ["requeuehold 7", "uhold 7"]


def test_a_job_that_hangs_is_recovered_as_one(tmp_path: pathlib.Path) -> None:
    slurmctld = Slurmctld(["7|FAILED|0|1|"], nodes="NodeName=c-9 State=IDLE\n")
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
    slurmctld = Slurmctld(["7|FAILED|0|1|"])
    done = one_pass(
        tmp_path, slurmctld, [run_line(7, "FAILED", 0, 60, comment=comment)], settings=Settings(partitions=partitions)
    )
    assert bool(done) == recovered
    assert bool(slurmctld.changes) == recovered


def test_each_end_is_handled_once(tmp_path: pathlib.Path) -> None:
    slurmctld, handled = Slurmctld(["7|FAILED|0|1|"]), set[tuple[int, int, bool]]()
    runs = [run_line(7, "FAILED", 0, 60, comment=ASKS)]
    assert one_pass(tmp_path, slurmctld, runs, handled=handled)
    assert not one_pass(tmp_path, slurmctld, runs, handled=handled)


def test_a_job_that_was_cancelled_meanwhile_stays_cancelled(tmp_path: pathlib.Path) -> None:
    slurmctld = Slurmctld(["7|FAILED|0|1|"], later=[])
    (done,) = one_pass(tmp_path, slurmctld, [run_line(7, "FAILED", 0, 60, comment=ASKS)])
    assert "changed meanwhile" in done.problem
    assert slurmctld.changes == []


def test_without_the_end_in_slurmdbd_the_next_pass_decides(tmp_path: pathlib.Path) -> None:
    slurmctld, handled = Slurmctld(["7|FAILED|0|1|"]), set[tuple[int, int, bool]]()
    assert not one_pass(tmp_path, slurmctld, [run_line(7, "RUNNING", 0, None, comment=ASKS)], handled=handled)
    assert one_pass(tmp_path, slurmctld, [run_line(7, "FAILED", 0, 60, comment=ASKS)], handled=handled)


def test_a_refused_command_leaves_the_job_held_and_is_recorded(tmp_path: pathlib.Path) -> None:
    slurmctld = Slurmctld(["7|FAILED|0|1|"], refuses="release")
    (done,) = one_pass(tmp_path, slurmctld, [run_line(7, "FAILED", 0, 60, comment=ASKS)])
    assert "refused" in done.problem
    assert read_decisions(Root(str(tmp_path)), 0, END)[0]["problem"] == done.problem


def test_without_slurmdbd_or_slurmctld_nothing_is_done_and_it_is_said_once(tmp_path: pathlib.Path) -> None:
    slurmctld = Slurmctld(["7|FAILED|0|1|"])
    passes: list[float] = []
    said = look.look_forever(Root(str(tmp_path)), slurmctld, Settings(), lambda: END, passes.append, ask=gone)
    assert "slurmdbd" in next(said)

    def away(words: Sequence[str]) -> Result:
        return Result(tuple(words), 1, "", "Unable to contact slurm controller")

    with pytest.raises(CommandFailed, match="Unable to contact"):
        look.look(Root(str(tmp_path)), away, Settings(), END, set(), ask=lines([]))
    assert slurmctld.changes == []


@pytest.mark.parametrize("line", ["7|PENDING|0|1|", "7|FAILED|0|0|", "7_[1-3]|PENDING|1|1|", "x", "7|FAILED||1|"])
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
        slurmctld = Slurmctld([f"7|PENDING|{count}|1|"], nodes="NodeName=c-99 State=IDLE\n")
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
