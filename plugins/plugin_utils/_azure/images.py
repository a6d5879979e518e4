# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Images of scale sets: the image of a set's model, those of its instances, and changes of the model's image."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .clients import Clients, read_list
from .errors import Asking, InventoryError, explain, listed
from .facts import FLEXIBLE, IMAGE_FIELDS
from .instance_operations import Begin, finish
from .resources import name_of, resource_group_of, segment, subscription_of
from .targets import SetName

_VERSION = r"\d+(?:\.\d+)+"
GALLERY_VERSION = re.compile(
    r"/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Compute/galleries/[^/]+/images/[^/]+/versions/"
    r"\d+\.\d+\.\d+",
    re.IGNORECASE,
)
_MANAGED_IMAGE = re.compile(
    r"/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Compute/images/[^/]+", re.IGNORECASE
)
MANUAL = "Manual"
"""The upgrade policy with which a change of the model changes no instance."""
CHANGING = ("creating", "updating", "deleting", "migrating")
"""Provisioning states of an instance that an operation is changing, in lower case."""
ANOTHER_SET = "Make another scale set with the new image and another name, and retire the nodes of the present one."
"""What to do if Azure cannot give a set the image: see why_fixed()."""


@dataclass(frozen=True)
class Image:
    """The image reference of a scale set's model or of an instance.

    Either ``id`` is set (a gallery's image version, or a managed image), or the others (an image of the marketplace).
    ``exact_version`` is only known for instances. All are empty for an image of a shared or community gallery, which
    Azure returns in ``sharedGalleryImageId`` or ``communityGalleryImageId``.
    """

    id: str = ""
    publisher: str = ""
    offer: str = ""
    sku: str = ""
    version: str = ""
    exact_version: str = ""

    def __str__(self) -> str:
        return (self.id or ":".join((self.publisher, self.offer, self.sku, self.version))) if self.is_known else ""

    @property
    def is_known(self) -> bool:
        """Whether it is of the marketplace, or has an id."""
        return bool(self.id or self.publisher)

    @property
    def name(self) -> str:
        """A short name: ``node-image/1.2.3`` for a gallery's version, else the version or the image's name."""
        if not self.id:
            return self.version
        definition = segment(self.id, "images")
        version = segment(self.id, "versions")
        return f"{definition}/{version}" if version else name_of(self.id)

    @property
    def product(self) -> tuple[str, str, str]:
        """A marketplace image without its version; empty words for other images."""
        return self.publisher, self.offer, self.sku

    @property
    def is_exact(self) -> bool:
        """Whether it always means the same image."""
        return bool(self.id) or self.version.lower() not in ("", "latest")

    def is_of(self, other: Image) -> bool:
        """Whether an instance with the image ``other`` was made from this image."""
        if self.id or other.id:
            return self.id.lower() == other.id.lower()
        mine = (self.publisher, self.offer, self.sku, self.version)
        theirs = (other.publisher, other.offer, other.sku, other.exact_version or other.version)
        return [word.lower() for word in mine] == [word.lower() for word in theirs]


def why_fixed(before: Image, after: Image, has_plan: bool) -> str:
    """Return why Azure cannot change the image of a scale set's model in this way; empty if it can. Pure.

    :param has_plan: whether the set was made with the plan of a marketplace image.
    """
    # How Azure treats images of shared and community galleries is not known, so Azure decides.
    if not (before.is_known and after.is_known):
        return ""
    # "The Image type for a Virtual Machine Scale Set may not be changed": MicrosoftDocs/azure-docs#89791 and #92371,
    # Azure/azure-powershell#11817.
    if bool(before.id) != bool(after.id):
        return "Azure cannot change a scale set between a marketplace image and a gallery or managed image"
    # "Changing property 'imageReference.sku' is not allowed", only of images with a plan: Azure/azure-powershell#11911.
    if has_plan and [word.lower() for word in before.product] != [word.lower() for word in after.product]:
        return "Azure can change only the version of a marketplace image with a plan"
    return ""


def from_reference(reference: Any) -> Image | None:
    """Return an imageReference of the SDK, or None if Azure did not return one."""
    if not reference:
        return None
    values = {field: getattr(reference, field, None) for field in IMAGE_FIELDS}
    return Image(**{field: str(value) for field, value in values.items() if value})


