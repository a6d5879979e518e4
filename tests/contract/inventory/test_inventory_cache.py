# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Answers from the cache: when they are used, when they are not, and as a fallback if Azure fails."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleParserError
from ansible.inventory.data import InventoryData

from .lists import INSTANCES, SCALE_SETS
from .reading import Source, facts, report

TIMEOUT = 300


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the cache plugin."""
    return tmp_path / "cache"


@pytest.fixture
def cached(source: Source, folder: Path) -> Source:
    """A source with an answer in its cache."""
    source.read(
        cache=True,
        cache_plugin="ansible.builtin.jsonfile",
        cache_connection=str(folder),
        cache_timeout=TIMEOUT,
    )
    source.simulator.clear()
    return source


def reread(source: Source, *, flush: bool = False, **changes: Any) -> InventoryData:
    """Read a source again, with some options changed."""
    return source.write(**{**source.options, **changes}).read(flush=flush)


def request_count(source: Source) -> int:
    """The number of requests since the answer was cached."""
    return len(source.simulator.requests())


def make_older(folder: Path, seconds: float) -> None:
    """Make the cached answer older, also for the cache plugin."""
    for path in folder.iterdir():
        document = json.loads(path.read_text(encoding="utf-8"))
        wrapped = "__payload__" in document
        envelope = json.loads(document["__payload__"]) if wrapped else document
        envelope["fetched_at"] -= seconds
        path.write_text(json.dumps({"__payload__": json.dumps(envelope)} if wrapped else envelope), encoding="utf-8")
        os.utime(path, (envelope["fetched_at"], envelope["fetched_at"]))


def test_a_recent_answer_is_used_without_a_request(cached: Source) -> None:
    before = cached.read(flush=True)
    cached.simulator.clear()

    inventory = cached.read()

    assert request_count(cached) == 0
    assert {name: facts(inventory, name) for name in inventory.hosts} == {
        name: facts(before, name) for name in before.hosts
    }
    assert {name: group.hosts for name, group in inventory.groups.items()}.keys() == before.groups.keys()
    assert report(inventory)["from_cache"] is True
    assert report(inventory)["complete"] is True
    assert report(inventory)["fetched_at"] == report(before)["fetched_at"]


def test_the_summary_states_the_age_of_an_answer(
    cached: Source, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_older(folder, 100)

    cached.read()

    assert "from the cache, 100 s old" in capsys.readouterr().err.replace("\n", " ")


def test_without_the_option_nothing_is_cached(source: Source, folder: Path) -> None:
    source.read(cache_plugin="ansible.builtin.jsonfile", cache_connection=str(folder))

    assert not folder.exists()


def test_an_expired_answer_is_not_used_if_azure_answers(cached: Source, folder: Path) -> None:
    make_older(folder, TIMEOUT + 1)

    inventory = cached.read()

    assert request_count(cached) == 6
    assert report(inventory)["from_cache"] is False


def test_a_cache_hit_does_not_extend_the_lifetime(cached: Source, folder: Path) -> None:
    make_older(folder, TIMEOUT - 5)
    cached.read()
    make_older(folder, 10)

    cached.read()

    assert request_count(cached) == 6


def test_an_answer_from_the_future_is_ignored(cached: Source, folder: Path) -> None:
    make_older(folder, -3600)

    cached.read()

    assert request_count(cached) == 6


def test_a_timeout_of_zero_keeps_an_answer_forever(cached: Source, folder: Path) -> None:
    make_older(folder, 10**8)

    reread(cached, cache_timeout=0)

    assert request_count(cached) == 0


def test_flush_cache_requests_and_caches_a_new_answer(cached: Source) -> None:
    cached.simulator.edit("compute_3", power_state="deallocated")

    reread(cached, flush=True)

    assert request_count(cached) == 6
    assert facts(cached.read(), "compute000003")["azure_power_state"] == "deallocated"
    assert request_count(cached) == 6


@pytest.mark.parametrize(
    "changes",
    [
        {"scale_sets": ["compute"]},
        {"tags": {"hpcai_cluster": "sim"}},
        {"locations": ["southcentralus"]},
        {"resource_groups": ["hpcai-sim"]},
        {"include_vms": "tagged"},
        {"role_tag": "hpcai_cluster"},
        {"list_virtual_networks": False},
        {"list_public_addresses": True},
        {"connect_with": "public_ipv4"},
        {"subscription_ids": ["11111111-1111-1111-1111-111111111111"]},
        {"auth_source": "token"},
        {"client_id": "somebody-else"},
        {"tenant_id": "elsewhere"},
    ],
)
def test_other_options_or_another_identity_do_not_use_this_answer(cached: Source, changes: dict[str, Any]) -> None:
    try:
        reread(cached, **changes)
    except AnsibleParserError as error:
        assert "SubscriptionNotFound" in str(error)  # noqa: PT017 - only for the one that does not exist
    assert request_count(cached) > 0


def test_another_identity_in_the_environment_does_not_use_this_answer(
    cached: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_CLIENT_ID", "somebody-else")

    cached.read()

    assert request_count(cached) == 6


@pytest.mark.parametrize(
    ("changes", "hosts"),
    [
        ({"query": "azure_vmss == 'compute'"}, {"compute000000", "compute000003", "compute00000H"}),
        ({"query": "azure_vmss == 'compute'", "hostnames": ["name"]}, {"compute_0", "compute_3", "compute_17"}),
        ({"query": "azure_vmss == 'compute' && azure_ready", "connect_subnet": "192.168.0.0/16"}, set()),
    ],
)
def test_a_cached_answer_can_be_filtered_and_named_differently(
    cached: Source, changes: dict[str, Any], hosts: set[str]
) -> None:
    assert set(reread(cached, **changes).hosts) == hosts
    assert request_count(cached) == 0


def test_no_token_is_cached(cached: Source, folder: Path) -> None:
    (path,) = folder.iterdir()

    assert cached.simulator.token not in path.name
    assert cached.simulator.token not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["", "{", '{"version": 1}', "[]"])
def test_an_unreadable_cache_is_ignored(cached: Source, folder: Path, text: str) -> None:
    (path,) = folder.iterdir()
    path.write_text(text, encoding="utf-8")

    assert len(cached.read().hosts) == 5
    assert request_count(cached) == 6


def test_an_answer_with_errors_is_not_cached(cached: Source, folder: Path) -> None:
    make_older(folder, TIMEOUT + 1)
    cached.simulator.add_fault(INSTANCES, status=403, code="AuthorizationFailed")
    reread(cached, on_error="warn")
    cached.simulator.clear()

    inventory = cached.read()

    assert len(inventory.hosts) == 5
    assert report(inventory)["from_cache"] is False


class TestUseCache:
    """on_error: use_cache."""

    def test_the_last_answer_is_used_at_any_age(
        self, cached: Source, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        make_older(folder, 10**6)
        cached.simulator.add_fault(SCALE_SETS, status=500, code="InternalServerError")

        inventory = reread(cached, on_error="use_cache")

        assert len(inventory.hosts) == 5
        summary = report(inventory)
        assert summary["from_cache"] is True
        assert summary["complete"] is False
        assert summary["age_seconds"] >= 10**6
        assert "500 InternalServerError" in summary["errors"][0]
        warning = " ".join(capsys.readouterr().err.split())
        assert "[WARNING]" in warning
        assert "the inventory is not complete, an answer 10000" in warning
        assert "500 InternalServerError" in warning

    def test_the_last_answer_is_used_if_the_sign_in_fails(self, cached: Source, folder: Path) -> None:
        make_older(folder, TIMEOUT + 1)
        cached.simulator.add_fault(".", action="drop")

        assert len(reread(cached, on_error="use_cache").hosts) == 5

    def test_without_an_earlier_answer_the_source_fails(self, source: Source, folder: Path) -> None:
        source.simulator.add_fault(SCALE_SETS, status=403, code="AuthorizationFailed")

        with pytest.raises(AnsibleParserError, match=r"AuthorizationFailed.* There is no cached answer"):
            source.read(
                on_error="use_cache",
                cache=True,
                cache_plugin="ansible.builtin.jsonfile",
                cache_connection=str(folder),
            )

    def test_with_flush_cache_an_earlier_answer_is_not_used(self, cached: Source) -> None:
        cached.simulator.add_fault(SCALE_SETS, status=403, code="AuthorizationFailed")

        with pytest.raises(AnsibleParserError, match="There is no cached answer to use instead"):
            reread(cached, flush=True, on_error="use_cache")

    @pytest.mark.parametrize("options", [{}, {"cache": True}, {"cache": True, "cache_plugin": "memory"}])
    def test_use_cache_requires_a_persistent_cache(self, source: Source, options: dict[str, Any]) -> None:
        source.write(on_error="use_cache", **options)

        with pytest.raises(AnsibleParserError, match="on_error: use_cache needs `cache: true` and a cache_plugin"):
            source.read()


class TestWarn:
    """on_error: warn."""

    def test_listed_instances_become_hosts_despite_an_error(
        self, source: Source, capsys: pytest.CaptureFixture[str]
    ) -> None:
        source.simulator.add_fault(INSTANCES, status=403, code="AuthorizationFailed")

        inventory = source.read(on_error="warn")

        assert {facts(inventory, name)["azure_vmss"] for name in inventory.hosts} == {"flex"}
        assert inventory.groups["all"].vars["azure_inventory"]["complete"] is False
        assert "403 AuthorizationFailed" in report(inventory)["errors"][0]
        warning = " ".join(capsys.readouterr().err.split())
        assert "[WARNING]" in warning
        assert "the inventory is not complete" in warning

    def test_the_source_fails_if_nothing_could_be_listed(self, source: Source) -> None:
        source.simulator.add_fault(SCALE_SETS, status=403, code="AuthorizationFailed")

        with pytest.raises(AnsibleParserError, match="403 AuthorizationFailed"):
            source.read(on_error="warn")


class TestTooFew:
    """min_hosts and max_drop_percent."""

    def test_enough_hosts_are_accepted(self, source: Source) -> None:
        assert len(source.read(min_hosts=5).hosts) == 5

    def test_too_few_hosts_fail_the_source(self, source: Source) -> None:
        with pytest.raises(AnsibleParserError, match="5 hosts were found, min_hosts requires 6"):
            source.read(min_hosts=6)

    def test_too_few_hosts_are_a_warning_with_on_error_warn(self, source: Source) -> None:
        assert report(source.read(min_hosts=6, on_error="warn"))["complete"] is False

    def test_a_cached_answer_with_too_few_hosts_is_not_used(self, cached: Source) -> None:
        with pytest.raises(AnsibleParserError, match="min_hosts requires 6"):
            reread(cached, min_hosts=6)

        assert request_count(cached) == 6

    def test_a_drop_is_refused_until_it_is_accepted(self, cached: Source, folder: Path) -> None:
        make_older(folder, TIMEOUT + 1)
        # A truncated answer: one of two scale sets is missing, with two of five instances.
        cached.simulator.add_fault(r"GET .*virtualMachineScaleSet/id", status=404, code="ResourceNotFound")
        cached.simulator.add_fault(r"/virtualMachineScaleSets/flex\?", status=404, code="ResourceNotFound")

        with pytest.raises(AnsibleParserError) as raised:
            reread(cached, max_drop_percent=20)
        assert "3 instances were listed, 40 % fewer than the 5 before; max_drop_percent allows 20" in str(raised.value)
        with pytest.raises(AnsibleParserError, match="run once with --flush-cache"):
            cached.read()

        assert len(cached.read(flush=True).hosts) == 3
        assert len(cached.read().hosts) == 3

    def test_a_small_drop_is_allowed(self, cached: Source, folder: Path) -> None:
        make_older(folder, TIMEOUT + 1)
        cached.simulator.add_fault(r"GET .*virtualMachineScaleSet/id", status=404, code="ResourceNotFound")
        cached.simulator.add_fault(r"/virtualMachineScaleSets/flex\?", status=404, code="ResourceNotFound")

        assert len(reread(cached, max_drop_percent=40).hosts) == 3

    def test_max_drop_percent_requires_a_cache(self, source: Source) -> None:
        with pytest.raises(AnsibleParserError, match="max_drop_percent needs `cache: true`"):
            source.read(max_drop_percent=10)
