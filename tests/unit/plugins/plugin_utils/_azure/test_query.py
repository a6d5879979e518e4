# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import builtins
import sys
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.query import compile_query

from .instances import make_facts


@pytest.mark.parametrize(
    ("value", "wanted"),
    [(None, False), (False, False), ("", False), ([], False), ({}, False), (0, True), ("x", True), ([0], True)],
)
def test_truth_is_jmespaths_own(value: Any, wanted: bool) -> None:
    assert compile_query("thing")({"thing": value}) is wanted


@pytest.mark.parametrize("expression", [None, ""])
def test_no_query_wants_all(expression: str | None) -> None:
    assert compile_query(expression)({})


def test_an_error_is_one_line_that_names_the_instance() -> None:
    wants = compile_query("length(azure_zone)")

    with pytest.raises(InventoryError, match=r"fails on .*/virtualMachines/vm: ") as raised:
        wants(make_facts())
    assert "\n" not in str(raised.value)


def test_without_jmespath_only_a_query_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("jmespath"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    for name in [name for name in sys.modules if name.startswith("jmespath")]:
        monkeypatch.delitem(sys.modules, name)

    assert compile_query(None)({})
    with pytest.raises(InventoryError, match="jmespath is missing"):
        compile_query("a")
