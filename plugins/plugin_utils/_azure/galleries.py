# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Image versions of Compute Galleries: what exists, what has to be done, and their replication."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .clients import Clients
from .concurrency import Deadline
from .errors import Asking, DeadlineExceeded, InventoryError, explain, is_gone, printable
from .images import GALLERY_VERSION
from .resources import resource_group_of, segment, subscription_of

SOURCE_TAG = "hpcai_source_vm_id"
"""Tag with the vmId of the captured machine. Names of machines are reused, but never a vmId."""
_TAGS, _TAG_NAME, _TAG_VALUE = 50, 512, 256
"""Most tags of a resource, and their longest names and values (Azure's documentation, "Tag support", limitations)."""
_NOT_IN_TAG_NAMES = re.compile(r"[<>%&\\?/]")
CREATE, CHANGE, RETRY, WAIT, NOTHING = "create", "change", "retry", "wait", "nothing"
_FIRST_POLL_S, _LONGEST_POLL_S = 1.0, 30.0


class VersionName(NamedTuple):
    """The id of an image version."""

    subscription: str
    group: str
    gallery: str
    image: str
    version: str

    @property
    def id(self) -> str:
        """Its resource id."""
        return (
            f"/subscriptions/{self.subscription}/resourceGroups/{self.group}/providers/Microsoft.Compute"
            f"/galleries/{self.gallery}/images/{self.image}/versions/{self.version}"
        )

    def __str__(self) -> str:
        return f"version {self.version} of the image {self.image} in the gallery {self.gallery}"


def parse_version(azure_id: str) -> VersionName:
    """Return the parts of an image version's id.

    :raises InventoryError: it is not such an id.
    """
    text = azure_id.strip().rstrip("/")
    if not GALLERY_VERSION.fullmatch(text):
        raise InventoryError(
            f"{azure_id!r} is not the id of an image version: /subscriptions/SUBSCRIPTION/resourceGroups/GROUP/"
            "providers/Microsoft.Compute/galleries/GALLERY/images/IMAGE/versions/1.2.3"
        )
    parts = (segment(text, kind) for kind in ("galleries", "images", "versions"))
    return VersionName(str(subscription_of(text)), str(resource_group_of(text)), *map(str, parts))


class Region(NamedTuple):
    """The replication to one region: its state in lower case, the progress in percent, and Azure's words."""

    name: str
    state: str
    progress: int
    details: str


@dataclass(frozen=True)
class Version:
    """An image version.

    :ivar state: provisioning state in lower case.
    :ivar source: resource id of what it was captured from.
    :ivar targets: names of its target regions, folded.
    :ivar regions: state of the replication; empty if Azure did not return it.
    """

    state: str
    location: str
    source: str
    tags: Mapping[str, str]
    targets: tuple[str, ...]
    regions: tuple[Region, ...] = ()

    def is_of(self, vm_id: str) -> bool:
        """Whether it was captured from the machine with this vmId."""
        return self.tags.get(SOURCE_TAG, "").lower() == vm_id.lower()

    def usable_in(self, location: str) -> bool:
        """Whether machines can be made from it in a region."""
        wanted = folded(location)
        if self.regions:
            return any(folded(region.name) == wanted and region.state == "completed" for region in self.regions)
        return self.state == "succeeded" and wanted in self.targets


def folded(region: str) -> str:
    """Return a region's name as Azure compares it: ``South Central US`` is southcentralus."""
    return region.replace(" ", "").lower()


def read_version(clients: Clients, name: VersionName) -> Version | None:
    """Return a version with its replication, or None if there is none.

    :raises InventoryError: the request failed, or the gallery or its image definition does not exist.
    """
    calls = clients.compute(name.subscription).gallery_image_versions
    asking = Asking(f"read {name}", "Microsoft.Compute/galleries/images/versions/read")
    try:
        found = calls.get(name.group, name.gallery, name.image, name.version, expand="ReplicationStatus")
    except Exception as error:
        if is_gone(error):
            return None
        raise InventoryError(explain(error, asking)) from None
    return _version(found)


def _version(found: Any) -> Version:
    storage, publishing, status = found.storage_profile, found.publishing_profile, found.replication_status
    source = storage.source if storage else None
    targets = (publishing.target_regions if publishing else None) or []
    return Version(
        state=text_of(found.provisioning_state).lower(),
        location=folded(text_of(found.location)),
        source=text_of(getattr(source, "virtual_machine_id", None) or getattr(source, "id", None)),
        tags={str(key): str(value) for key, value in (found.tags or {}).items()},
        targets=tuple(folded(text_of(target.name)) for target in targets),
        regions=tuple(
            Region(text_of(item.region), text_of(item.state).lower(), int(item.progress or 0), text_of(item.details))
            for item in (status.summary if status else None) or []
        ),
    )


def text_of(value: Any) -> str:
    """Return a value or an enumeration of the SDK as text; empty for None."""
    return "" if value is None else str(getattr(value, "value", value))


@dataclass(frozen=True)
class Plan:
    """What to do.

    :ivar action: CREATE, CHANGE (more regions or other tags), RETRY (after a failed replication), WAIT or NOTHING.
    :ivar regions: target regions afterwards, folded.
    :ivar tags: tags afterwards.
    """

    action: str
    regions: tuple[str, ...]
    tags: Mapping[str, str]


