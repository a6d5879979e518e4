# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names and addresses of hosts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible.errors import AnsibleParserError

from .clusters import CLUSTER, COMPUTE
from .reading import Source, facts


def public_lists(source: Source) -> list[str]:
    paths = [request["path"].lower() for request in source.simulator.requests()]
    return [path for path in paths if path.endswith("/publicipaddresses")]


def test_public_addresses_are_not_listed_by_default(source: Source) -> None:
    inventory = source.read(include_vms="tagged")

    assert public_lists(source) == []
    assert facts(inventory, "ctl")["azure_public_ipv4"] is None
    assert facts(inventory, "ctl")["ansible_host"] == source.simulator.instance("ctl").private_ipv4


@pytest.mark.parametrize(
    "options", [{"list_public_addresses": True}, {"connect_with": ["private_ipv4", "public_ipv4"]}]
)
def test_public_addresses_are_listed_on_request(source: Source, options: dict[str, Any]) -> None:
    inventory = source.read(include_vms="tagged", **options)

    assert facts(inventory, "ctl")["azure_public_ipv4"] == source.simulator.instance("ctl").public_ipv4
    assert facts(inventory, "ctl")["ansible_host"] == source.simulator.instance("ctl").private_ipv4


def test_public_addresses_are_listed_only_for_sets_that_have_them(source: Source) -> None:
    source.read(list_public_addresses=True)

    # Only ctl has one, and stand-alone VMs are not part of this inventory.
    assert public_lists(source) == []


def test_a_uniform_scale_set_can_be_reached_by_public_addresses(simulate: Callable[..., Source]) -> None:
    scale_set = {"name": "login", "capacity": 2, "instance_ids": [0, 1], "public_ip": True, "tags": COMPUTE}
    source = simulate({"scale_sets": [scale_set]})

    inventory = source.read(connect_with="public_ipv4")

    for host in ("login000000", "login000001"):
        assert facts(inventory, host)["ansible_host"] == source.simulator.instance(host).public_ipv4
    (path,) = public_lists(source)
    assert path.endswith("/virtualmachinescalesets/login/publicipaddresses")


def test_the_first_existing_kind_of_address_is_used(source: Source) -> None:
    inventory = source.read(include_vms="tagged", connect_with=["public_ipv4", "private_ipv4"])

    assert facts(inventory, "ctl")["ansible_host"] == source.simulator.instance("ctl").public_ipv4
    assert facts(inventory, "compute000000")["ansible_host"] == source.simulator.instance("compute000000").private_ipv4


def test_a_host_without_the_required_address_is_not_ready(source: Source) -> None:
    inventory = source.read(include_vms="tagged", connect_with=["public_ipv4"])

    assert facts(inventory, "ctl")["azure_ready"] is True
    assert facts(inventory, "compute000000")["azure_ready"] is False
    assert "ansible_host" not in facts(inventory, "compute000000")


def test_hosts_can_be_reached_by_computer_name(source: Source) -> None:
    assert facts(source.read(connect_with="computer_name"), "compute00000H")["ansible_host"] == "compute00000H"


@pytest.mark.parametrize(("subnet", "found"), [("10.77.0.0/24", True), ("10.0.1.0/24", False)])
def test_addresses_outside_connect_subnet_are_not_used(source: Source, subnet: str, found: bool) -> None:
    assert ("ansible_host" in facts(source.read(connect_subnet=subnet), "compute000000")) is found


@pytest.mark.parametrize("subnet", ["10.0.1.0", "10.0.1.0/33", "nodes", "fd00::/64"])
def test_an_invalid_subnet_fails_the_source(source: Source, subnet: str) -> None:
    with pytest.raises(AnsibleParserError, match=f"connect_subnet: '{subnet}' is not an IPv4 network such as 10.0.1"):
        source.read(connect_subnet=subnet)


@pytest.mark.parametrize(
    ("hostnames", "names"),
    [
        (["computer_name"], {"compute000000", "compute000003", "compute00000H"}),
        (["name"], {"compute_0", "compute_3", "compute_17"}),
        (["public_ipv4", "name"], {"compute_0", "compute_3", "compute_17"}),
        (["private_ipv4"], {"10.77.0.5", "10.77.0.6", "10.77.0.7"}),
    ],
)
def test_the_first_existing_kind_of_name_is_the_host_name(
    simulate: Callable[..., Source], hostnames: list[str], names: set[str]
) -> None:
    assert set(simulate(CLUSTER).read(scale_sets=["compute"], hostnames=hostnames).hosts) == names
