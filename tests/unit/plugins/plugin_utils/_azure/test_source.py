# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an error is worth, by itself and with an earlier answer."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.answer import Answer
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.cache import AnswerCache
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.source import Outcome, read_source

from .instances import make_instance
from .test_cache import Store
from .test_options import read

NOW = 1000.0


def answer(hosts: int, *errors: str) -> Answer:
    instances = [make_instance(id=f"/{number}", computer_name=f"n{number}") for number in range(hosts)]
    empty = {"scale_sets": [], "virtual_networks": [], "left_out": {}, "requests": 1}
    return cast(Answer, {**empty, "instances": instances, "errors": list(errors)})


class Azure:
    """Answers once."""

    def __init__(self, given: Answer | InventoryError) -> None:
        self.given = given
        self.asked = 0

    def __call__(self) -> Answer:
        self.asked += 1
        if isinstance(self.given, InventoryError):
            raise self.given
        return self.given


def cache(earlier: Answer | None = None, age: float = 0) -> AnswerCache:
    store = Store()
    if earlier:
        AnswerCache(store, "key", 60, lambda: NOW - age).store(earlier)
    return AnswerCache(store, "key", 60, lambda: NOW)


def outcome(azure: Azure, kept: AnswerCache | None = None, remember: bool = True, **options: Any) -> Outcome:
    return read_source(read(**options), azure, kept, remember=remember, clock=lambda: NOW)


def test_a_good_answer_is_used_and_kept() -> None:
    kept, azure = cache(), Azure(answer(3))

    said = outcome(azure, kept)

    assert len(said.hosts.hosts) == 3
    assert (said.problems, said.from_cache, said.fetched_at) == ([], False, NOW)
    assert kept.load() is not None


def test_a_fresh_answer_needs_no_question() -> None:
    azure = Azure(answer(1))

    said = outcome(azure, cache(answer(2), age=59))

    assert azure.asked == 0
    assert len(said.hosts.hosts) == 2
    assert said.from_cache
    assert said.fetched_at == NOW - 59


@pytest.mark.parametrize(("age", "remember"), [(60, True), (0, False)])
def test_an_old_or_unwanted_answer_is_not_used(age: float, remember: bool) -> None:
    azure = Azure(answer(1))

    assert len(outcome(azure, cache(answer(2), age), remember).hosts.hosts) == 1
    assert azure.asked == 1


def test_a_fresh_answer_with_too_few_hosts_is_asked_for_again() -> None:
    assert len(outcome(Azure(answer(3)), cache(answer(2)), min_hosts=3).hosts.hosts) == 3


@pytest.mark.parametrize("given", [answer(2, "could not list x."), InventoryError("could not list x.")])
def test_an_error_ends_the_source(given: Any) -> None:
    kept = cache()

    with pytest.raises(InventoryError, match=r"^could not list x\.$"):
        outcome(Azure(given), kept)
    assert kept.load() is None


def test_many_errors_are_some_and_a_number() -> None:
    errors = [f"could not list {number}." for number in range(12)]

    with pytest.raises(InventoryError, match=r"could not list 4\. \(and 7 more errors\)$"):
        outcome(Azure(answer(0, *errors)))


def test_with_warn_what_came_is_used_and_not_kept() -> None:
    kept = cache()

    said = outcome(Azure(answer(2, "could not list x.")), kept, on_error="warn")

    assert len(said.hosts.hosts) == 2
    assert said.problems == ["could not list x."]
    assert kept.load() is None


@pytest.mark.parametrize("given", [answer(0, "could not list x."), InventoryError("could not list x.")])
def test_with_warn_nothing_at_all_is_an_error(given: Any) -> None:
    with pytest.raises(InventoryError, match="could not list x"):
        outcome(Azure(given), on_error="warn")


@pytest.mark.parametrize("given", [answer(1, "could not list x."), InventoryError("could not list x.")])
def test_with_use_cache_the_earlier_answer_is_used(given: Any) -> None:
    said = outcome(Azure(given), cache(answer(3), age=10**6), on_error="use_cache")

    assert len(said.hosts.hosts) == 3
    assert said.from_cache
    assert said.problems == ["could not list x."]
    assert said.fetched_at == NOW - 10**6


@pytest.mark.parametrize(("kept", "remember"), [(cache(), True), (cache(answer(3), age=99), False)])
def test_with_use_cache_and_no_earlier_answer_the_error_stands(kept: AnswerCache, remember: bool) -> None:
    with pytest.raises(InventoryError, match="There is no earlier answer to use instead"):
        outcome(Azure(answer(1, "x.")), kept, remember, on_error="use_cache")


@pytest.mark.parametrize(("drop", "refused"), [(29, True), (30, False), (100, False)])
def test_a_drop(drop: float, refused: bool) -> None:
    kept = cache(answer(10), age=99)

    if refused:
        with pytest.raises(InventoryError, match=r"7 instances were listed, 30 % less than the 10 of last time"):
            outcome(Azure(answer(7)), kept, max_drop_percent=drop)
        earlier = kept.load()
        assert earlier is not None
        assert len(earlier.answer["instances"]) == 10
    else:
        assert len(outcome(Azure(answer(7)), kept, max_drop_percent=drop).hosts.hosts) == 7


def test_growth_is_no_drop() -> None:
    assert len(outcome(Azure(answer(9)), cache(answer(1), age=99), max_drop_percent=0).hosts.hosts) == 9


def test_the_number_of_hosts_is_not_judged_when_lists_failed() -> None:
    with pytest.raises(InventoryError) as raised:
        outcome(Azure(answer(1, "could not list x.")), min_hosts=5)
    assert "min_hosts" not in str(raised.value)
