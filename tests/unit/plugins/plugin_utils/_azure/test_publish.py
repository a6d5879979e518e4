# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The groups of an instance, and garbage collection while hosts are added."""

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
def test_characters_that_groups_do_not_allow_become_underscores(name: str, expected: str) -> None:
    assert safe(name) == expected


def test_a_ready_instance_is_in_all_its_groups() -> None:
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


def test_an_instance_that_is_not_ready_is_in_no_hpcai_group() -> None:
    facts = make_facts(power_state=None, provisioning_state=None, roles=["login"], ready=False)

    assert set(groups_of(facts, None)) == {
        "azure_hosts",
        "azure_power_unknown",
        "azure_provisioning_unknown",
        "azure_role_login",
    }


@pytest.mark.parametrize("latest", [True, None])
def test_an_unknown_model_is_not_outdated(latest: bool | None) -> None:
    assert "azure_model_outdated" not in groups_of(make_facts(latest_model=latest), None)


def test_each_scale_set_has_its_own_group() -> None:
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
    """Refers to itself, so only the garbage collector can free it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _restore_the_garbage_collector() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


def test_garbage_collection_is_off_only_during_the_block() -> None:
    with no_garbage_collection():
        assert not gc.isenabled()

    assert gc.isenabled()


def test_garbage_collection_stays_off_if_it_was_off() -> None:
    gc.disable()

    with no_garbage_collection():
        pass

    assert not gc.isenabled()


def test_garbage_collection_is_on_again_after_an_error() -> None:
    with pytest.raises(ValueError, match="broken"), no_garbage_collection():
        raise ValueError("broken")

    assert gc.isenabled()


def test_objects_from_the_block_are_frozen() -> None:
    before = gc.get_freeze_count()

    with no_garbage_collection():
        hosts = [[number] for number in range(1000)]

    assert gc.get_freeze_count() >= before + len(hosts)


def test_a_second_read_frees_the_first_inventory() -> None:
    with no_garbage_collection():
        circle = Circle()
        old = weakref.ref(circle)
    del circle
    gc.collect()
    assert old() is not None

    with no_garbage_collection():
        gc.collect()

    assert old() is None
