# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One inventory source: its cache, and what it does if Azure fails."""

from __future__ import annotations

import hashlib
import json
from typing import Any, cast

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.credentials import Identity, find_cloud
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.facts import (
    Instance,
    InstanceFacts,
    Interface,
    Listing,
    ScaleSetFacts,
    VirtualNetwork,
)
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.selection import Selection
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.source import (
    CACHE_VERSION,
    ListingCache,
    Outcome,
    cache_key,
    read_source,
)

from .instances import SUBSCRIPTION, make_instance, make_interface, make_scale_set
from .test_options import read

SELECTION = Selection((SUBSCRIPTION,), tags={"a": ("b",)})
CLOUD = find_cloud("AzureCloud", None)
ANSWER: Listing = {
    "instances": [make_instance(make_interface(private_ipv4=["10.0.0.4"]), tags={"a": "{{ b }}"})],
    "scale_sets": [make_scale_set()],
    "virtual_networks": [{"id": "/n", "name": "n", "address_prefixes": None}],
    "left_out": {"other tags": 1},
    "errors": [],
    "requests": 3,
}


class Store(dict[str, Any]):
    """A cache plugin in memory that counts the writes."""

    written = 0

    def set_cache(self) -> None:
        self.written += 1


def cache(store: Store, now: float = 1000, timeout: float = 60) -> ListingCache:
    return ListingCache(store, "key", timeout, lambda: now)


def test_a_cached_answer_is_loaded_unchanged() -> None:
    store = Store()
    cache(store).store(ANSWER)

    kept = cache(store, now=5000).load()

    assert kept is not None
    assert kept.answer == ANSWER
    assert kept.fetched_at == 1000
    assert store.written == 1


def test_other_content_has_another_version() -> None:
    kinds = (Listing, Instance, InstanceFacts, Interface, ScaleSetFacts, VirtualNetwork)
    fields = [
        [kind.__name__, name, getattr(form, "__forward_arg__", repr(form))]
        for kind in kinds
        for name, form in sorted(kind.__annotations__.items())
    ]
    content = hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:16]

    # If the content differs, increase CACHE_VERSION, and write both here.
    assert (CACHE_VERSION, content) == (2, "31447efd363ac9f5")


@pytest.mark.parametrize(
    ("age", "timeout", "fresh"), [(0, 60, True), (59, 60, True), (60, 60, False), (10**9, 0, True), (-1, 60, False)]
)
def test_an_answer_is_fresh_until_the_timeout(age: float, timeout: float, fresh: bool) -> None:
    store = Store()
    kept = cache(store).store(ANSWER)

    assert cache(store, 1000 + age, timeout).is_fresh(kept) is fresh


@pytest.mark.parametrize(
    "envelope",
    [
        None,
        "text",
        [],
        {},
        {"version": CACHE_VERSION - 1, "key": "key", "fetched_at": 1, "answer": "{}"},
        {"version": CACHE_VERSION, "key": "another", "fetched_at": 1, "answer": "{}"},
        {"version": CACHE_VERSION, "key": "key", "fetched_at": None, "answer": "{}"},
        {"version": CACHE_VERSION, "key": "key", "fetched_at": 1, "answer": "{"},
        {"version": CACHE_VERSION, "key": "key", "fetched_at": 1},
    ],
)
def test_an_invalid_cache_entry_is_ignored(envelope: Any) -> None:
    assert cache(Store(key=envelope)).load() is None


def test_a_cache_plugin_that_raises_counts_as_empty() -> None:
    class Broken(Store):
        def get(self, key: str, default: Any = None) -> Any:
            raise RuntimeError("cut short")

    assert cache(Broken()).load() is None


def test_the_same_options_have_the_same_cache_key() -> None:
    again = Selection((SUBSCRIPTION,), tags={"a": ("b",)})

    assert cache_key(SELECTION, CLOUD, Identity()) == cache_key(again, CLOUD, Identity())


@pytest.mark.parametrize(
    ("selection", "cloud", "identity"),
    [
        (Selection((SUBSCRIPTION,), tags={"a": ("c",)}), CLOUD, Identity()),
        (Selection((SUBSCRIPTION,), tags={"a": None}), CLOUD, Identity()),
        (SELECTION, find_cloud("AzureUSGovernment", None), Identity()),
        (SELECTION, CLOUD, Identity("cli")),
        (SELECTION, CLOUD, Identity(client_id="x")),
    ],
)
def test_other_options_have_another_cache_key(selection: Selection, cloud: Any, identity: Identity) -> None:
    assert cache_key(selection, cloud, identity) != cache_key(SELECTION, CLOUD, Identity())


def test_secrets_do_not_change_the_cache_key() -> None:
    # A token changes every hour, and must not be readable from the cache.
    secret = Identity(token="t0ken", client_secret="s3cret")

    assert cache_key(SELECTION, CLOUD, secret) == cache_key(SELECTION, CLOUD, Identity())


NOW = 1000.0


def answer(hosts: int, *errors: str) -> Listing:
    instances = [make_instance(id=f"/{number}", computer_name=f"n{number}") for number in range(hosts)]
    empty = {"scale_sets": [], "virtual_networks": [], "left_out": {}, "requests": 1}
    return cast(Listing, {**empty, "instances": instances, "errors": list(errors)})


