# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A block of lines in a file that others write too."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.managed_block import (
    BrokenBlock,
    with_block,
    without_block,
)

NAME = "ours"
BLOCK = "# BEGIN ours\na\nb\n# END ours\n"


def test_writes_the_block_first() -> None:
    assert with_block("x\ny", NAME, ["a", "b"]) == f"{BLOCK}x\ny"


def test_replaces_the_block_wherever_it_is() -> None:
    assert with_block("x\n# BEGIN ours\nold\n# END ours\ny\n", NAME, ["a", "b"]) == f"{BLOCK}x\ny\n"


def test_two_blocks_become_one() -> None:
    assert with_block(f"x\n{BLOCK}y\n{BLOCK}", NAME, ["a", "b"]) == f"{BLOCK}x\ny\n"


def test_finds_a_block_whose_lines_got_other_ends() -> None:
    text = ("x\n" + BLOCK + "y\n").replace("\n", "\r\n")
    assert without_block(text, NAME) == "x\r\ny\r\n"
    assert without_block("x\n" + BLOCK.rstrip("\n"), NAME) == "x\n"


def test_other_blocks_and_similar_lines_are_no_block_of_ours() -> None:
    text = "# BEGIN ours too\n# BEGIN  ours\n#BEGIN ours\n # END ours\n# END theirs\n"
    assert without_block(text, NAME) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x\n# BEGIN ours\na\n", "line 2 begins the block 'ours', and no line after it ends it"),
        ("# END ours\n", "line 1 ends the block 'ours', and no line before it begins it"),
        ("# BEGIN ours\na\n# BEGIN ours\nb\n# END ours\n", "line 3 begins the block 'ours' a second time; line 1"),
        (f"{BLOCK}# END ours\n", "line 5 ends the block"),
    ],
)
def test_refuses_a_block_whose_end_cannot_be_told(text: str, words: str) -> None:
    with pytest.raises(BrokenBlock, match=words):
        with_block(text, NAME, ["a"])
    with pytest.raises(BrokenBlock, match=words):
        without_block(text, NAME)
