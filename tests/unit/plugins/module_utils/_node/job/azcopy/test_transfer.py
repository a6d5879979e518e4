# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How blobs are selected for azcopy: by a list of files, or by a regular expression."""

from __future__ import annotations

import re

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.transfer import filter_for


def test_azcopy_lists_the_container_if_that_is_faster() -> None:
    assert filter_for(["a", "b"], 0) is None
    assert filter_for(["a"] * 100, 5_000_000) is None
    assert filter_for(["a", "b"], 2) == ["--recursive"]
    assert filter_for(["a"], 9, ["*_1", "*_2"]) == ["--recursive", "--include-pattern", "*_1;*_2"]
    assert filter_for([f"{'x' * 60}{number}" for number in range(4000)], 5000) is None


def test_the_expression_matches_exactly_the_given_names() -> None:
    names = ["a.b", "c;d|e", "(x)*[y]+?", "back^$", "ünï 日本\t", "per%20"]
    chosen = filter_for(names, 7)
    assert chosen
    # Python and Go write code points with four digits differently.
    expression = re.sub(r"\\x\{([0-9a-f]+)\}", lambda found: re.escape(chr(int(found[1], 16))), chosen[-1])
    assert all(re.fullmatch(expression, name) for name in names)
    assert not any(re.fullmatch(expression, name) for name in ("axb", "c", "d", "e", "xx[y]", "a.bb", "per 20"))
    assert ";" not in chosen[-1]