class Azure:
    """A function that returns an answer or raises an error, and counts its calls."""

    def __init__(self, given: Listing | InventoryError) -> None:
        self.given = given
        self.asked = 0

    def __call__(self) -> Listing:
        self.asked += 1
        if isinstance(self.given, InventoryError):
            raise self.given
        return self.given


def cache_of_source(earlier: Listing | None = None, age: float = 0) -> ListingCache:
    store = Store()
    if earlier:
        ListingCache(store, "key", 60, lambda: NOW - age).store(earlier)
    return ListingCache(store, "key", 60, lambda: NOW)


def outcome(azure: Azure, kept: ListingCache | None = None, remember: bool = True, **options: Any) -> Outcome:
    return read_source(read(**options), azure, kept, remember=remember, clock=lambda: NOW)


def test_a_complete_answer_is_used_and_cached() -> None:
    kept, azure = cache_of_source(), Azure(answer(3))

    result = outcome(azure, kept)

    assert len(result.hosts.hosts) == 3
    assert (result.problems, result.from_cache, result.fetched_at) == ([], False, NOW)
    assert kept.load() is not None


def test_a_fresh_cached_answer_needs_no_request() -> None:
    azure = Azure(answer(1))

    result = outcome(azure, cache_of_source(answer(2), age=59))

    assert azure.asked == 0
    assert len(result.hosts.hosts) == 2
    assert result.from_cache
    assert result.fetched_at == NOW - 59


@pytest.mark.parametrize(("age", "remember"), [(60, True), (0, False)])
def test_an_expired_or_disabled_cache_is_not_used(age: float, remember: bool) -> None:
    azure = Azure(answer(1))

    assert len(outcome(azure, cache_of_source(answer(2), age), remember).hosts.hosts) == 1
    assert azure.asked == 1


def test_a_cached_answer_below_min_hosts_is_requested_again() -> None:
    assert len(outcome(Azure(answer(3)), cache_of_source(answer(2)), min_hosts=3).hosts.hosts) == 3


@pytest.mark.parametrize("given", [answer(2, "could not list x."), InventoryError("could not list x.")])
def test_by_default_an_error_fails_the_source(given: Any) -> None:
    kept = cache_of_source()

    with pytest.raises(InventoryError, match=r"^could not list x\.$"):
        outcome(Azure(given), kept)
    assert kept.load() is None


def test_many_errors_are_shortened_to_five_and_a_count() -> None:
    errors = [f"could not list {number}." for number in range(12)]

    with pytest.raises(InventoryError, match=r"could not list 4\. \(and 7 more errors\)$"):
        outcome(Azure(answer(0, *errors)))


def test_on_error_warn_uses_a_partial_answer_and_does_not_cache_it() -> None:
    kept = cache_of_source()

    result = outcome(Azure(answer(2, "could not list x.")), kept, on_error="warn")

    assert len(result.hosts.hosts) == 2
    assert result.problems == ["could not list x."]
    assert kept.load() is None


@pytest.mark.parametrize("given", [answer(0, "could not list x."), InventoryError("could not list x.")])
def test_on_error_warn_fails_without_any_answer(given: Any) -> None:
    with pytest.raises(InventoryError, match="could not list x"):
        outcome(Azure(given), on_error="warn")


@pytest.mark.parametrize("given", [answer(1, "could not list x."), InventoryError("could not list x.")])
def test_on_error_use_cache_uses_the_cached_answer(given: Any) -> None:
    result = outcome(Azure(given), cache_of_source(answer(3), age=10**6), on_error="use_cache")

    assert len(result.hosts.hosts) == 3
    assert result.from_cache
    assert result.problems == ["could not list x."]
    assert result.fetched_at == NOW - 10**6


@pytest.mark.parametrize(("kept", "remember"), [(cache_of_source(), True), (cache_of_source(answer(3), age=99), False)])
def test_on_error_use_cache_fails_without_a_cached_answer(kept: ListingCache, remember: bool) -> None:
    with pytest.raises(InventoryError, match="There is no cached answer to use instead"):
        outcome(Azure(answer(1, "x.")), kept, remember, on_error="use_cache")


@pytest.mark.parametrize(("drop", "refused"), [(29, True), (30, False), (100, False)])
def test_a_drop_above_max_drop_percent_fails(drop: float, refused: bool) -> None:
    kept = cache_of_source(answer(10), age=99)

    if refused:
        with pytest.raises(InventoryError, match=r"7 instances were listed, 30 % fewer than the 10 before"):
            outcome(Azure(answer(7)), kept, max_drop_percent=drop)
        earlier = kept.load()
        assert earlier is not None
        assert len(earlier.answer["instances"]) == 10
    else:
        assert len(outcome(Azure(answer(7)), kept, max_drop_percent=drop).hosts.hosts) == 7


def test_growth_does_not_count_as_a_drop() -> None:
    assert len(outcome(Azure(answer(9)), cache_of_source(answer(1), age=99), max_drop_percent=0).hosts.hosts) == 9


def test_min_hosts_is_not_checked_if_lists_failed() -> None:
    with pytest.raises(InventoryError) as raised:
        outcome(Azure(answer(1, "could not list x.")), min_hosts=5)
    assert "min_hosts" not in str(raised.value)
