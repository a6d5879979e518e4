# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Quota, VM sizes and images: what fails, what is unknown, and what the user can do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from stand_ins.preflight import COMPUTE, CONTROLLER, CPU_SKU, FAMILY, GPU, GPU_SKU, IMAGE, facts, needs, usages

from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.preflight_facts import (
    Answer,
    Image,
    Restriction,
    Usage,
    Verdict,
    number_of,
)
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.preflight_machines import (
    judge_images,
    judge_quota,
    judge_sizes,
)


def by_about(verdicts: Iterable[Verdict]) -> dict[str, str]:
    """The verdicts by what they are about."""
    return {one.about: one.verdict for one in verdicts}


def only(verdicts: Iterable[Verdict], verdict: str) -> Verdict:
    """The only verdict that is not a pass, which must be this one."""
    found = [one for one in verdicts if one.verdict != "pass"]
    assert [one.verdict for one in found] == [verdict]
    return found[0]


def quota(**changed: Usage) -> list[Verdict]:
    return list(judge_quota(needs(), facts(usages=Answer(usages(**changed)))))


def test_compares_the_quota_of_each_family_with_its_folded_name() -> None:
    assert by_about(quota()) == {
        "standardDSv5Family": "pass",
        "cores": "pass",
        "virtualMachines": "pass",
        "Standard NDASv4_A100 Family": "pass",
    }


def test_no_quota_fails_and_says_what_to_request() -> None:
    found = only(quota(gpu=Usage("Standard NDASv4_A100 Family", 0, 0)), "fail")
    assert "not even one machine" in found.summary
    assert "region westeurope" in found.action
    assert "raise the limit from 0 to at least 384 vCPUs" in found.action


def test_a_quota_for_some_nodes_but_not_for_all_is_a_warning() -> None:
    found = only(quota(gpu=Usage("Standard NDASv4_A100 Family", 96, 288)), "warn")
    assert "raise the limit from 288 to at least 480 vCPUs" in found.action
    assert found.limit == "288, of which 96 are used"


def test_machines_that_exist_need_no_quota_again() -> None:
    full = Answer(usages(gpu=Usage("Standard NDASv4_A100 Family", 384, 384)))
    found = list(judge_quota(needs(), facts(usages=full, existing=Answer({"compute": 4}))))
    assert set(by_about(found).values()) == {"pass"}


def test_the_sets_of_a_family_count_together() -> None:
    two = needs(machines=(COMPUTE, replace(COMPUTE, name="second")))
    found = {one.about: one for one in judge_quota(two, facts())}
    assert found["Standard NDASv4_A100 Family"].verdict == "warn"
    assert "set compute, set second" in found["Standard NDASv4_A100 Family"].action


def test_spot_machines_use_the_quota_of_spot_only() -> None:
    spot = needs(machines=(replace(COMPUTE, spot=True),))
    some = Answer(usages(lowPriorityCores=Usage("lowPriorityCores", 0, 384), gpu=Usage(FAMILY, 0, 0)))
    assert by_about(judge_quota(spot, facts(usages=some))) == {"lowPriorityCores": "pass", "virtualMachines": "pass"}
    assert by_about(judge_quota(spot, facts()))["lowPriorityCores"] == "fail"


@pytest.mark.parametrize("row", [Usage("other", 0, 9999), Usage("Standard NDASv4_A100 Family", 0, None)])
def test_a_quota_that_azure_does_not_list_is_unknown(row: Usage) -> None:
    found = only(quota(gpu=row), "unknown")
    assert "az vm list-usage" in found.action


def test_a_size_without_known_cpus_has_an_unknown_quota() -> None:
    odd = replace(GPU_SKU, name="Standard_NEW", capabilities={})
    new = needs(machines=(replace(COMPUTE, vm_size="Standard_NEW"),))
    assert by_about(judge_quota(new, facts(skus=Answer([odd]))))["cores"] == "unknown"


