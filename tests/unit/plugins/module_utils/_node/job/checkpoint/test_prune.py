# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which checkpoints are retained, and which are pruned."""

from __future__ import annotations

import os

import pytest
from stand_ins.folder_store import Faults

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.manifest import completed
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.names import Id, id_in, id_of, line_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.prune import Retention, plan, prune
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed

from .conftest import Job

NOW = 1_000_000.0
HOUR = 3600.0


def ids(*steps: int, attempt: str = "7.0") -> list[Id]:
    """Checkpoints of these steps."""
    return [Id(step, attempt, 2) for step in steps]


@pytest.mark.parametrize(
    ("keep", "gone"),
    [
        (Retention(last=1), [100, 200, 300, 400]),
        (Retention(last=2), [100, 200, 300]),
        (Retention(last=2, every=200), [100, 300]),
        (Retention(last=9), []),
        (Retention(last=0), [100, 200, 300, 400]),
    ],
)
def test_the_last_and_every_kth_step_are_retained(keep: Retention, gone: list[int]) -> None:
    complete = ids(100, 200, 300, 400, 500)
    made = plan(complete, dict.fromkeys(complete, NOW), {}, keep, NOW)
    assert [id_.step for id_ in made.complete] == gone
    assert made.leftovers == ()


def test_a_later_attempt_is_newer_than_an_earlier_one_of_the_same_step() -> None:
    complete = [Id(100, "9.0", 2), Id(100, "10.0", 2)]
    made = plan(complete, {}, {}, Retention(last=1, branches=False), NOW)
    assert made.complete == (complete[0],)


def two_attempts() -> tuple[list[Id], list[Id], dict[Id, float]]:
    """An attempt with steps 100 to 500, a later one that restored step 200, and when each checkpoint was written."""
    before, after = ids(100, 200, 300, 400, 500), ids(210, 220, attempt="8.0")
    return before, after, {id_: NOW + number for number, id_ in enumerate([*before, *after])}


@pytest.mark.parametrize(
    "keep", [Retention(last=2, attempt="8.0"), Retention(last=2), Retention(last=2, attempt="8.0", every=1000)]
)
def test_after_a_restore_of_an_older_step_the_other_branch_is_retained(keep: Retention) -> None:
    before, after, written = two_attempts()
    made = plan([*after, *before], written, {}, keep, NOW)
    assert made.complete == tuple(before[:2])
    assert made.branches == tuple(before[2:])


def test_a_late_part_does_not_make_an_earlier_attempt_of_the_job_the_newest() -> None:
    """Step 17 of the first start became complete after the second start had, and after step 10 was pruned."""
    (late,), later = ids(17), ids(20, 30, attempt="7.1")
    written = {late: NOW + 200, later[0]: NOW, later[1]: NOW + 100}
    assert line_of(written).ordered == (late, *later)
    assert plan(written, written, {}, Retention(last=2), NOW).complete == (late,)
    # Between two jobs, the time decides.
    other = Id(16, "8.0", 2)
    assert line_of({late: NOW + 200, other: NOW}).line == (other, late)
    assert line_of({late: NOW - 200, other: NOW}).ordered == (late, other)


def test_another_branch_is_pruned_only_on_request() -> None:
    before, after, written = two_attempts()
    made = plan([*before, *after], written, {}, Retention(last=4, attempt="8.0", branches=False), NOW)
    assert (made.complete, made.branches) == (tuple(before[2:]), ())


def test_the_running_attempts_newest_are_always_retained() -> None:
    before, after, written = two_attempts()
    late = {**written, before[-1]: NOW + 99}
    made = plan([*before, *after], late, {}, Retention(last=1, attempt="8.0"), NOW)
    assert after[-1] not in made.complete
    assert made.branches == tuple(before[2:])


def test_a_branch_starts_after_the_restored_step() -> None:
    before, after = ids(100, 200, 300), ids(400, attempt="8.0")
    written = {id_: NOW + number for number, id_ in enumerate([*before, *after])}
    assert plan(written, written, {}, Retention(last=1, attempt="8.0"), NOW).branches == ()
    assert plan(written, written, {}, Retention(last=1, attempt="8.0", resumed=200), NOW).branches == (before[2],)


def test_the_restored_step_is_retained_until_the_first_new_checkpoint() -> None:
    complete = ids(100, 200, 300)
    made = plan(complete, dict.fromkeys(complete, NOW), {}, Retention(last=1, attempt="8.0", resumed=200), NOW)
    assert (made.complete, made.branches) == ((complete[0],), (complete[2],))


def test_each_attempt_can_start_a_branch_of_the_earlier_ones() -> None:
    first, second, third = ids(100, 200, 300), ids(150, 160, attempt="8.0"), ids(320, attempt="9.0")
    written = {id_: NOW + number for number, id_ in enumerate([*first, *second, *third])}
    made = plan(written, written, {}, Retention(last=1, attempt="9.0"), NOW)
    assert made.branches == tuple(first[1:])
    assert made.complete == (first[0], *second)


