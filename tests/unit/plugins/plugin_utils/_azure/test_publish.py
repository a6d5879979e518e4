# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The groups of an instance, and reading without garbage collection."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.publish import (
    groups_of,
    no_garbage_collection,
    safe,
    scale_set_groups,
)

from .instances import SUBSCRIPTION, make_facts, make_scale_set

OTHER = SUBSCRIPTION.replace("1", "9")


@pytest.mark.parametrize(
    ("name", "expected"), [("Standard_ND96asr_v4", "standard_nd96asr_v4"), ("gpu-a.b", "gpu_a_b"), ("ä\n{", "___")]
)
def test_names_become_parts_of_group_names(name: str, expected: str) -> None:
    assert safe(name) == expected


def test_groups_of_an_instance_that_is_ready() -> None:
    facts = make_facts(
        vm_size="Standard_D4s_v5",
        location="westus",
        zone="2",
        placement_group="ab-c",
        latest_model=False,
        roles=["controller", "login"],
        ready=True,
    )

    assert set(groups_of(facts, "azure_vmss_set")) == {
        "azure_hosts",
        "azure_vmss_set",
        "azure_power_running",
        "azure_provisioning_succeeded",
        "azure_size_standard_d4s_v5",
        "azure_location_westus",
        "azure_zone_westus_2",
        "azure_placement_group_ab_c",
        "azure_model_outdated",
        "azure_role_controller",
        "azure_role_login",
        "hpcai_controller",
        "hpcai_login",
    }


def test_an_instance_that_is_not_ready_is_in_no_group_to_work_on() -> None:
    facts = make_facts(power_state=None, provisioning_state=None, roles=["login"], ready=False)

    assert set(groups_of(facts, None)) == {
        "azure_hosts",
        "azure_power_unknown",
        "azure_provisioning_unknown",
        "azure_role_login",
    }


@pytest.mark.parametrize("latest", [True, None])
def test_only_a_model_that_is_known_to_be_old_is_outdated(latest: bool | None) -> None:
    assert "azure_model_outdated" not in groups_of(make_facts(latest_model=latest), None)


def test_each_scale_set_has_a_group_of_its_own() -> None:
    sets = [
        make_scale_set("gpu"),
        make_scale_set("cpu-a", "one"),
        make_scale_set("CPU_A", "two"),
        make_scale_set("fs", "one"),
        make_scale_set("fs", "one", OTHER),
    ]

    assert list(scale_set_groups(sets).values()) == [
        "azure_vmss_gpu",
        "azure_vmss_cpu_a_one",
        "azure_vmss_cpu_a_two",
        f"azure_vmss_fs_one_{safe(SUBSCRIPTION)}",
        f"azure_vmss_fs_one_{safe(OTHER)}",
    ]


class Circle:
    """Refers to itself, so only the search for garbage finds that nobody else does."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _leave_the_collector_as_it_was() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


def test_no_search_while_hosts_are_read_but_again_afterwards() -> None:
    with no_garbage_collection():
        assert not gc.isenabled()

    assert gc.isenabled()


def test_a_search_that_was_off_stays_off() -> None:
    gc.disable()

    with no_garbage_collection():
        pass

    assert not gc.isenabled()


def test_search_goes_on_after_an_error() -> None:
    with pytest.raises(ValueError, match="broken"), no_garbage_collection():
        raise ValueError("broken")

    assert gc.isenabled()


def test_what_was_read_is_not_searched_again() -> None:
    before = gc.get_freeze_count()

    with no_garbage_collection():
        hosts = [[number] for number in range(1000)]

    assert gc.get_freeze_count() >= before + len(hosts)


def test_an_inventory_that_is_read_anew_does_not_keep_the_old_one() -> None:
    with no_garbage_collection():
        circle = Circle()
        old = weakref.ref(circle)
    del circle
    gc.collect()
    assert old() is not None

    with no_garbage_collection():
        gc.collect()

    assert old() is None
