# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading and checking the inventory's options."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.options import Options, read_options

from .instances import SUBSCRIPTION

DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(
        (
            "endpoint",
            "tenant_id",
            "client_id",
            "client_secret",
            "certificate_path",
            "token",
            "query",
            "max_drop_percent",
        )
    ),
    **dict.fromkeys(("connect_subnet", "connect_nic")),
    **{name: [] for name in ("resource_groups", "scale_sets", "locations")},
    "cloud": "AzureCloud",
    "auth_source": "auto",
    "subscription_ids": [SUBSCRIPTION],
    "tags": {},
    "include_vms": "none",
    "role_tag": "hpcai_role",
    "list_public_addresses": False,
    "list_virtual_networks": True,
    "hostnames": ["computer_name"],
    "connect_with": ["private_ipv4"],
    "on_error": "fail",
    "min_hosts": 0,
    "timeout": 300,
    "max_concurrency": 8,
}


def read(**changes: Any) -> Options:
    return read_options({**DEFAULTS, **changes}.__getitem__)


def test_the_defaults_select_all_scale_sets_and_no_vms() -> None:
    options = read()

    assert options.selection.subscription_ids == (SUBSCRIPTION,)
    assert options.selection.include_vms == "none"
    assert not options.selection.public_addresses
    assert options.selection.virtual_networks
    assert options.needs_cache is None


@pytest.mark.parametrize(
    ("subscriptions", "error"),
    [
        (None, "HPCAI_AZURE_SUBSCRIPTION_IDS or AZURE_SUBSCRIPTION_ID"),
        ([], "the list is empty"),
        ([" "], "the list is empty"),
        (["my-subscription"], "'my-subscription' is not a subscription id"),
        (["00000000-0000-0000-0000-000000000000"], "is a placeholder"),
    ],
)
def test_invalid_subscription_ids_are_refused(subscriptions: Any, error: str) -> None:
    with pytest.raises(InventoryError, match=f"subscription_ids: .*{error}"):
        read(subscription_ids=subscriptions)


def test_a_subscription_in_several_spellings_counts_once() -> None:
    options = read(subscription_ids=["AAAAAAAA-2222-3333-4444-555555555555", "aaaaaaaa-2222-3333-4444-555555555555 "])

    assert options.selection.subscription_ids == ("aaaaaaaa-2222-3333-4444-555555555555",)


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        (None, {}),
        ({"a": "b"}, {"a": ("b",)}),
        ({"a": ["b", "c"]}, {"a": ("b", "c")}),
        ({"a": None}, {"a": None}),
        ({"a": 1}, {"a": ("1",)}),
    ],
)
def test_tags_accept_a_text_a_list_a_number_and_null(tags: Any, expected: Any) -> None:
    assert read(tags=tags).selection.tags == expected


@pytest.mark.parametrize("value", [True, {"b": "c"}, [False]])
def test_a_tag_value_that_is_not_text_is_refused(value: Any) -> None:
    with pytest.raises(InventoryError, match=r"tags: a: .* is not a text; put it in quotes"):
        read(tags={"a": value})


@pytest.mark.parametrize(
    "changes",
    [
        {"list_public_addresses": True},
        {"connect_with": ["private_ipv4", "public_ipv4"]},
        {"hostnames": ["public_ipv4"]},
    ],
)
def test_options_that_need_public_addresses_list_them(changes: dict[str, Any]) -> None:
    assert read(**changes).selection.public_addresses


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"timeout": 0}, "timeout: 0 is less than 1"),
        ({"max_concurrency": 0}, "max_concurrency: 0 is less than 1"),
        ({"min_hosts": -1}, "min_hosts: -1 is less than 0"),
        ({"max_drop_percent": 101}, "max_drop_percent: 101 is not between 0 and 100"),
        ({"connect_with": ["ipv6"]}, "connect_with: 'ipv6' is not among"),
        ({"hostnames": ["tags"]}, "hostnames: 'tags' is not among"),
        ({"query": "a =="}, "query: "),
        ({"endpoint": "http://10.0.0.1"}, "endpoint: "),
        ({"token": "x"}, "token: "),
    ],
)
def test_the_error_names_an_invalid_option(changes: dict[str, Any], error: str) -> None:
    with pytest.raises(InventoryError, match=error) as raised:
        read(**changes)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "needs"),
    [({"on_error": "use_cache"}, "on_error: use_cache"), ({"max_drop_percent": 0}, "max_drop_percent")],
)
def test_some_options_need_a_cache(changes: dict[str, Any], needs: str) -> None:
    assert read(**changes).needs_cache == needs
