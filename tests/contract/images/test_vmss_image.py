# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""vmss_image changes the image of a set's model and nothing else, or nothing at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.images import Image, image_patch, parse_image
from simulator.testing import Simulator, running

from .azure import OLD_IMAGE, add_gallery, counts, set_image, version_id, write_requests

GALLERY = Image(id="/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/galleries/h/images/n/versions/1.0.0")
MARKET = Image("", "p", "o", "s", "1")


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """A Uniform set with two instances, two others, a Flexible one, and a gallery with three versions."""
    scenario = {
        "scale_sets": [
            {"name": "compute", "capacity": 2, "tags": {"a": "b"}, "image": {"id": OLD_IMAGE}},
            {"name": "second", "capacity": 1, "image": {"id": OLD_IMAGE}},
            {"name": "market", "capacity": 1, "image": {"version": "22.04.2025041101"}},
            {"name": "flex", "orchestration_mode": "Flexible"},
        ]
    }
    with running(scenario) as simulated:
        add_gallery(simulated, "0.9.0", "1.0.0", "1.1.0")
        yield simulated


def test_only_the_image_of_the_model_changes(simulator: Simulator) -> None:
    result = set_image(simulator, version_id(simulator))

    scale_set = simulator.scale_set("compute")
    assert result["changed"] is True
    assert counts(result) == {"compute": (0, 2)}
    assert scale_set.profile["storageProfile"]["imageReference"] == {"id": version_id(simulator)}
    assert (scale_set.capacity, scale_set.tags) == (2, {"a": "b"})
    assert write_requests(simulator) == ["PATCH compute"]
    assert result["scale_sets"][0]["before"] == OLD_IMAGE
    assert result["scale_sets"][0]["image_name"] == "node/1.0.0"


def test_the_request_contains_only_the_reference() -> None:
    assert image_patch(GALLERY) == (
        b'{"properties": {"virtualMachineProfile": {"storageProfile": {"imageReference": {"id": "'
        + GALLERY.id.encode()
        + b'"}}}}}'
    )


def test_a_set_with_the_image_is_unchanged_and_a_version_alone_is_enough_to_go_back(simulator: Simulator) -> None:
    set_image(simulator, version_id(simulator, "1.1.0"))
    simulator.clear()

    assert set_image(simulator, "1.1.0")["changed"] is False
    assert write_requests(simulator) == []
    back = set_image(simulator, OLD_IMAGE)
    assert (back["changed"], counts(back)) == (True, {"compute": (2, 0)})


def test_without_an_image_the_instances_are_only_listed(simulator: Simulator) -> None:
    result = set_image(simulator, None, "compute", "second")

    assert (result["changed"], counts(result)) == (False, {"compute": (2, 0), "second": (1, 0)})
    assert write_requests(simulator) == []


def test_check_mode_shows_which_instances_would_be_outdated(simulator: Simulator) -> None:
    result = set_image(simulator, version_id(simulator), check=True)

    assert (result["changed"], counts(result)) == (True, {"compute": (0, 2)})
    assert result["diff"]["after"].endswith(f": {version_id(simulator)}\n")
    assert write_requests(simulator) == []


@pytest.mark.parametrize(
    ("image", "words"),
    [("9.9.9", "version 9.9.9 of the image node in the gallery hpc does not exist"), ("latest", "exact version")],
)
def test_a_version_that_does_not_exist_changes_nothing(simulator: Simulator, image: str, words: str) -> None:
    set_image(simulator, version_id(simulator))
    simulator.clear()

    with pytest.raises(InventoryError, match=words):
        set_image(simulator, image)
    assert write_requests(simulator) == []


def test_a_version_in_another_region_changes_nothing(simulator: Simulator) -> None:
    found = simulator.model.galleries.version(version_id(simulator))
    assert found is not None
    found.progress, found.regions = {"East US": 100}, [{"name": "East US"}]

    with pytest.raises(InventoryError, match=r"is not replicated to southcentralus.*in eastus"):
        set_image(simulator, version_id(simulator), "second", "compute")
    assert write_requests(simulator) == []


def test_a_flexible_set_is_refused_by_name(simulator: Simulator) -> None:
    with pytest.raises(InventoryError, match=r"scale set flex .* is Flexible"):
        set_image(simulator, version_id(simulator), "compute", "flex")
    assert write_requests(simulator) == []


