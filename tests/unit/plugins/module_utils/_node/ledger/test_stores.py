# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stores of checkpoints: for whose jobs they count, and what is recorded of them."""

from __future__ import annotations

import json
import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger import checkpoints, gather
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.buckets import ORDER
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.checkpoints import Checkpoint
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

from .playing import END, STEPS, T0, database, ledger_of
from .test_ledger import asked, slurmctld


def test_a_checkpoint_in_the_store_of_another_user_changes_nothing() -> None:
    alone = ledger_of(database())
    forged = [
        Checkpoint("000000000005-10.1-w1", T0 + 300, "bobs"),
        Checkpoint("000000000040-10.0-w2", None, "", ("bob",)),
        Checkpoint("000000000005-12.0-w1", T0 + 450, "bobs", ("bob2",)),
    ]
    found = ledger_of(database(), [*STEPS, *forged])
    assert {bucket: found.seconds(bucket) for bucket in ORDER} == {bucket: alone.seconds(bucket) for bucket in ORDER}
    assert (found.work, found.lost) == (alone.work, alone.lost)


def test_a_checkpoint_counts_for_the_training_and_the_users_of_its_store() -> None:
    for one in (
        Checkpoint("000000000040-10.0-w2", 1.0, "llama"),
        Checkpoint("000000000040-10.0-w2", 1.0, "", ("alice",)),
    ):
        assert checkpoints.index_of([one]).step_at(10, 2.0, "llama", "alice") == 40
        assert checkpoints.index_of([one]).step_at(10, 2.0, "", "bob") is None


def test_an_earlier_record_is_read_and_one_store_cannot_grow_the_record(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, path = Root(str(tmp_path)), tmp_path / checkpoints.RECORD.lstrip("/")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"schema": 1, "checkpoints": {STEPS[0].id: [T0 + 100, "x"]}}), encoding="utf-8")
    (read,) = checkpoints.read_record(root)
    assert read == Checkpoint(STEPS[0].id, T0 + 100, "x")
    monkeypatch.setattr(checkpoints, "_MOST_OF_SERIES", 3)
    many = [Checkpoint(f"{step:012d}-10.0-w1", T0 + step if step else None, "bobs") for step in range(9)]
    kept = checkpoints.merged([read], many, END)
    assert kept == [read, *many[-3:]]
    checkpoints.write_record(root, kept)
    assert sorted(one.id for one in checkpoints.read_record(root)) == sorted(one.id for one in kept)


def test_a_store_without_room_for_its_temporary_folder_is_noted(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_given: object, **_more: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(gather, "open_store", full)
    settings = gather.Settings(stores=(gather.Series("https://a.blob.core.windows.net/c/x"),))
    found, _rates = gather.gather(Root(str(tmp_path)), slurmctld, settings, asked(), database())
    assert "No space left on device" in found.notes[0]


def test_a_store_that_cannot_be_read_is_noted_and_the_record_is_used(tmp_path: pathlib.Path) -> None:
    root = Root(str(tmp_path))
    checkpoints.write_record(root, STEPS)
    settings = gather.Settings(stores=(gather.Series("http://not-https.example.com/x"),))
    found, _rates = gather.gather(root, slurmctld, settings, asked(), database())
    assert found.seconds("kept") == 2 * 70 + 2 * 100
    assert "newer checkpoints are unknown" in found.notes[0]


def test_a_damaged_record_is_an_error_that_says_what_to_do(tmp_path: pathlib.Path) -> None:
    path = tmp_path / checkpoints.RECORD.lstrip("/")
    path.parent.mkdir(parents=True)
    for text in ("{", "[]", '{"schema": 3}', json.dumps({"schema": 1, "checkpoints": {"a": 1}})):
        path.write_text(text)
        with pytest.raises(ConfigError, match="move it away"):
            checkpoints.read_record(Root(str(tmp_path)))