def test_a_restore_finds_the_newest_checkpoint_of_the_newest_attempt(job: Job) -> None:
    for attempt, steps in (("7.0", (100, 500)), ("8.0", (110,))):
        for step in steps:
            for rank in (0, 1):
                job.publish(job.save(step, rank, f"{step} of {attempt}", attempt=attempt))
        for blob in job.blobs.rglob("*7.0*.json"):
            os.utime(blob, (NOW, NOW))
    assert job.restored() == "110 of 8.0"
    assert prune(job.store(), Retention(last=1)).branches == (Id(500, "7.0", 2),)
    assert [id_.text for id_ in completed(job.store())] == ["000000000500-7.0-w2", "000000000110-8.0-w2"]


def test_leftovers_that_may_still_be_published_are_retained() -> None:
    fresh, old, current = Id(100, "6.0", 2), Id(200, "6.0", 2), Id(50, "7.0", 2)
    stored = {fresh: NOW - 23 * HOUR, old: NOW - 25 * HOUR, current: NOW - 90 * HOUR}
    assert plan([], stored, {}, Retention(attempt="7.0"), NOW).leftovers == (old,)


def test_marks_are_kept_while_their_writers_may_still_run() -> None:
    half, done, current = Id(100, "6.0", 2), Id(200, "6.0", 2), Id(300, "7.0", 2)
    marks = {half: NOW - 99 * HOUR, done: NOW - 99 * HOUR, current: NOW - 99 * HOUR}
    made = plan([], {half: NOW}, marks, Retention(attempt="7.0"), NOW)
    assert (made.leftovers, made.marks) == ((half,), (done,))
    assert plan([], {}, {done: NOW - HOUR}, Retention(), NOW).marks == ()


def test_checkpoints_of_a_newer_hpcnode_are_retained(job: Job) -> None:
    for rank in (0, 1):
        job.publish(job.save(100, rank, "old"))
    path = job.blobs / Id(100, "7.0", 2).complete
    path.write_text(path.read_text().replace('"schema": 1', '"schema": 2'))
    for blob in job.blobs.rglob("*.*"):
        os.utime(blob, (NOW, NOW))
    before = job.store().names()
    assert completed(job.store()) == {}
    assert prune(job.store(), Retention(last=1), NOW * 2).leftovers == ()
    assert job.store().names() == before


def test_old_checkpoints_are_removed_completely_and_no_others(job: Job) -> None:
    for step in (100, 200, 300):
        for rank in (0, 1):
            job.publish(job.save(step, rank, str(step)))
    job.publish(job.save(150, 0, "leftover", attempt="6.0"))
    for blob in job.blobs.rglob("*6.0*/**/*"):
        os.utime(blob, (NOW, NOW))
    made = prune(job.store(), Retention(last=1, every=100000, attempt="7.0"))
    assert [id_.step for id_ in made.complete] == [100, 200]
    assert [id_.step for id_ in made.leftovers] == [150]
    remaining = {id_in(name) for name in job.store().names() if not name.startswith("pruned/")}
    assert {id_.step for id_ in remaining if id_} == {300}
    assert job.restored() == "300"


@pytest.mark.parametrize("text", ["000000000100-7.0-w2", "000000000100-7.0-w12-3"])
def test_a_written_id_is_read_back_unchanged(text: str) -> None:
    found = id_of(text)
    assert found is not None
    assert found.text == text
    assert id_in(found.shard(1)) == id_in(found.complete) == id_in(found.pruned) == id_in(found.data(0, "abc")) == found


@pytest.mark.parametrize(
    "text", ["100-7.0-w2", "000000000100-7-0-w2", "000000000100-7.0-w0", "", "000000000100-../x-w2"]
)
def test_an_invalid_id_is_read_as_none(text: str) -> None:
    assert id_of(text) is None


def test_a_listing_during_pruning_shows_the_remaining_checkpoints(job: Job) -> None:
    for step in (100, 200):
        for rank in (0, 1):
            job.publish(job.save(step, rank, str(step)))

    def prune_before_it_is_read(_number: int, words: str) -> None:
        if words.startswith("get complete/") and (job.blobs / Id(100, "7.0", 2).complete).exists():
            prune(job.store(), Retention(last=1))

    assert [id_.step for id_ in completed(job.store(Faults(before=prune_before_it_is_read)))] == [200]


def test_a_manifest_that_cannot_be_read_is_an_error(job: Job) -> None:
    for rank in (0, 1):
        job.publish(job.save(100, rank, "one"))

    def break_off(_number: int, words: str) -> None:
        if words.startswith("get complete/"):
            raise CommandFailed("the network is away")

    with pytest.raises(CommandFailed, match="the network is away"):
        completed(job.store(Faults(before=break_off)))
