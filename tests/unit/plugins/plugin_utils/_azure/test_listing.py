# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which lists are requested from the SDK, and in which order. Fake clients return the lists of a test."""

from __future__ import annotations

import json
import threading
import time
from typing import Any, cast

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure import listing
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.concurrency import Deadline
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.credentials import Identity, find_cloud
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.facts import Listing
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.selection import Selection

from .instances import SUBSCRIPTION, Nothing

OTHER = SUBSCRIPTION.replace("1", "9")


def group_id(group: str, subscription: str = SUBSCRIPTION) -> str:
    return f"/subscriptions/{subscription}/resourceGroups/{group}/providers"


class Paged:
    """A list of one page."""

    def __init__(self, items: list[Any]) -> None:
        self._items = items

    def by_page(self) -> Any:
        class Pages:
            continuation_token = None

            def __init__(self, items: list[Any]) -> None:
                self._pages = [items]

            def __iter__(self) -> Any:
                return self

            def __next__(self) -> list[Any]:
                if not self._pages:
                    raise StopIteration
                return self._pages.pop()

        return Pages(self._items)


class Azure:
    """Fake clients of the SDK. `lists` maps "operations.method arguments" to items; other lists are empty."""

    requests = 0

    def __init__(self, lists: dict[str, list[Any]], seconds: float = 0) -> None:
        self.lists = lists
        self.requested: list[str] = []
        self.at_once = self.most_at_once = 0
        self._seconds = seconds
        self._lock = threading.Lock()

    def compute(self, subscription: str) -> Any:
        return _Client(self, "" if subscription == SUBSCRIPTION else f"{subscription} ")

    network = compute

    def close(self) -> None: ...

    def answer(self, request: str) -> Paged:
        with self._lock:
            self.requested.append(request)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(self._seconds)
        with self._lock:
            self.at_once -= 1
        return Paged(self.lists.get(request, []))


class _Client:
    def __init__(self, azure: Azure, prefix: str) -> None:
        self._azure, self._prefix = azure, prefix

    def __getattr__(self, operations: str) -> Any:
        return _Operations(self._azure, self._prefix + operations)


class _Operations:
    def __init__(self, azure: Azure, name: str) -> None:
        self._azure, self._name = azure, name

    def __getattr__(self, method: str) -> Any:
        def call(*arguments: str, status_only: str = "", **_keywords: str) -> Paged:
            words = [f"{self._name}.{method}", *arguments, *(["states"] if status_only else [])]
            return self._azure.answer(" ".join(words))

        return call


def ask(azure: Azure, monkeypatch: pytest.MonkeyPatch, concurrency: int = 4, **selection: Any) -> Listing:
    monkeypatch.setattr(listing, "Clients", lambda *_arguments: azure)
    selected = Selection(**{"subscription_ids": (SUBSCRIPTION,), "virtual_networks": False, **selection})
    cloud = find_cloud("AzureCloud", "http://127.0.0.1:1")
    return listing.list_all(selected, cloud, Identity(token="t"), Deadline(10), concurrency)


def scale_set(name: str, group: str = "cluster", subscription: str = SUBSCRIPTION, **values: Any) -> Any:
    return Nothing(
        id=f"{group_id(group, subscription)}/Microsoft.Compute/virtualMachineScaleSets/{name}", name=name, **values
    )


def machine(name: str, nic: str | None = None, group: str = "cluster") -> Any:
    network = Nothing(network_interfaces=[Nothing(id=nic)]) if nic else None
    return Nothing(
        id=f"{group_id(group)}/Microsoft.Compute/virtualMachines/{name}",
        name=name,
        network_profile=network,
        tags={"hpcai_role": "login"},
    )


def nic(group: str, of: str, address: str) -> Any:
    return Nothing(
        id=f"{group_id(group)}/Microsoft.Network/networkInterfaces/{of}",
        name=of,
        virtual_machine=Nothing(id=f"{group_id('cluster')}/Microsoft.Compute/virtualMachines/{of}"),
        ip_configurations=[Nothing(private_ip_address=address)],
    )


def test_finds_interfaces_in_other_resource_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    far = nic("Network", "far", "10.0.0.5")
    azure = Azure(
        {
            "virtual_machines.list cluster": [machine("near", group_id("cluster")), machine("far", far.id)],
            "network_interfaces.list cluster": [nic("cluster", "near", "10.0.0.4")],
            "network_interfaces.list network": [far],
        }
    )

    answer = ask(azure, monkeypatch, resource_groups=("cluster",), include_vms="all")

    found = {item["facts"]["azure_name"]: item["interfaces"][0]["private_ipv4"] for item in answer["instances"]}
    assert found == {"near": ["10.0.0.4"], "far": ["10.0.0.5"]}
    assert azure.requested.count("network_interfaces.list cluster") == 1


