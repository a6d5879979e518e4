# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Repeated runs on the same target: what they reuse, and what they copy again.

azcopy is faked here. The real one runs in tests/contract/blob.
"""

from __future__ import annotations

import gzip
import os
import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.credential import NONE, Credential
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.location import BlobLocation
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.output import Blob, Outcome
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.tool import Azcopy
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.stage import apply
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.stage.listing import FILE, Listing, shared_listing
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.stage.manifest import Verification, verify
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.stage.options import StageOptions

LOCATION = BlobLocation("https://a.blob.core.windows.net/data")


class Account:
    """Blobs, and a target that they are staged to."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.target = folder / "target"
        self.state = self.target / ".hpcai-stage"
        self.state.mkdir(parents=True)
        self._contents: dict[str, bytes] = {}
        self._blobs: dict[str, Blob] = {}
        self._work = folder / "work"
        self.carried: list[str] = []
        self.dies = False

    def put(self, name: str, content: bytes, version: int = 1, encoding: str = "") -> None:
        """Store a blob without an MD5, as many tools do."""
        self._contents[name] = content
        self._blobs[name] = Blob(name, len(content), "", encoding, f"2026-01-0{version}T00:00:00Z")

    def download(
        self,
        _tool: Azcopy,
        _location: BlobLocation,
        names: Sequence[str],
        folder: str,
        *_more: object,
        **_options: object,
    ) -> Outcome:
        """Copy blobs, in the place of azcopy."""
        for name in names:
            self.carried.append(name)
            pathlib.Path(folder, name).write_bytes(self._contents[name])
        if self.dies:
            raise KeyboardInterrupt
        return Outcome()

    def stage(
        self, number: int = 0, count: int = 1, decompress: bool = False, sums: Mapping[str, str] | None = None
    ) -> apply.StageResult:
        """Stage one shard from a new listing."""
        self.carried.clear()
        (self.state / FILE).unlink(missing_ok=True)
        listing: Listing = shared_listing(
            str(self.state), True, "", lambda: list(self._blobs.values()), LOCATION.address, 1
        )
        options = StageOptions(LOCATION, str(self.target), number, count, decompress=decompress, workers=1, sums=sums)
        return apply.stage(options, Azcopy(str(self._work), Credential(NONE)), listing)

    def stage_all(self, count: int, **options: Any) -> list[str]:
        """Stage all shards, and return what was copied."""
        copied = []
        for number in range(count):
            done = self.stage(number, count, **options)
            assert not done.problem
            copied += self.carried
        return sorted(copied)

    def verify(self) -> Verification:
        """Verify the target."""
        return verify(str(self.target), str(self.state), full=True, workers=1)

    def files(self) -> Mapping[str, bytes]:
        """The files in the target."""
        return {path.name: path.read_bytes() for path in self.target.iterdir() if path.is_file()}


@pytest.fixture
def account(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Account:
    """An account with four blobs."""
    made = Account(tmp_path)
    for number, name in enumerate("abcd"):
        made.put(name, name.encode() * (number + 1))
    monkeypatch.setattr(apply, "download", made.download)
    return made


@pytest.mark.parametrize("counts", [(4, 2), (2, 4), (1, 4), (4, 1), (2, 2)])
def test_staged_blobs_are_not_copied_again_with_other_numbers_of_shards(
    account: Account, counts: tuple[int, int]
) -> None:
    assert account.stage_all(counts[0]) == ["a", "b", "c", "d"]
    assert account.stage_all(counts[1]) == []
    assert account.verify().problems == ()


@pytest.mark.parametrize("counts", [(4, 2), (2, 4), (1, 4), (4, 1), (2, 2)])
def test_a_changed_blob_is_copied_once_with_other_numbers_of_shards(account: Account, counts: tuple[int, int]) -> None:
    """Manifests of runs with another number of shards are kept, and list an older version of the blob."""
    account.stage_all(counts[0])
    account.put("b", b"BB", version=2)
    assert account.stage_all(counts[1]) == ["b"]
    assert account.verify().problems == ()
    assert account.stage_all(counts[1]) == []
    assert account.stage_all(counts[0]) == []
    assert account.files()["b"] == b"BB"


def test_a_target_with_an_older_version_fails_verification(account: Account) -> None:
    account.stage_all(2)
    account.put("b", b"BB", version=2)
    (account.state / FILE).unlink()
    shared_listing(str(account.state), True, "", lambda: list(account._blobs.values()), LOCATION.address, 1)
    assert any("'b' was staged from another version of the blob" in problem for problem in account.verify().problems)


def test_a_complete_file_of_a_killed_run_is_reused(account: Account) -> None:
    kill_before_b_is_accepted(account)
    assert account.stage().copied == 1
    assert account.carried == []
    assert account.verify().problems == ()


def test_a_file_of_a_killed_run_with_an_older_version_is_copied_again(account: Account) -> None:
    """It has the same size as the new version, and there is no MD5 to distinguish them."""
    kill_before_b_is_accepted(account)
    account.put("b", b"BB", version=2)
    assert not account.stage().problem
    assert account.carried == ["b"]
    assert account.files()["b"] == b"BB"
    assert not list(account.state.glob("incoming-*"))


def kill_before_b_is_accepted(account: Account) -> None:
    """Leave the files of a run that was killed after it copied 'b' and before it recorded that."""
    account.dies = True
    with pytest.raises(KeyboardInterrupt):
        account.stage()
    account.dies = False
    (incoming,) = account.state.glob("incoming-*")
    os.rename(account.target / "b", incoming / "b")
    manifest = account.state / "manifest-00000-of-00001.jsonl"
    lines = manifest.read_text(encoding="utf-8").splitlines(keepends=True)
    manifest.write_text("".join(line for line in lines if '"name":"b"' not in line), encoding="utf-8")


def test_leftovers_of_killed_runs_of_other_shards_are_removed(account: Account) -> None:
    account.dies = True
    for number in range(4):
        with pytest.raises(KeyboardInterrupt):
            account.stage(number, 4)
    assert len(list(account.state.glob("incoming-*"))) == 4
    account.dies = False
    account.stage_all(2)
    assert not list(account.state.glob("incoming-*"))


@pytest.mark.parametrize(("name", "becomes"), [("text.gz", "text"), ("text", "text")])
def test_a_blob_that_was_staged_compressed_is_decompressed_on_request(
    account: Account, name: str, becomes: str
) -> None:
    account.put(name, gzip.compress(b"words"), encoding="gzip")
    account.stage_all(1)
    assert gzip.decompress(account.files()[name]) == b"words"
    assert account.stage_all(1, decompress=True) == [name]
    assert account.files()[becomes] == b"words"
    assert account.verify().problems == ()
    assert account.stage_all(1, decompress=True) == []
    assert account.stage_all(1) == [name]
    assert gzip.decompress(account.files()[name]) == b"words"
    assert account.verify().problems == ()


def test_a_damaged_file_is_copied_again(account: Account) -> None:
    account.stage_all(2)
    (account.target / "b").write_bytes(b"other")
    assert account.verify().count == 1
    assert account.stage_all(2) == ["b"]
    assert account.verify().problems == ()


def test_brackets_in_a_pattern_are_literal_and_match_no_blob(account: Account) -> None:
    listing = shared_listing(str(account.state), True, "", lambda: list(account._blobs.values()), LOCATION.address, 1)
    options = replace(StageOptions(LOCATION, str(account.target)), pattern="[ab]*")
    with pytest.raises(ValueError, match="no blob"):
        apply.stage(options, Azcopy("/nonexistent", Credential(NONE)), listing)
