# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is asked of the SDK, and in which order; the clients here give lists that a test wrote down."""

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
    """Stands for the SDK's clients: `lists` maps "operations.method arguments" to items; all else is empty."""

    requests = 0

    def __init__(self, lists: dict[str, list[Any]], seconds: float = 0) -> None:
        self.lists = lists
        self.asked: list[str] = []
        self.at_once = self.most_at_once = 0
        self._seconds = seconds
        self._lock = threading.Lock()

    def compute(self, subscription: str) -> Any:
        return _Client(self, "" if subscription == SUBSCRIPTION else f"{subscription} ")

    network = compute

    def close(self) -> None: ...

    def answer(self, question: str) -> Paged:
        with self._lock:
            self.asked.append(question)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(self._seconds)
        with self._lock:
            self.at_once -= 1
        return Paged(self.lists.get(question, []))


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


def test_interfaces_in_another_resource_group_than_their_machine_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert azure.asked.count("network_interfaces.list cluster") == 1


def test_interfaces_of_flexible_and_stand_alone_machines_are_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sets = [scale_set(name, orchestration_mode="Flexible") for name in ("a", "b", "c")]
    azure = Azure({"virtual_machine_scale_sets.list_all": sets})

    ask(azure, monkeypatch, include_vms="all")

    assert azure.asked.count("network_interfaces.list_all") == 1


def test_uniform_sets_alone_need_no_other_interfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    azure = Azure({"virtual_machine_scale_sets.list_all": [scale_set("a")]})

    ask(azure, monkeypatch)

    assert azure.asked[0] == "virtual_machine_scale_sets.list_all"
    assert sorted(azure.asked[1:]) == [
        "network_interfaces.list_virtual_machine_scale_set_network_interfaces cluster a",
        "virtual_machine_scale_set_vms.list cluster a",
    ]


def test_several_subscriptions_and_groups_are_all_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    azure = Azure({f"{OTHER} virtual_machine_scale_sets.list b": [scale_set("x", "b", OTHER)]})

    answer = ask(azure, monkeypatch, subscription_ids=(SUBSCRIPTION, OTHER), resource_groups=("a", "b"))

    assert [item["name"] for item in answer["scale_sets"]] == ["x"]
    assert {question for question in azure.asked if "sets.list " in question} == {
        "virtual_machine_scale_sets.list a",
        "virtual_machine_scale_sets.list b",
        f"{OTHER} virtual_machine_scale_sets.list a",
        f"{OTHER} virtual_machine_scale_sets.list b",
    }
    assert f"{OTHER} virtual_machine_scale_set_vms.list b x" in azure.asked


@pytest.mark.parametrize("concurrency", [1, 5])
def test_as_many_at_a_time_as_allowed_and_no_more(monkeypatch: pytest.MonkeyPatch, concurrency: int) -> None:
    azure = Azure({"virtual_machine_scale_sets.list_all": [scale_set(str(number)) for number in range(8)]}, 0.02)

    ask(azure, monkeypatch, concurrency)

    assert azure.most_at_once == concurrency
    assert len(azure.asked) == 17


def test_a_machine_that_two_lists_name_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    shouted = machine("vm")
    shouted.id = shouted.id.upper()
    azure = Azure({"virtual_machines.list_all": [machine("vm"), shouted]})

    assert len(ask(azure, monkeypatch, include_vms="all")["instances"]) == 1


def test_states_come_from_the_list_of_states(monkeypatch: pytest.MonkeyPatch) -> None:
    state = Nothing(id=machine("vm").id.upper(), instance_view=Nothing(statuses=[Nothing(code="PowerState/stopped")]))
    azure = Azure({"virtual_machines.list_all": [machine("vm")], "virtual_machines.list_all states": [state]})

    (instance,) = ask(azure, monkeypatch, include_vms="all")["instances"]

    assert instance["facts"]["azure_power_state"] == "stopped"


def test_public_addresses_are_listed_in_any_spelling_of_the_subscription(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_nobody_to_sign_in_as_is_the_only_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nobody:
        def get_token(self, *_scopes: str, **_kwargs: Any) -> Any:
            raise RuntimeError("az is not installed")

    azure = Azure({})
    monkeypatch.setattr(listing, "make_credential", lambda *_arguments: Nobody())

    with pytest.raises(InventoryError, match="could not sign in with auth_source auto: RuntimeError: az is not"):
        ask(azure, monkeypatch)
    assert azure.asked == []


def test_an_answer_is_plain_data(monkeypatch: pytest.MonkeyPatch) -> None:
    azure = Azure(
        {"virtual_machine_scale_sets.list_all": [scale_set("a")], "virtual_machines.list_all": [machine("vm")]}
    )

    answer = ask(azure, monkeypatch, include_vms="all")

    assert cast(Listing, json.loads(json.dumps(answer))) == answer
