# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two nodes that are killed at each operation of publishing or pruning a checkpoint, in every order of the nodes."""

from __future__ import annotations

import contextlib
import functools
import itertools
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from stand_ins.folder_store import Faults, Killed

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.manifest import BadManifest, complete
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.prune import Retention, prune
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.publish import Local, publish

from .conftest import Job

OLD, NEW = "old", "new"
HOW: list[dict[str, Any]] = [{}, {"torn": True}, {"done_first": True}]
"""Killed before an operation, during it, or after it."""
TURN_S = 20.0


def job_with_old(folder: Path) -> Job:
    """A job whose step 100 is complete. Created once for each test, then copied."""
    made = Job(folder.parent / "made-once")
    if not made.blobs.exists():
        for rank in (0, 1):
            made.publish(made.save(100, rank, OLD))
        assert made.restored() == OLD
    shutil.copytree(made.blobs, folder / "blobs")
    return Job(folder)


def killed(work: Callable[[], object]) -> bool:
    """Run a process's work; return whether it was killed."""
    try:
        work()
    except Killed:
        return True
    return False


@pytest.mark.parametrize("how", HOW, ids=["before", "torn", "after"])
@pytest.mark.parametrize("victim", [0, 1])
def test_a_node_killed_at_each_operation_leaves_one_complete_step(
    tmp_path: Path, victim: int, how: dict[str, Any]
) -> None:
    """The other node publishes before or after; then the killed node comes back and continues."""
    cases = 0
    for other_first in (True, False):
        for number in itertools.count(1):
            job = job_with_old(tmp_path / f"{other_first}{number}")
            mine, others = job.save(200, victim, NEW), job.save(200, 1 - victim, NEW)
            if other_first:
                job.publish(others)
            died = killed(functools.partial(job.publish, mine, Faults(kill_at=number, **how)))
            if not other_first:
                # A torn manifest is rewritten only by its own node: the other node cannot know.
                with_torn = killed(functools.partial(publish_if_possible, job, others))
                assert not with_torn
            assert job.restored("after") in (OLD, NEW)
            job.publish(mine)
            assert job.restored("resumed") == NEW
            cases += 1
            if not died:
                assert number > 8
                break
            shutil.rmtree(job.folder)
    assert cases > 18


def publish_if_possible(job: Job, local: Local) -> None:
    """Publish; files that the other node left may be refused."""
    with contextlib.suppress(BadManifest):
        job.publish(local)


class Turns:
    """Lets two processes run one operation at a time, in a given order; then the one that is left."""

    def __init__(self, order: Sequence[int]) -> None:
        self.order = list(order)
        self.at = 0
        self.ended: set[int] = set()
        self.condition = threading.Condition()

    def wait(self, who: int) -> None:
        """Wait for this process's turn."""
        with self.condition:
            assert self.condition.wait_for(lambda: self._next() == who, TURN_S), "the turn never came"
            if self.at < len(self.order):
                self.at += 1
            self.condition.notify_all()

    def end(self, who: int) -> None:
        """Record that this process has ended."""
        with self.condition:
            self.ended.add(who)
            self.condition.notify_all()

    def _next(self) -> int:
        while self.at < len(self.order) and self.order[self.at] in self.ended:
            self.at += 1
        if self.at < len(self.order):
            return self.order[self.at]
        return min({0, 1} - self.ended)


def run_in_order(
    order: Sequence[int], works: Sequence[Callable[[Faults], object]], kills: Sequence[int] = (0, 0)
) -> None:
    """Run two processes with their operations in this order; each may be killed at one of its operations."""
    turns, problems = Turns(order), []

    def run(who: int) -> None:
        try:
            works[who](Faults(kill_at=kills[who], before=lambda _number, _words: turns.wait(who)))
        except Killed:
            pass
        except BaseException as error:
            problems.append(error)
        finally:
            turns.end(who)

    threads = [threading.Thread(target=run, args=(who,), daemon=True) for who in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TURN_S * 3)
    assert not problems, problems


def orders(tail: int) -> Iterator[tuple[int, ...]]:
    """All orders of the last ``tail`` operations of two processes."""
    for chosen in itertools.combinations(range(2 * tail), tail):
        yield tuple(0 if index in chosen else 1 for index in range(2 * tail))


@pytest.mark.parametrize(("stride", "plays"), [(7, 36), pytest.param(1, 252, marks=pytest.mark.thorough)])
def test_any_order_of_the_last_operations_gives_one_complete_step(tmp_path: Path, stride: int, plays: int) -> None:
    """From writing the nodes' manifests to writing the job's manifest."""
    length = len(job_with_old(tmp_path / "length").publish(Job(tmp_path / "length").save(200, 0, NEW)))
    head, count = length - 2, 0
    for order in itertools.islice(orders(5), 0, None, stride):
        folder = tmp_path / "play"
        job = job_with_old(folder)
        locals_ = [job.save(200, rank, NEW) for rank in (0, 1)]
        first = [0] * (head - 1) + [1] * (head - 1)
        run_in_order((*first, *order), [functools.partial(job.publish, one) for one in locals_])
        assert job.restored("after") == NEW
        shutil.rmtree(folder)
        count += 1
    assert count == plays