@pytest.mark.parametrize(
    ("value", "number"),
    [("96", 96), (96.0, 96), (0, 0), (None, None), ("", None), ("many", None), (-1, None), (float("nan"), None)],
)
def test_reads_limits_as_azure_sends_them(value: Any, number: float | None) -> None:
    assert number_of(value) == number


def sizes(sku: Any = GPU_SKU, **changes: Any) -> list[Verdict]:
    one = replace(COMPUTE, **changes)
    return list(judge_sizes(needs(machines=(one,)), facts(skus=Answer([sku, CPU_SKU])), None))


def test_a_size_that_is_sold_passes_and_says_that_stock_is_not_known() -> None:
    sold, hardware = sizes()
    assert (sold.verdict, hardware.verdict) == ("pass", "pass")
    assert "not known until they are ordered" in sold.summary


def test_a_size_of_other_zones_only_fails() -> None:
    found = only(sizes(zone="3"), "fail")
    assert "it is sold in zones 1, 2" in found.summary


def test_a_size_without_zones_fails_for_a_zone() -> None:
    assert "it is sold in no zone" in only(sizes(replace(GPU_SKU, zones=())), "fail").summary


def test_a_zone_that_is_closed_to_the_subscription_fails() -> None:
    closed = replace(GPU_SKU, restrictions=(Restriction("Zone", "NotAvailableForSubscription", ("1",)),))
    found = only(sizes(closed), "fail")
    assert "does not sell it to this subscription in zone 1" in found.summary
    assert "allow Standard_ND96asr_v4 in westeurope zone 1" in found.action
    assert {one.verdict for one in sizes(closed, zone="2")} == {"pass"}


def test_a_region_that_is_closed_to_the_subscription_fails() -> None:
    closed = replace(GPU_SKU, restrictions=(Restriction("Location", "QuotaId"),))
    assert "(QuotaId)" in only(sizes(closed, zone=""), "fail").summary


def test_a_size_that_the_region_does_not_have_fails() -> None:
    found = only(judge_sizes(needs(machines=(COMPUTE,)), facts(skus=Answer([CPU_SKU])), None), "fail")
    assert "westeurope does not have this size" in found.summary


def test_an_empty_list_of_sizes_means_a_wrong_location() -> None:
    found = only(judge_sizes(needs(), facts(skus=Answer([])), None), "fail")
    assert "az account list-locations" in found.action


@pytest.mark.parametrize(
    ("capability", "words"),
    [
        ({"GPUs": "4"}, "Azure says 4 GPUs, this collection 8"),
        ({"GPUs": "16"}, "Azure says 16 GPUs, this collection 8"),
        ({"vCPUs": "48"}, "Azure says 48 vCPUs, this collection 96"),
        ({"MemoryGB": "450"}, "Azure says 450 GiB of memory, this collection 886 GiB"),
        ({"RdmaEnabled": "False"}, "Azure says no InfiniBand, this collection 8 InfiniBand adapters"),
    ],
)
def test_hardware_that_differs_from_the_collections_facts_is_a_warning(capability: dict[str, str], words: str) -> None:
    found = only(sizes(replace(GPU_SKU, capabilities={**GPU_SKU.capabilities, **capability})), "warn")
    assert words in found.summary


@pytest.mark.parametrize(
    ("changes", "capability"),
    [
        ({"spot": True}, "LowPriorityCapable"),
        ({"ephemeral": True}, "EphemeralOSDiskSupported"),
        ({"reserved": True}, "CapacityReservationSupported"),
        ({}, "AcceleratedNetworkingEnabled"),
        ({}, "PremiumIO"),
    ],
)
def test_a_size_that_does_not_support_the_model_fails(changes: dict[str, Any], capability: str) -> None:
    lacking = replace(GPU_SKU, capabilities={**GPU_SKU.capabilities, capability: "False"})
    assert "it does not support" in only(sizes(lacking, **changes), "fail").summary