def test_a_set_that_azure_would_upgrade_at_once_is_refused(simulator: Simulator) -> None:
    simulator.add_fault("GET .*/virtualMachineScaleSets/compute", "strip", fields=["properties.upgradePolicy"])

    with pytest.raises(InventoryError, match=r"Set upgradePolicy.mode to Manual"):
        set_image(simulator, version_id(simulator))
    assert write_requests(simulator) == []


@pytest.mark.parametrize(
    ("names", "image", "has"),
    [(["compute", "market"], version_id, "market .*22.04.2025041101"), (["second"], "a:b:c:4", "second .*node/")],
)
def test_another_kind_of_image_is_refused_for_all_sets(
    simulator: Simulator, names: list[str], image: Any, has: str
) -> None:
    with pytest.raises(InventoryError, match=f"between a marketplace image and a gallery.*{has}.*Make another scale"):
        set_image(simulator, image if isinstance(image, str) else image(simulator), *names)
    assert write_requests(simulator) == []


@pytest.mark.parametrize("field", ["sharedGalleryImageId", "communityGalleryImageId"])
def test_azure_decides_whether_an_image_of_another_gallery_can_be_replaced(simulator: Simulator, field: str) -> None:
    reference = {field: "/CommunityGalleries/hpc-1a2b/Images/node/Versions/1.0.0"}
    simulator.scale_set("compute").profile["storageProfile"]["imageReference"] = reference

    with pytest.raises(InventoryError, match=r"it has an image of a shared or community gallery\. Give"):
        set_image(simulator, "1.1.0")
    foreseen = set_image(simulator, version_id(simulator), check=True)
    assert (foreseen["scale_sets"][0]["before"], counts(foreseen)) == ("", {"compute": (0, 2)})
    # How Azure decides is not known, so this is not the simulator's answer.
    simulator.add_fault("PATCH", status=409, code="OperationNotAllowed", message="Azure has decided.")
    with pytest.raises(InventoryError, match="OperationNotAllowed: Azure has decided"):
        set_image(simulator, version_id(simulator))
    assert write_requests(simulator) == ["PATCH compute"]


def test_only_the_version_of_an_image_with_a_plan_can_change(simulator: Simulator) -> None:
    reference = {"publisher": "microsoft-dsvm", "offer": "ubuntu-hpc", "sku": "2204", "version": "22.04.2025041101"}
    plan = {"publisher": "microsoft-dsvm", "product": "ubuntu-hpc", "name": "2204"}
    market = simulator.scale_set("market")
    sent = {"properties": {"singlePlacementGroup": True, "upgradePolicy": {"mode": "Manual"}}}
    market.sent = {**sent, "plan": plan}

    with pytest.raises(InventoryError, match=r"only the version of a marketplace image with a plan: .*market"):
        set_image(simulator, "microsoft-dsvm:ubuntu-hpc:2404:24.04.2025091101", "market")
    assert write_requests(simulator) == []
    set_image(simulator, "22.04.2025091101", "market")
    assert market.profile["storageProfile"]["imageReference"] == {**reference, "version": "22.04.2025091101"}
    market.sent = sent
    set_image(simulator, "microsoft-dsvm:ubuntu-hpc:2404:24.04.2025091101", "market")
    assert market.profile["storageProfile"]["imageReference"]["sku"] == "2404"


def test_azures_refusal_names_the_permission(simulator: Simulator) -> None:
    simulator.add_fault("PATCH", status=403, code="LinkedAuthorizationFailed", message="No access to the gallery.")

    with pytest.raises(InventoryError, match=r"could not set the image of scale set compute .*No access"):
        set_image(simulator, version_id(simulator))


@pytest.mark.parametrize(
    ("text", "current", "image"),
    [
        ("1.2.3", GALLERY, Image(id=GALLERY.id.replace("1.0.0", "1.2.3"))),
        ("2", MARKET, None),
        ("2.0", MARKET, Image("", "p", "o", "s", "2.0")),
        ("a:b:c:4", GALLERY, Image("", "a", "b", "c", "4")),
        (f" {GALLERY.id}/ ", MARKET, GALLERY),
        ("a:b:c:latest", MARKET, None),
        (GALLERY.id.rpartition("/versions/")[0], MARKET, None),
        (f"{GALLERY.id.rpartition('/')[0]}/latest", MARKET, None),
        ("1.2.3", Image(id="/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/images/n"), None),
        ("a:b::4", MARKET, None),
        ("", MARKET, None),
    ],
)
def test_an_image_is_named_by_id_by_urn_or_by_version(text: str, current: Image, image: Image | None) -> None:
    if image is None:
        with pytest.raises(InventoryError, match=r"^image: "):
            parse_image(text, current)
    else:
        assert parse_image(text, current) == image
