# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.names import check_choices, check_unique, host_name

from .instances import make_facts


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
def test_the_first_name_that_an_instance_has(choices: list[str], name: str) -> None:
    assert host_name(make_facts(computer_name="node", vm_id="guid"), choices) == name


@pytest.mark.parametrize("choices", [[], ["hostname"], ["computer_name", "tags"]])
def test_an_unknown_choice_names_the_known_ones(choices: list[str]) -> None:
    with pytest.raises(InventoryError, match="computer_name, name, vm_id, private_ipv4, public_ipv4"):
        check_choices(choices)


def test_two_instances_of_one_name_are_both_named() -> None:
    with pytest.raises(InventoryError, match="two instances would be one host 'a': /one and /two;"):
        check_unique([("a", "/one"), ("b", "/three"), ("a", "/two")], {})


def test_a_host_of_another_source_counts() -> None:
    with pytest.raises(InventoryError, match="/elsewhere and /one"):
        check_unique([("a", "/one")], {"a": "/elsewhere"})


def test_one_instance_in_two_sources_is_one_host() -> None:
    check_unique([("a", "/One")], {"a": "/one"})