def plan(found: Version | None, vm_id: str, regions: Iterable[str], tags: Mapping[str, str], name: VersionName) -> Plan:
    """Return what to do for an image version. Pure. A version that exists is never overwritten.

    Regions and tags are only added, because somebody else may have added others.

    :raises InventoryError: the version exists, and was captured from something else.
    """
    wanted = tuple(dict.fromkeys(map(folded, regions)))
    with_source = {**tags, SOURCE_TAG: vm_id.lower()}
    if found is None:
        return Plan(CREATE, wanted, with_source)
    if not found.is_of(vm_id):
        raise InventoryError(
            f"{name} exists and was captured from {found.source or 'something else'}, not from the machine {vm_id}. "
            "Nothing was done, because a version is never overwritten. Choose another version."
        )
    all_regions = (*found.targets, *(region for region in wanted if region not in found.targets))
    all_tags = {**found.tags, **with_source}
    if found.state in ("creating", "updating"):
        return Plan(WAIT, all_regions, all_tags)
    if found.state == "failed" or any(region.state == "failed" for region in found.regions):
        return Plan(RETRY, all_regions, all_tags)
    same = all_regions == found.targets and all_tags == dict(found.tags)
    return Plan(NOTHING if same else CHANGE, all_regions, all_tags)


def check_tags(tags: Mapping[str, str]) -> None:
    """Refuse tags that Azure would refuse after the machine has been stopped. Pure.

    :raises InventoryError: there are too many tags, or one has an invalid name or is too long.
    """
    wrong = [name for name in tags if not name or len(name) > _TAG_NAME or _NOT_IN_TAG_NAMES.search(name)] + [
        name for name, value in tags.items() if len(value) > _TAG_VALUE
    ]
    if wrong or len(tags) >= _TAGS:
        raise InventoryError(
            f"tags: {', '.join(map(printable, wrong)) or len(tags)}: Azure takes at most {_TAGS - 1} tags besides "
            f"{SOURCE_TAG}, names of {_TAG_NAME} characters without <>%&\\?/, and values of {_TAG_VALUE} characters."
        )


def put_version(clients: Clients, name: VersionName, location: str, source: str, made: Plan) -> None:
    """Create the version, or change its regions and tags. Does not wait for the replication.

    :param location: region of the image definition, where Azure keeps the original.
    :raises InventoryError: Azure refused.
    """
    calls = clients.compute(name.subscription).gallery_image_versions
    asking = Asking(f"create {name}", "Microsoft.Compute/galleries/images/versions/write")
    where = (name.group, name.gallery, name.image, name.version)
    body = {
        "location": location,
        "tags": dict(made.tags),
        "properties": {
            "publishingProfile": {"targetRegions": [{"name": region} for region in made.regions]},
            "storageProfile": {"source": {"virtualMachineId": source}},
        },
    }
    try:
        new = json.dumps(body).encode() if made.action == CREATE else _with_more(calls.get(*where), made)
        calls.begin_create_or_update(*where, new, polling=False)
    except Exception as error:
        raise InventoryError(explain(error, asking)) from None


def _with_more(found: Any, made: Plan) -> Any:
    """Return a version with more regions and tags. What others have set stays, such as the replicas of a region."""
    from azure.mgmt.compute import models

    publishing = found.publishing_profile or models.GalleryImageVersionPublishingProfile()
    known = list(publishing.target_regions or [])
    names = [folded(text_of(target.name)) for target in known]
    publishing.target_regions = [
        *known,
        *(models.TargetRegion(name=region) for region in made.regions if region not in names),
    ]
    found.publishing_profile, found.tags = publishing, dict(made.tags)
    return found


def wait_for(clients: Clients, name: VersionName, deadline: Deadline, say: Callable[[str, str], object]) -> Version:
    """Wait until the version is replicated to all of its regions.

    :param say: shows the state and the time left.
    :raises InventoryError: the replication failed.
    :raises DeadlineExceeded: it takes longer. It continues in Azure.
    """
    pause = _FIRST_POLL_S
    while True:
        found = read_version(clients, name)
        if found is None:
            raise InventoryError(f"{name} was deleted while it was replicated.")
        failed = [region for region in found.regions if region.state == "failed"]
        if found.state == "failed" or (failed and found.state == "succeeded"):
            reasons = "; ".join(f"{region.name}: {printable(region.details) or 'no reason given'}" for region in failed)
            raise InventoryError(
                f"{name} could not be replicated ({reasons or 'Azure gives no reason'}). Run this again to try again: "
                "the machine need not be captured again."
            )
        if found.state == "succeeded":
            return found
        if not deadline.allows(pause):
            raise DeadlineExceeded(
                f"{name}: {progress_of(found)} after {deadline.seconds:g} seconds. Azure continues. Run this again to "
                "wait for it."
            )
        say(progress_of(found), "")
        deadline.wait(pause)
        pause = min(2 * pause, _LONGEST_POLL_S)


def progress_of(version: Version) -> str:
    """Return how far the replication is, as words."""
    if not version.regions:
        return "replication starts"
    done = [region for region in version.regions if region.state == "completed"]
    rest = ", ".join(f"{region.name} {region.progress} %" for region in version.regions if region not in done)
    return f"replicated to {len(done)} of {len(version.regions)} regions{f' ({rest})' if rest else ''}"