@pytest.mark.parametrize(("stride", "plays"), [(3, 25), pytest.param(1, 196, marks=pytest.mark.thorough)])
def test_killing_both_nodes_anywhere_never_mixes_checkpoints(tmp_path: Path, stride: int, plays: int) -> None:
    """All pairs of operations at which the two nodes are killed, with their operations alternating."""
    count = 0
    outcomes = set()
    for kills in itertools.product(range(14, 0, -stride), repeat=2):
        folder = tmp_path / "play"
        job = job_with_old(folder)
        locals_ = [job.save(200, rank, NEW) for rank in (0, 1)]
        works = [functools.partial(job.publish, one) for one in locals_]
        run_in_order([0, 1] * 17, works, kills)
        outcomes.add(job.restored("after"))
        # A new attempt of the job saves the same step with other contents: nothing from the killed one is mixed in.
        for rank in (0, 1):
            job.publish(job.save(200, rank, "newer", attempt="7.1"))
        assert job.restored("next") == "newer"
        shutil.rmtree(folder)
        count += 1
    assert count == plays
    assert outcomes == {OLD, NEW}


@pytest.mark.parametrize("how", HOW, ids=["before", "torn", "after"])
def test_pruning_killed_at_each_operation_leaves_complete_checkpoints(tmp_path: Path, how: dict[str, Any]) -> None:
    for number in itertools.count(1):
        job = job_with_old(tmp_path / str(number))
        for rank in (0, 1):
            job.publish(job.save(200, rank, NEW))
        died = killed(functools.partial(prune, job.store(Faults(kill_at=number, **how)), Retention(last=1)))
        assert job.restored("after") == NEW
        # Without the newest one too, a half-removed checkpoint is never restored instead.
        kept = [name for name in job.store().names() if name.startswith("complete/")]
        (job.blobs / "complete" / "000000000200-7.0-w2.json").unlink()
        assert job.restored("without") == (OLD if len(kept) == 2 and not marked(job) else "nothing")
        prune(job.store(), Retention(last=1))
        names = [name for name in job.store().names() if "000000000100" in name]
        if marked(job):
            assert names == ["pruned/000000000100-7.0-w2"]
        if not died:
            assert number > 8
            break


def test_pruning_writes_a_mark_then_removes_manifests_then_data(tmp_path: Path) -> None:
    job = job_with_old(tmp_path / "job")
    for rank in (0, 1):
        job.publish(job.save(200, rank, NEW))
    store = job.store()
    prune(store, Retention(last=1))
    done = [words for words in store.log if words.startswith(("put", "remove"))]
    assert [words.split("/")[0] for words in done] == [
        "put pruned",
        "remove complete",
        *["remove shards"] * 2,
        *["remove data"] * 4,
    ]


@pytest.mark.parametrize("victim", [0, 1])
def test_the_same_step_of_another_attempt_keeps_the_complete_one(tmp_path: Path, victim: int) -> None:
    """The old and the new checkpoint have the same names and sizes; the newer attempt is killed at each operation."""
    for number in itertools.count(1):
        job = job_with_old(tmp_path / str(number))
        mine, others = (job.save(100, rank, NEW, attempt="7.1") for rank in (victim, 1 - victim))
        job.publish(others)
        died = killed(functools.partial(job.publish, mine, Faults(kill_at=number)))
        assert job.restored("after") == (OLD if died and not newer_is_complete(job) else NEW)
        if not died:
            assert number > 8
            break


def newer_is_complete(job: Job) -> bool:
    """Whether the job's manifest of attempt 7.1 exists."""
    return (job.blobs / "complete" / "000000000100-7.1-w2.json").exists()


def marked(job: Job) -> bool:
    """Whether step 100 is marked as pruned."""
    return (job.blobs / "pruned" / "000000000100-7.0-w2").exists()


def test_a_delayed_node_cannot_bring_back_a_pruned_checkpoint(tmp_path: Path) -> None:
    """It has found all manifests, and writes the job's manifest after the checkpoint was pruned."""
    job = job_with_old(tmp_path / "job")
    late = [name for name in job.store().names() if name.startswith("complete/")]
    text = (job.blobs / late[0]).read_text()
    for rank in (0, 1):
        job.publish(job.save(200, rank, NEW))
    prune(job.store(), Retention(last=1))
    (job.blobs / late[0]).write_text(text)
    (job.blobs / "complete" / "000000000200-7.0-w2.json").unlink()
    assert job.restored() == "nothing"
    prune(job.store(), Retention(last=1))
    assert late[0] not in job.store().names()


def test_a_stale_listing_delays_and_never_mixes_checkpoints(tmp_path: Path) -> None:
    job = job_with_old(tmp_path / "job")
    first, second = (job.save(200, rank, NEW) for rank in (0, 1))
    job.publish(first)
    store = job.store()
    store.stale.add(first.id.shard(0))
    publish(store, second)
    assert complete(store, second.id) is None
    assert job.restored("meanwhile") == OLD
    assert complete(job.store(), second.id) is not None
    assert job.restored("after") == NEW
