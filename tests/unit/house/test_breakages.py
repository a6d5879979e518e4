# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tables of `make breakages` fit the tree, including the breakages that only a cluster can try."""

from __future__ import annotations

import ast
import pathlib

from mutation.azure_breakages import AZURE_BREAKAGES
from mutation.breakages import BREAKAGES
from mutation.node_breakages import NODE_BREAKAGES
from mutation.tree_breakages import TREE_BREAKAGES

ALL = (*BREAKAGES, *AZURE_BREAKAGES, *TREE_BREAKAGES, *NODE_BREAKAGES)


def test_each_text_occurs_exactly_once_in_its_file(repository: pathlib.Path) -> None:
    counts = {
        f"{one.what} ({one.file})": (repository / one.file).read_text(encoding="utf-8").count(one.before)
        for one in ALL
        if (repository / one.file).is_file()
    }
    assert len(counts) == len(ALL), "a file does not exist, or two breakages have the same name"
    assert {name: count for name, count in counts.items() if count != 1} == {}
    assert [one.what for one in ALL if one.before == one.after] == []


def test_each_named_test_exists(repository: pathlib.Path) -> None:
    named = {tuple(test.split("::")) for one in ALL for test in one.tests}
    found = set()
    for file in {file for file, _name in named}:
        tree = ast.parse((repository / file).read_text(encoding="utf-8"))
        found |= {(file, item.name) for item in tree.body if isinstance(item, ast.FunctionDef)}
    assert named - found == set()
    assert [one.what for one in ALL if not one.tests] == []
