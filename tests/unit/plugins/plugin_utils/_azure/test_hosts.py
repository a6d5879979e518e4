# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Host names, addresses and the query."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.hosts import (
    check_name_choices,
    check_unique,
    compile_query,
    host_name,
    make_address_choice,
)

from .instances import make_facts, make_instance, make_interface


@pytest.mark.parametrize(
    ("choices", "name"),
    [
        (["computer_name"], "node"),
        (["public_ipv4", "computer_name"], "node"),
        (["public_ipv4"], "vm"),
        (["name", "computer_name"], "vm"),
        (["vm_id"], "guid"),
    ],
)
def test_takes_the_first_name_that_an_instance_has(choices: list[str], name: str) -> None:
    assert host_name(make_facts(computer_name="node", vm_id="guid"), choices) == name


@pytest.mark.parametrize("choices", [[], ["hostname"], ["computer_name", "tags"]])
def test_an_unknown_name_choice_is_an_error_that_lists_the_known_ones(choices: list[str]) -> None:
    with pytest.raises(InventoryError, match="computer_name, name, vm_id, private_ipv4, public_ipv4"):
        check_name_choices(choices)


def test_the_error_names_both_instances_with_the_same_name() -> None:
    with pytest.raises(InventoryError, match="two instances have the same host name 'a': /one and /two;"):
        check_unique([("a", "/one"), ("b", "/three"), ("a", "/two")], {})


def test_a_host_of_another_source_counts_as_a_duplicate() -> None:
    with pytest.raises(InventoryError, match="/elsewhere and /one"):
        check_unique([("a", "/one")], {"a": "/elsewhere"})


def test_one_instance_in_two_sources_is_one_host() -> None:
    check_unique([("a", "/One")], {"a": "/one"})


FRONT = make_interface(name="front", private_ipv4=["10.0.0.4", "10.0.9.4"], public_ipv4=["20.0.0.4"])
BACK = make_interface(name="back", private_ipv4=["10.0.1.4"], public_ipv4=["20.0.1.4"], primary=False)
BOTH = make_instance(FRONT, BACK, computer_name="node")


@pytest.mark.parametrize(
    ("choices", "subnet", "nic", "address"),
    [
        (["private_ipv4"], None, None, "10.0.0.4"),
        (["public_ipv4"], None, None, "20.0.0.4"),
        (["computer_name"], None, None, "node"),
        (["private_ipv4"], "10.0.1.0/24", None, "10.0.1.4"),
        (["private_ipv4"], "10.0.9.0/24", None, "10.0.9.4"),
        (["private_ipv4"], "10.0.2.0/24", None, None),
        (["private_ipv4", "computer_name"], "10.0.2.0/24", None, "node"),
        (["public_ipv4"], "10.0.1.0/24", None, "20.0.1.4"),
        (["private_ipv4"], None, "back", "10.0.1.4"),
        (["private_ipv4"], None, "BA*", "10.0.1.4"),
        (["private_ipv4"], None, "side", None),
        (["private_ipv4"], "10.0.0.0/24", "back", None),
    ],
)
def test_takes_the_first_address_that_matches(
    choices: list[str], subnet: str | None, nic: str | None, address: str | None
) -> None:
    assert make_address_choice(choices, subnet, nic).address(BOTH) == address


@pytest.mark.parametrize("name", [None, "", "-oProxyCommand=x", "a b", "a;b", "a\nb", "{{ x }}", "a" * 65])
def test_an_invalid_computer_name_is_not_used_as_address(name: str | None) -> None:
    assert make_address_choice(["computer_name"], None, None).address(make_instance(computer_name=name)) is None


@pytest.mark.parametrize("choices", [[], ["private_ipv6"], ["private_ipv4", "name"]])
def test_an_unknown_address_choice_lists_the_known_ones(choices: list[str]) -> None:
    with pytest.raises(InventoryError, match="private_ipv4, public_ipv4, computer_name"):
        make_address_choice(choices, None, None)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, False), (False, False), ("", False), ([], False), ({}, False), (0, True), ("x", True), ([0], True)],
)
def test_the_query_uses_jmespaths_rules_of_truth(value: Any, expected: bool) -> None:
    assert compile_query("thing")({"thing": value}) is expected


@pytest.mark.parametrize("expression", [None, ""])
def test_an_empty_query_selects_all(expression: str | None) -> None:
    assert compile_query(expression)({})


def test_a_query_error_is_one_line_that_names_the_instance() -> None:
    wants = compile_query("length(azure_zone)")

    with pytest.raises(InventoryError, match=r"fails on .*/virtualMachines/vm: ") as raised:
        wants(make_facts())
    assert "\n" not in str(raised.value)


def test_a_missing_jmespath_is_an_error_only_with_a_query(monkeypatch: pytest.MonkeyPatch) -> None:
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
