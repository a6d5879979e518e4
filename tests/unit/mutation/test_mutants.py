# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each comparison and each other decision in a source file has mutants."""

from __future__ import annotations

import pytest
from mutation.mutants import BOUNDARY, mutants_of


@pytest.mark.parametrize(
    ("expression", "changed"),
    [
        ("a < b", ["a >= b", "a <= b"]),
        ("a >= b", ["a < b", "a > b"]),
        ("a == b", ["a != b"]),
        ("a in b", ["a not in b"]),
        ("a is not None", ["a is None"]),
        ("a < b == c", ["a >= b == c", "a <= b == c", "a < b != c"]),
        ("not a", ["a"]),
        ("a or b", ["a and b"]),
        ("[a for a in b if a]", ["not a"]),
        ("1 if a and (not b) else 2", ["not a", "a or not b", "b"]),
        ("1 if not (a or b) else 2", ["a or b", "not a", "a and b", "not b"]),
        ("1 if f(a) else 2", ["not f(a)"]),
        ("f(a) + b", []),
    ],
)
def test_each_decision_is_inverted_once(expression: str, changed: list[str]) -> None:
    mutants = list(mutants_of(f"def f(a, b, c):\n    return {expression}\n", "demo.py"))
    assert [mutant.change.split("  ->  ")[1] for mutant in mutants] == changed
    assert {mutant.line for mutant in mutants} <= {2}


def test_a_mutant_differs_from_the_source_in_one_decision() -> None:
    source = "def f(a, b):\n    return a < b, a == b\n"
    answers = {}
    for mutant in mutants_of(source, "demo.py"):
        names: dict[str, object] = {}
        exec(mutant.code, names)
        function = names["f"]
        assert callable(function)
        answers[mutant.change] = function(1, 1), mutant.kind == BOUNDARY
    assert answers == {
        "a < b  ->  a >= b": ((True, True), False),
        "a < b  ->  a <= b": ((True, True), True),
        "a == b  ->  a != b": ((False, False), False),
    }
