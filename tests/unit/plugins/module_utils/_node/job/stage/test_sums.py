# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The SHA-256 sums of a data set: what is refused, and that sha256sum reads and writes the same."""

from __future__ import annotations

import hashlib
import pathlib
import subprocess

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.stage import apply
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.stage.manifest import current_files
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.stage.options import StageOptionsError
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.stage.sums import Sums, read_sums
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError

from .test_apply import Account


def sha(content: bytes) -> str:
    """The SHA-256 of a content."""
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def account(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Account:
    """An account with two blobs."""
    made = Account(tmp_path)
    for name in "ab":
        made.put(name, name.encode())
    monkeypatch.setattr(apply, "download", made.download)
    return made


GOOD = {"a": sha(b"a"), "b": sha(b"b")}


def test_a_data_set_that_agrees_with_its_sums_is_staged(account: Account) -> None:
    assert not account.stage(sums=GOOD).problem
    assert account.files() == {"a": b"a", "b": b"b"}


def test_a_file_with_another_content_gets_no_final_name(account: Account) -> None:
    account.put("b", b"X")
    done = account.stage(sums=GOOD)
    assert done.left == ("b",)
    assert f"its SHA-256 is {sha(b'X')}, but the sums have {GOOD['b']}" in done.problem
    assert account.files() == {"a": b"a"}


def test_a_file_that_was_staged_without_sums_and_differs_is_copied_again(account: Account) -> None:
    account.put("b", b"X")
    account.stage()
    assert account.stage(sums=GOOD).left == ("b",)
    assert account.carried == ["b"]


@pytest.mark.parametrize(
    ("sums", "words"),
    [
        ({"a": GOOD["a"]}, "1 of 2 files have no sum"),
        ({**GOOD, "c": sha(b"c")}, "1 of 3 files have a sum, but no blob"),
    ],
)
def test_another_data_set_is_refused_before_anything_is_copied(
    account: Account, sums: dict[str, str], words: str
) -> None:
    with pytest.raises(StageOptionsError, match=words):
        account.stage(sums=sums)
    assert account.carried == []


def test_sums_of_staged_files_are_those_of_sha256sum(account: Account, tmp_path: pathlib.Path) -> None:
    account.stage()
    staged = current_files(str(account.state))[1]
    made = Sums({one.path: one.sha256 for one in staged})
    assert made.files == GOOD
    file = tmp_path / "sums"
    file.write_text(made.text)
    subprocess.run(["sha256sum", "--check", "--strict", file], cwd=account.target, check=True, capture_output=True)
    theirs = subprocess.run(["sha256sum", "./a", "b"], cwd=account.target, check=True, capture_output=True, text=True)
    file.write_text(theirs.stdout)
    assert read_sums(str(file)) == made
    assert read_sums(str(file)).digest == sha(file.read_text().replace("./", "").encode())


def test_what_was_staged_from_another_data_set_is_named(account: Account) -> None:
    account.stage()
    staged = current_files(str(account.state))[1]
    assert Sums(GOOD).differences(staged) == []
    assert Sums({"a": sha(b"X"), "c": sha(b"c")}).differences(staged) == [
        "a was staged with another SHA-256 than in the sums",
        "b is not in the sums",
        "c is in the sums, but is not staged",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no sums"),
        ("abc  a\n", "line 1 is no line of sha256sum"),
        (f"{sha(b'a')}  a\n{sha(b'a')}  ../b\n", "line 2 has an empty part"),
        (f"{sha(b'a')}  a\n{sha(b'b')}  ./a\n", "line 2 names 'a' again"),
        (f"\\{sha(b'a')}  a\\nb\n", "line 1 is no line of sha256sum"),
    ],
)
def test_an_invalid_file_of_sums_is_refused_with_its_line(tmp_path: pathlib.Path, text: str, words: str) -> None:
    (tmp_path / "sums").write_text(text)
    with pytest.raises(ConfigError, match=words):
        read_sums(str(tmp_path / "sums"))
