# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Resource ids and tags."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.resources import (
    effective_tags,
    in_natural_order,
    name_of,
    resource_group_of,
    roles_of,
    subscription_of,
    tags_match,
    virtual_network_of,
)

SET = "/subscriptions/S/resourceGroups/Group/providers/Microsoft.Compute/virtualMachineScaleSets/set"
NETWORK = "/subscriptions/S/resourceGroups/Group/providers/Microsoft.Network/virtualNetworks/net"


@pytest.mark.parametrize("resource_id", [SET, SET.upper(), SET.lower(), f"{SET}/virtualMachines/3"])
def test_finds_the_parts_of_an_id_in_any_case(resource_id: str) -> None:
    assert str(resource_group_of(resource_id)).lower() == "group"
    assert str(subscription_of(resource_id)).lower() == "s"


@pytest.mark.parametrize("resource_id", [None, "", "/", "resourceGroups", "/subscriptions/S/resourceGroups/"])
def test_a_missing_resource_group_is_none(resource_id: str | None) -> None:
    assert resource_group_of(resource_id) is None


def test_the_name_is_the_last_part() -> None:
    assert name_of(SET) == name_of(SET + "/") == "set"


@pytest.mark.parametrize(
    ("subnet", "network"),
    [(f"{NETWORK}/subnets/a", NETWORK), (f"{NETWORK}/SUBNETS/a", NETWORK), (NETWORK, None), (None, None)],
)
def test_finds_the_network_of_a_subnet(subnet: str | None, network: str | None) -> None:
    assert virtual_network_of(subnet) == network


def test_instance_3_is_sorted_before_17() -> None:
    ids = [f"{SET}/virtualMachines/{number}" for number in (17, 3, 0, 100)]

    assert [name_of(item) for item in sorted(ids, key=in_natural_order)] == ["0", "3", "17", "100"]


def test_mixed_names_of_digits_and_letters_can_be_sorted() -> None:
    assert sorted(["flex_7204e52d", "flex_f1fd42a2", "9", "a"], key=in_natural_order)


@pytest.mark.parametrize(
    ("instance_tags", "scale_set", "tags"),
    [
        (None, None, {}),
        (None, {"a": "set"}, {"a": "set"}),
        ({"a": "instance_tags"}, {"a": "set", "b": "set"}, {"a": "instance_tags", "b": "set"}),
        ({"A": "instance_tags"}, {"a": "set"}, {"A": "instance_tags"}),
        ({"a": ""}, {"a": "set"}, {"a": ""}),
        ({"a": None}, {}, {"a": ""}),
    ],
)
def test_an_instances_tags_override_those_of_its_scale_set(
    instance_tags: Any, scale_set: Any, tags: dict[str, str]
) -> None:
    assert effective_tags(instance_tags, scale_set) == tags


@pytest.mark.parametrize(
    ("required", "found"),
    [
        ({}, True),
        ({"cluster": ("a",)}, True),
        ({"CLUSTER": ("a",)}, True),
        ({"cluster": ("A",)}, False),
        ({"cluster": ("b", "a")}, True),
        ({"cluster": ()}, False),
        ({"cluster": None}, True),
        ({"other": None}, False),
        ({"cluster": ("a",), "role": ("x",)}, False),
        ({"empty": ("",)}, True),
    ],
)
def test_tags_match_keys_in_any_case_and_values_exactly(required: Any, found: bool) -> None:
    assert tags_match({"cluster": "a", "role": "compute", "empty": ""}, required) is found


@pytest.mark.parametrize(
    ("value", "roles"),
    [
        ("compute", ["compute"]),
        ("controller,login", ["controller", "login"]),
        (" Controller , LOGIN,login ", ["controller", "login"]),
        ("", []),
        (",,", []),
    ],
)
def test_roles_are_split_at_commas_and_lower_case(value: str, roles: list[str]) -> None:
    assert roles_of({"HPCAI_role": value}, "hpcai_role") == roles


def test_a_missing_tag_gives_no_roles() -> None:
    assert roles_of({}, "hpcai_role") == []