def test_lists_interfaces_of_flexible_sets_and_vms_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sets = [scale_set(name, orchestration_mode="Flexible") for name in ("a", "b", "c")]
    azure = Azure({"virtual_machine_scale_sets.list_all": sets})

    ask(azure, monkeypatch, include_vms="all")

    assert azure.requested.count("network_interfaces.list_all") == 1


def test_uniform_scale_sets_need_no_other_list_of_interfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    azure = Azure({"virtual_machine_scale_sets.list_all": [scale_set("a")]})

    ask(azure, monkeypatch)

    assert azure.requested[0] == "virtual_machine_scale_sets.list_all"
    assert sorted(azure.requested[1:]) == [
        "network_interfaces.list_virtual_machine_scale_set_network_interfaces cluster a",
        "virtual_machine_scale_set_vms.list cluster a",
    ]


def test_requests_lists_of_all_subscriptions_and_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    azure = Azure({f"{OTHER} virtual_machine_scale_sets.list b": [scale_set("x", "b", OTHER)]})

    answer = ask(azure, monkeypatch, subscription_ids=(SUBSCRIPTION, OTHER), resource_groups=("a", "b"))

    assert [item["name"] for item in answer["scale_sets"]] == ["x"]
    assert {request for request in azure.requested if "sets.list " in request} == {
        "virtual_machine_scale_sets.list a",
        "virtual_machine_scale_sets.list b",
        f"{OTHER} virtual_machine_scale_sets.list a",
        f"{OTHER} virtual_machine_scale_sets.list b",
    }
    assert f"{OTHER} virtual_machine_scale_set_vms.list b x" in azure.requested


@pytest.mark.parametrize("concurrency", [1, 5])
def test_sends_exactly_max_concurrency_requests_at_a_time(monkeypatch: pytest.MonkeyPatch, concurrency: int) -> None:
    azure = Azure({"virtual_machine_scale_sets.list_all": [scale_set(str(number)) for number in range(8)]}, 0.02)

    ask(azure, monkeypatch, concurrency)

    assert azure.most_at_once == concurrency
    assert len(azure.requested) == 17


def test_a_machine_in_two_lists_is_one_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    shouted = machine("vm")
    shouted.id = shouted.id.upper()
    azure = Azure({"virtual_machines.list_all": [machine("vm"), shouted]})

    assert len(ask(azure, monkeypatch, include_vms="all")["instances"]) == 1


def test_power_states_come_from_the_list_of_states(monkeypatch: pytest.MonkeyPatch) -> None:
    state = Nothing(id=machine("vm").id.upper(), instance_view=Nothing(statuses=[Nothing(code="PowerState/stopped")]))
    azure = Azure({"virtual_machines.list_all": [machine("vm")], "virtual_machines.list_all states": [state]})

    (instance,) = ask(azure, monkeypatch, include_vms="all")["instances"]

    assert instance["facts"]["azure_power_state"] == "stopped"


def test_finds_public_addresses_in_any_case_of_the_subscription_id(monkeypatch: pytest.MonkeyPatch) -> None:
    login = machine("vm")
    attached = nic("cluster", "vm", "10.0.0.4")
    public = Nothing(id=f"{group_id('cluster')}/Microsoft.Network/publicIPAddresses/p", ip_address="20.0.0.4")
    attached.ip_configurations[0].public_ip_address = public
    subscription = "ABCDEF00-2222-3333-4444-555555555555"
    for item in (login, attached, attached.virtual_machine, public):
        item.id = item.id.replace(SUBSCRIPTION, subscription)
    prefix = subscription.lower()
    azure = Azure(
        {
            f"{prefix} virtual_machines.list_all": [login],
            f"{prefix} network_interfaces.list_all": [attached],
            f"{prefix} public_ip_addresses.list_all": [public],
        }
    )

    (instance,) = ask(azure, monkeypatch, subscription_ids=(prefix,), include_vms="all", public_addresses=True)[
        "instances"
    ]

    assert instance["interfaces"][0]["public_ipv4"] == ["20.0.0.4"]


def test_a_failed_sign_in_is_the_only_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nobody:
        def get_token(self, *_scopes: str, **_kwargs: Any) -> Any:
            raise RuntimeError("az is not installed")

    azure = Azure({})
    monkeypatch.setattr(listing, "make_credential", lambda *_arguments: Nobody())

    with pytest.raises(InventoryError, match="could not sign in with auth_source auto: RuntimeError: az is not"):
        ask(azure, monkeypatch)
    assert azure.requested == []


def test_the_listing_can_be_stored_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    azure = Azure(
        {"virtual_machine_scale_sets.list_all": [scale_set("a")], "virtual_machines.list_all": [machine("vm")]}
    )

    answer = ask(azure, monkeypatch, include_vms="all")

    assert cast(Listing, json.loads(json.dumps(answer))) == answer