def plan_words(found: Any) -> str:
    """Return a marketplace plan of the SDK as ``publisher:product:name``; empty if there is no plan."""
    words = [str(getattr(found, field, None) or "") for field in ("publisher", "product", "name")]
    return ":".join(words) if any(words) else ""


def from_body(reference: Mapping[str, Any] | None) -> Image:
    """Return an imageReference of a request or an answer. It is empty if there is none."""
    return Image(**{field: str(value) for field in IMAGE_FIELDS if (value := (reference or {}).get(field))})


def parse_image(text: str, current: Image) -> Image:
    """Return the image that a user names. Pure.

    :param text: the id of a gallery's image version or of a managed image; ``publisher:offer:sku:version``; or only a
        version, of the same image definition or marketplace image as the set's current one.
    :param current: the image of the set's model now.
    :raises InventoryError: it is no such name, or names no exact version.
    """
    asked = text.strip().rstrip("/")
    words = asked.split(":")
    if asked.lower().rpartition(":")[2] == "latest" or asked.lower().endswith("/versions/latest"):
        raise InventoryError(f"image: {asked}: give an exact version, because latest changes without notice.")
    if GALLERY_VERSION.fullmatch(asked) or _MANAGED_IMAGE.fullmatch(asked):
        return Image(id=asked)
    if len(words) == 4 and all(words):
        return Image("", *words)
    if re.fullmatch(_VERSION, asked):
        definition, found, _version = current.id.rpartition("/versions/")
        if found:
            return Image(id=f"{definition}/versions/{asked}")
        if current.publisher:
            return Image("", current.publisher, current.offer, current.sku, asked)
        raise InventoryError(
            f"image: {asked}: a version alone needs a scale set whose image has versions, but it has "
            f"{str(current) or 'an image of a shared or community gallery'}. Give the complete id."
        )
    raise InventoryError(
        f"image: {asked!r} is not an image: give the id of a gallery's image version "
        "(/subscriptions/.../galleries/GALLERY/images/IMAGE/versions/1.2.3), publisher:offer:sku:version, or a version."
    )


@dataclass(frozen=True)
class Member:
    """An instance of a Uniform scale set.

    :ivar latest_model: Azure's ``latestModelApplied``, which is also false if something other than the image changed.
    :ivar state: provisioning state in lower case.
    """

    azure_id: str
    instance_id: str
    vm_id: str
    image: Image | None
    latest_model: bool | None
    state: str

    def has(self, wanted: Image) -> bool:
        """Whether the instance has this image of its set's model.

        If the images cannot be compared, because Azure returned none or the model has no exact version, Azure's
        ``latestModelApplied`` decides.
        """
        if self.image is None or not wanted.is_exact:
            return self.latest_model is not False
        return wanted.is_of(self.image)

    @property
    def changing(self) -> bool:
        """Whether an operation of Azure is changing it."""
        return self.state in CHANGING


@dataclass(frozen=True)
class SetImages:
    """A Uniform scale set with the image of its model, its instances, and its upgrade policy's mode.

    :ivar has_plan: whether it was made with the plan of a marketplace image.
    """

    name: SetName
    azure_id: str
    location: str
    image: Image
    members: tuple[Member, ...]
    upgrade_policy: str = MANUAL
    has_plan: bool = False

    @property
    def outdated(self) -> tuple[Member, ...]:
        """The instances with another image than the model's."""
        return tuple(member for member in self.members if not member.has(self.image))


def make_set_name(azure_id: str) -> SetName:
    """Return a scale set by its resource id, or by the id of one of its instances.

    :raises InventoryError: it is neither.
    """
    name = segment(azure_id, "virtualMachineScaleSets")
    subscription, group = subscription_of(azure_id), resource_group_of(azure_id)
    if not (subscription and group and name):
        raise InventoryError(
            f"{azure_id!r} is not in a Uniform scale set. Only Uniform sets can give existing instances another image."
        )
    return SetName(subscription.lower(), group.lower(), name.lower())


def read_sets(clients: Clients, names: Iterable[SetName]) -> list[SetImages]:
    """Return the sets with their instances: one request per set, and one per page of instances.

    :raises InventoryError: a request failed, or a set is Flexible or has no image reference.
    """
    return [_read_set(clients, name) for name in names]