def test_what_the_machines_do_not_use_need_not_be_supported() -> None:
    unused = ("LowPriorityCapable", "EphemeralOSDiskSupported", "CapacityReservationSupported")
    lacking = replace(GPU_SKU, capabilities={**GPU_SKU.capabilities, **dict.fromkeys(unused, "False")})
    assert {one.verdict for one in sizes(lacking)} == {"pass"}


def test_only_scale_sets_need_accelerated_networking() -> None:
    lacking = replace(CPU_SKU, capabilities={**CPU_SKU.capabilities, "AcceleratedNetworkingEnabled": "False"})
    verdicts = judge_sizes(needs(machines=(CONTROLLER,)), facts(skus=Answer([lacking])), None)
    assert {one.verdict for one in verdicts} == {"pass"}


def test_an_unknown_size_of_compute_nodes_is_described() -> None:
    sku = replace(GPU_SKU, name="Standard_NEW", capabilities={"vCPUs": "12", "MemoryGB": "110", "GPUs": "1"})
    found = only(sizes(sku, vm_size="Standard_NEW"), "warn")
    assert "hpcai_vm_sizes: {Standard_NEW: {vcpus: 12, memory_mib: 112640, gpu_count: 1}}" in found.action
    described = {"Standard_NEW": {"vcpus": 12, "memory_mib": 110000, "gpu_count": 1}}
    one = replace(COMPUTE, vm_size="Standard_NEW")
    verdicts = judge_sizes(needs(machines=(one,)), facts(skus=Answer([sku])), described)
    assert {each.verdict for each in verdicts} == {"pass"}


def test_the_facts_of_a_login_nodes_size_are_not_needed() -> None:
    assert {one.verdict for one in judge_sizes(needs(machines=(CONTROLLER,)), facts(), None)} == {"pass"}


PLAN = "me:thing:one"


def images(image: Image | None, problem: str = "", terms: Answer[bool] | None = None, **changes: Any) -> list[Verdict]:
    one = needs(machines=(replace(COMPUTE, **changes),))
    answered = facts(images={IMAGE: Answer(image, problem)}, terms={PLAN: terms} if terms else {})
    return list(judge_images(one, answered))


def test_an_image_that_does_not_exist_fails() -> None:
    found = only(images(None), "fail")
    assert "az vm image list --all --location westeurope --publisher microsoft-dsvm" in found.action


def test_an_image_without_copy_in_the_region_fails() -> None:
    found = only(images(Image("V2", regions=frozenset({"northeurope"}))), "fail")
    assert found.summary == "the image has no copy in westeurope"


def test_an_image_of_another_generation_or_architecture_fails() -> None:
    old = replace(GPU_SKU, capabilities={**GPU_SKU.capabilities, "HyperVGenerations": "V1"})
    one = needs(machines=(COMPUTE,))
    answered = facts(skus=Answer([old]), images={IMAGE: Answer(Image("V2", "x64"))})
    assert "generation V2" in only(judge_images(one, answered), "fail").summary
    assert "architecture Arm64" in only(images(Image("V2", "Arm64")), "fail").summary


def test_an_image_whose_generation_is_not_known_is_unknown() -> None:
    assert only(images(Image()), "unknown").limit == "V1,V2"


def test_an_image_that_cannot_be_read_is_unknown() -> None:
    assert only(images(None, "could not read image"), "unknown").summary == "could not read image"


@pytest.mark.parametrize(
    ("has", "stated", "action"),
    [
        ("me:thing:one", "", "Set plan: me:thing:one next to this image."),
        ("me:thing:two", "me:thing:one", "Set plan: me:thing:two next to this image."),
        ("", "me:thing:one", "Remove plan next to this image."),
    ],
)
def test_another_plan_than_the_images_fails(has: str, stated: str, action: str) -> None:
    found = only(images(Image("V2", plan=has), terms=Answer(True), plan=stated), "fail")
    assert found.action == action


