# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files that settings write: before, after, and the diff."""

from __future__ import annotations

import json
import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.managed_file import (
    BrokenBlock,
    apply_all,
    change_of,
    diff_of,
    read_file,
    with_block,
    without_block,
)


def test_an_unchanged_file_is_not_written_again(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "new" / "file"
    change = change_of(str(path), "text\n")
    assert change.changes
    apply_all([change])
    assert (path.read_text(), path.stat().st_mode & 0o7777) == ("text\n", 0o644)
    again = change_of(str(path), "text\n")
    assert not again.changes
    assert (again.as_diff(), diff_of([again])) == ({}, [])
    inode = path.stat().st_ino
    apply_all([again])
    assert path.stat().st_ino == inode


def test_wrong_permissions_alone_are_a_change(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "file"
    path.write_text("text\n")
    path.chmod(0o600)
    change = change_of(str(path), "text\n")
    assert change.changes
    assert change.as_diff()["before_header"] == f"{path} (mode 0600)"
    assert change.as_diff()["after_header"] == f"{path} (mode 0644)"
    change.apply()
    assert path.stat().st_mode & 0o7777 == 0o644


def test_a_file_is_removed_and_a_missing_one_is_no_error(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "file"
    path.write_text("text\n")
    change = change_of(str(path), None)
    assert change.as_diff() == {
        "before_header": f"{path} (mode 0644)",
        "after_header": f"{path} (absent)",
        "before": "text\n",
        "after": "",
    }
    change.apply()
    assert not path.exists()
    change.apply()
    assert not change_of(str(path), None).changes


def test_bytes_that_are_not_text_are_kept_and_can_be_displayed(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"caf\xe9\r\nx")
    text, _mode = read_file(str(path))
    change = change_of(str(path), f"new\n{text}")
    assert json.dumps(change.as_diff(), ensure_ascii=False).encode()
    change.apply()
    assert path.read_bytes() == b"new\ncaf\xe9\r\nx"


def test_a_folder_in_the_place_of_the_file_is_an_error(tmp_path: pathlib.Path) -> None:
    with pytest.raises(IsADirectoryError):
        change_of(str(tmp_path), "text\n")


# A block of lines in a file that others write too.

NAME = "ours"
BLOCK = "# BEGIN ours\na\nb\n# END ours\n"


def test_the_block_is_written_first() -> None:
    assert with_block("x\ny", NAME, ["a", "b"]) == f"{BLOCK}x\ny"


def test_the_block_is_replaced_wherever_it_is() -> None:
    assert with_block("x\n# BEGIN ours\nold\n# END ours\ny\n", NAME, ["a", "b"]) == f"{BLOCK}x\ny\n"


def test_two_blocks_become_one() -> None:
    assert with_block(f"x\n{BLOCK}y\n{BLOCK}", NAME, ["a", "b"]) == f"{BLOCK}x\ny\n"


def test_a_block_with_other_line_ends_is_found() -> None:
    text = ("x\n" + BLOCK + "y\n").replace("\n", "\r\n")
    assert without_block(text, NAME) == "x\r\ny\r\n"
    assert without_block("x\n" + BLOCK.rstrip("\n"), NAME) == "x\n"


def test_other_blocks_and_similar_lines_are_kept() -> None:
    text = "# BEGIN ours too\n# BEGIN  ours\n#BEGIN ours\n # END ours\n# END theirs\n"
    assert without_block(text, NAME) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x\n# BEGIN ours\na\n", "line 2 begins the block 'ours', but no line after it ends the block"),
        ("# END ours\n", "line 1 ends the block 'ours', but no line before it begins the block"),
        (
            "# BEGIN ours\na\n# BEGIN ours\nb\n# END ours\n",
            "line 3 begins the block 'ours' a second time, after line 1",
        ),
        (f"{BLOCK}# END ours\n", "line 5 ends the block"),
    ],
)
def test_an_incomplete_or_nested_block_is_refused(text: str, words: str) -> None:
    with pytest.raises(BrokenBlock, match=words):
        with_block(text, NAME, ["a"])
    with pytest.raises(BrokenBlock, match=words):
        without_block(text, NAME)