def _read_set(clients: Clients, name: SetName) -> SetImages:
    compute = clients.compute(name.subscription)
    asking = Asking(f"read {name}", "Microsoft.Compute/virtualMachineScaleSets/read")
    try:
        found = compute.virtual_machine_scale_sets.get(name.group, name.name)
    except Exception as error:
        raise InventoryError(explain(error, asking)) from None
    mode = found.orchestration_mode
    if str(getattr(mode, "value", mode)) == FLEXIBLE:
        raise InventoryError(
            f"{name} is Flexible: Azure does not give its existing machines another image. Delete and create them."
        )
    profile = found.virtual_machine_profile
    storage = profile.storage_profile if profile else None
    image = from_reference(storage.image_reference if storage else None)
    if image is None:
        raise InventoryError(f"Azure returned no image for {name}, so its instances cannot be compared with it.")
    asking = Asking(f"list the instances of {name}", "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read")
    try:
        members = read_list(compute.virtual_machine_scale_set_vms.list(name.group, name.name), _member)
    except Exception as error:
        raise InventoryError(explain(error, asking)) from None
    location = str(found.location or "").replace(" ", "").lower()
    policy = found.upgrade_policy.mode if found.upgrade_policy else None
    mode = str(getattr(policy, "value", policy))
    return SetImages(name, str(found.id), location, image, tuple(members), mode, bool(plan_words(found.plan)))


def _member(vm: Any) -> Member:
    storage = vm.storage_profile
    return Member(
        azure_id=str(vm.id),
        instance_id=str(vm.instance_id),
        vm_id=str(vm.vm_id or ""),
        image=from_reference(storage.image_reference if storage else None),
        latest_model=vm.latest_model_applied,
        state=str(vm.provisioning_state or "").lower(),
    )


def image_patch(image: Image) -> bytes:
    """Return the body of a PATCH that changes only the image reference of a set's model. Pure."""
    fields = ("publisher", "offer", "sku", "version")
    reference = {"id": image.id} if image.id else {field: getattr(image, field) for field in fields}
    profile = {"storageProfile": {"imageReference": reference}}
    return json.dumps({"properties": {"virtualMachineProfile": profile}}).encode()


def set_images(clients: Clients, wanted: dict[SetName, Image]) -> None:
    """Change the image of the sets' models. Instances keep theirs, because of the upgrade policy Manual.

    :raises InventoryError: some could not be changed. The message names all of them.
    """
    finish(_begin(clients, name, image) for name, image in wanted.items())


def _begin(clients: Clients, name: SetName, image: Image) -> Begin:
    calls = clients.compute(name.subscription).virtual_machine_scale_sets
    asking = Asking(f"set the image of {name} to {image}", "Microsoft.Compute/virtualMachineScaleSets/write")
    return Begin(asking, lambda: calls.begin_update(name.group, name.name, image_patch(image)))


def refuse_other_policies(sets: Iterable[SetImages]) -> None:
    """Refuse sets whose upgrade policy would replace the system of nodes with jobs as soon as the model changes. Pure.

    :raises InventoryError: a set's policy is not Manual.
    """
    wrong = [f"{item.name} ({item.upgrade_policy})" for item in sets if item.upgrade_policy != MANUAL]
    if wrong:
        raise InventoryError(
            f"Nothing was done. Upgrade policy of {listed(wrong)}: Azure would replace the system of nodes that run "
            "jobs. Set upgradePolicy.mode to Manual."
        )


def refuse_other_kinds(sets: Iterable[SetImages], wanted: Mapping[SetName, Image]) -> None:
    """Refuse images that Azure cannot give to these sets. Pure.

    :param wanted: the new image of each set that gets one.
    :raises InventoryError: Azure cannot make one of the changes.
    """
    wrong: dict[str, list[str]] = {}
    for item in sets:
        reason = why_fixed(item.image, wanted.get(item.name, item.image), item.has_plan)
        if reason:
            wrong.setdefault(reason, []).append(f"{item.name} (which has {item.image})")
    if wrong:
        reasons = " ".join(f"{reason}: {listed(names)}." for reason, names in wrong.items())
        raise InventoryError(f"Nothing was done. {reasons} {ANOTHER_SET}")
