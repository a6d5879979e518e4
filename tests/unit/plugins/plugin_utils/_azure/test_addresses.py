# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.addresses import make_connection
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError

from .instances import make_instance, make_interface

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
def test_the_first_address_that_fits(
    choices: list[str], subnet: str | None, nic: str | None, address: str | None
) -> None:
    assert make_connection(choices, subnet, nic).address(BOTH) == address


@pytest.mark.parametrize("name", [None, "", "-oProxyCommand=x", "a b", "a;b", "a\nb", "{{ x }}", "a" * 65])
def test_a_name_that_is_none_is_no_address(name: str | None) -> None:
    assert make_connection(["computer_name"], None, None).address(make_instance(computer_name=name)) is None


@pytest.mark.parametrize("choices", [[], ["private_ipv6"], ["private_ipv4", "name"]])
def test_an_unknown_choice_names_the_known_ones(choices: list[str]) -> None:
    with pytest.raises(InventoryError, match="private_ipv4, public_ipv4, computer_name"):
        make_connection(choices, None, None)
