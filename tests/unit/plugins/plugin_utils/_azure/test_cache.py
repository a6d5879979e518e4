# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.answer import Answer
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.cache import AnswerCache, cache_key
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.cloud import find_cloud
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.credentials import Identity
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.selection import Selection

from .instances import SUBSCRIPTION, make_instance, make_interface, make_scale_set

SELECTION = Selection((SUBSCRIPTION,), tags={"a": ("b",)})
CLOUD = find_cloud("AzureCloud", None)
ANSWER: Answer = {
    "instances": [make_instance(make_interface(private_ipv4=["10.0.0.4"]), tags={"a": "{{ b }}"})],
    "scale_sets": [make_scale_set()],
    "virtual_networks": [{"id": "/n", "name": "n", "address_prefixes": None}],
    "left_out": {"other tags": 1},
    "errors": [],
    "requests": 3,
}


class Store(dict[str, Any]):
    """A cache plugin that only remembers."""

    written = 0

    def set_cache(self) -> None:
        self.written += 1


def cache(store: Store, now: float = 1000, timeout: float = 60) -> AnswerCache:
    return AnswerCache(store, "key", timeout, lambda: now)


def test_what_is_kept_comes_back_as_it_was() -> None:
    store = Store()
    cache(store).store(ANSWER)

    kept = cache(store, now=5000).load()

    assert kept is not None
    assert kept.answer == ANSWER
    assert kept.fetched_at == 1000
    assert store.written == 1


@pytest.mark.parametrize(
    ("age", "timeout", "fresh"), [(0, 60, True), (59, 60, True), (60, 60, False), (10**9, 0, True), (-1, 60, False)]
)
def test_fresh(age: float, timeout: float, fresh: bool) -> None:
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
        {"version": 0, "key": "key", "fetched_at": 1, "answer": "{}"},
        {"version": 1, "key": "another", "fetched_at": 1, "answer": "{}"},
        {"version": 1, "key": "key", "fetched_at": None, "answer": "{}"},
        {"version": 1, "key": "key", "fetched_at": 1, "answer": "{"},
        {"version": 1, "key": "key", "fetched_at": 1},
    ],
)
def test_what_is_no_answer_of_ours_is_nothing(envelope: Any) -> None:
    assert cache(Store(key=envelope)).load() is None


def test_a_cache_plugin_that_raises_has_nothing() -> None:
    class Broken(Store):
        def get(self, key: str, default: Any = None) -> Any:
            raise RuntimeError("cut short")

    assert cache(Broken()).load() is None


def test_the_same_question_has_the_same_key() -> None:
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
def test_another_question_has_another_key(selection: Selection, cloud: Any, identity: Identity) -> None:
    assert cache_key(selection, cloud, identity) != cache_key(SELECTION, CLOUD, Identity())


def test_a_secret_does_not_count() -> None:
    # A token is another one every hour, and must not be found in what is kept.
    secret = Identity(token="t0ken", client_secret="s3cret")

    assert cache_key(SELECTION, CLOUD, secret) == cache_key(SELECTION, CLOUD, Identity())