BAKED = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/galleries/hpc/images/node/versions/1.0.0"


def test_an_own_image_may_have_the_plan_of_the_image_that_it_was_made_from() -> None:
    one = needs(machines=(replace(COMPUTE, image=BAKED, plan=PLAN),))
    answered = facts(images={BAKED: Answer(Image("V2"))}, terms={PLAN: Answer(True)})
    assert "Keep plan if the image was made from" in only(judge_images(one, answered), "warn").action
    # Its terms must be accepted, too.
    answered = facts(images={BAKED: Answer(Image("V2"))}, terms={PLAN: Answer(False)})
    assert "az vm image terms accept" in only(judge_images(one, answered), "fail").action
    stated = facts(images={BAKED: Answer(Image("V2", plan=PLAN))}, terms={PLAN: Answer(True)})
    assert {verdict.verdict for verdict in judge_images(one, stated)} == {"pass"}


def test_the_terms_of_an_images_plan_must_be_accepted() -> None:
    image = Image("V2", plan="Me:thing:one")
    assert {one.verdict for one in images(image, terms=Answer(True), plan=PLAN)} == {"pass"}
    refused = only(images(image, terms=Answer(False), plan=PLAN), "fail")
    assert "az vm image terms accept" in refused.action
    assert "--publisher me --offer thing --plan one" in refused.action
    assert only(images(image, terms=Answer(problem="403"), plan=PLAN), "unknown").summary == "403"


def test_without_knowing_what_exists_a_short_quota_is_unknown() -> None:
    full = Answer(usages(gpu=Usage("Standard NDASv4_A100 Family", 384, 384)))
    answered = facts(usages=full, existing=Answer(problem="could not read the set"))
    assert only(judge_quota(needs(), answered), "unknown").summary == "could not read the set"


@pytest.mark.parametrize(("judge", "field"), [(judge_quota, "usages"), (judge_sizes, "skus")])
def test_a_question_without_an_answer_is_unknown(judge: Any, field: str) -> None:
    answered = facts(**{field: Answer(problem="could not list it: 403")})
    arguments = (needs(), answered, None) if judge is judge_sizes else (needs(), answered)
    assert only(judge(*arguments), "unknown").summary == "could not list it: 403"


@pytest.mark.parametrize(
    ("capabilities", "gib", "verdict", "limit"),
    [
        ({"CachedDiskBytes": str(256 << 30), "MaxResourceVolumeMB": "65536"}, 256, "pass", ""),
        ({"CachedDiskBytes": str(256 << 30), "MaxResourceVolumeMB": "65536"}, 257, "fail", "256 GiB"),
        ({"CachedDiskBytes": "0", "MaxResourceVolumeMB": "65536"}, 128, "fail", "64 GiB"),
        ({"MaxResourceVolumeMB": "0", "NvmeDiskSizeInMiB": "112640"}, 128, "fail", "110 GiB"),
        ({"MaxResourceVolumeMB": "4096000"}, 2041, "fail", "2040 GiB"),
        ({}, 128, "unknown", ""),
    ],
)
def test_an_ephemeral_disk_must_fit_on_the_host(
    capabilities: dict[str, str], gib: int, verdict: str, limit: str
) -> None:
    sku = replace(GPU_SKU, capabilities={**GPU_SKU.capabilities, **capabilities})
    one = needs(machines=(replace(COMPUTE, ephemeral=True, disk_gib=gib),))
    found = {item.check: item for item in judge_sizes(one, facts(skus=Answer([sku])), None)}["hardware"]
    assert (found.verdict, found.limit) == (verdict, limit)
    managed = needs(machines=(replace(COMPUTE, disk_gib=gib),))
    assert {item.verdict for item in judge_sizes(managed, facts(skus=Answer([sku])), None)} == {"pass"}


def test_every_action_names_the_size() -> None:
    assert GPU in only(sizes(zone="3"), "fail").action
