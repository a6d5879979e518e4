# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The preflight checks of what machines need: quota, VM sizes, their hardware, and images. Pure.

Nobody can ask Azure whether machines are in stock. A passed check says that Azure sells the size to the subscription.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.verdict import FAIL, PASS, UNKNOWN, WARN
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import UnknownVmSize, VmSize, find_size

from .preflight_facts import Answer, Facts, Image, Sku, Usage, Verdict, folded, number_of
from .preflight_needs import PREMIUM, Machines, Needs

QUOTA, SIZE, HARDWARE, IMAGE = "quota", "size", "hardware", "image"
STOCK = "Whether machines are in stock is not known until they are ordered."
_USAGES = "Microsoft.Compute/locations/{}/usages"
_SKUS = "Microsoft.Compute/skus, location {}"
_TERMS = "Microsoft.MarketplaceOrdering/agreements"
# Azure sells more memory than the operating system reports: by up to 2 % for the sizes in _node/sku.
_LEAST_MEMORY, _MOST_MEMORY = 0.9, 1.01
_LARGEST_EPHEMERAL_GIB = 2040
_REASONS = {
    "notavailableforsubscription": "Azure does not sell it to this subscription",
    "quotaid": "the kind of this subscription (its offer) excludes it",
}


def judge_quota(needs: Needs, facts: Facts) -> Iterator[Verdict]:
    """Compare the quota of each family, of spot, and of the region with what the machines need."""
    source = _USAGES.format(needs.location)
    usages = facts.usages
    if usages.value is None:
        yield usages.unknown(QUOTA, needs.location, source)
        return
    rows = {folded(row.name): row for row in usages.value}
    for quota, members in _quotas(needs, facts).items():
        row = rows.get(folded(quota))
        lacking = [one.vm_size for one, vcpus in members if vcpus is None]
        if lacking:
            summary = f"the vCPUs of {', '.join(dict.fromkeys(lacking))} are not known"
            yield Verdict(QUOTA, quota, UNKNOWN, summary, source=source, action=_by_hand(needs))
        elif row is None or row.used is None or row.limit is None:
            said = "has no row of this name" if row is None else "gives no number for it"
            summary = f"Azure's list {said}, so the quota is not known"
            yield Verdict(QUOTA, quota, UNKNOWN, summary, source=source, action=_by_hand(needs))
        else:
            counted = [(one, int(vcpus or 0)) for one, vcpus in members]
            yield _of_quota(needs, facts, row, counted)


def _quotas(needs: Needs, facts: Facts) -> dict[str, list[tuple[Machines, int | None]]]:
    """Return the machines of each quota, with the vCPUs of one of them, or with 1 where the quota counts machines."""
    quotas: dict[str, list[tuple[Machines, int | None]]] = {}
    for one in needs.machines:
        sku = _sku(facts, one.vm_size)
        vcpus = _vcpus(one, sku)
        if one.spot:
            # Spot machines count against neither their family nor the region's cores.
            quotas.setdefault("lowPriorityCores", []).append((one, vcpus))
        else:
            family = sku.family if sku and sku.family else f"family of {one.vm_size}"
            quotas.setdefault(family, []).append((one, vcpus))
            quotas.setdefault("cores", []).append((one, vcpus))
        quotas.setdefault("virtualMachines", []).append((one, 1))
    return quotas


def _of_quota(needs: Needs, facts: Facts, row: Usage, members: list[tuple[Machines, int]]) -> Verdict:
    existing = facts.existing.value or {}
    free = max(0.0, (row.limit or 0) - (row.used or 0))
    missing = [(one, size, existing.get(one.name.lower(), 0)) for one, size in members]
    most = sum(max(0, one.maximum - there) * size for one, size, there in missing)
    # A set that cannot get one machine is of no use, also if its minimum is 0.
    least = sum(max(0, max(one.minimum, min(1, one.maximum)) - there) * size for one, size, there in missing)
    unit = "machines" if row.name == "virtualMachines" else "vCPUs"
    where = ", ".join(one.label for one, _size in members)
    value = f"{most:,.0f} {unit} more for the largest number of machines"
    limit = f"{row.limit:,.0f}, of which {row.used:,.0f} are used"
    if most <= free:
        summary = f"{free:,.0f} {unit} are free, {most:,.0f} are needed for the largest number of machines"
        return Verdict(QUOTA, row.name, PASS, summary, value, limit, _USAGES.format(needs.location))
    wanted = (row.used or 0) + most
    action = (
        f"Request quota (portal: Quotas, Compute): subscription {needs.subscription}, region {needs.location}, "
        f"'{row.name}', raise the limit from {row.limit:,.0f} to at least {wanted:,.0f} {unit}. "
        f"Or lower the maximum of {where}."
    )
    short = "not even one machine of each fits" if least > free else "the smallest number fits, the largest does not"
    needed = f"{most:,.0f} are needed for the largest number of machines of {where}"
    summary = f"{free:,.0f} {unit} are free, {needed}: {short}"
    if facts.existing.problem:
        # Machines of the stack that exist already need no quota, and it is not known how many those are.
        return facts.existing.unknown(QUOTA, row.name, _USAGES.format(needs.location))
    verdict = FAIL if least > free else WARN
    return Verdict(QUOTA, row.name, verdict, summary, value, limit, _USAGES.format(needs.location), action)


def _by_hand(needs: Needs) -> str:
    return (
        f"Look at the quota by hand: az vm list-usage --location {needs.location} --subscription {needs.subscription}"
    )


def _sku(facts: Facts, vm_size: str) -> Sku | None:
    return next((sku for sku in facts.skus.value or () if sku.name.lower() == vm_size.lower()), None)


def _known_size(one: Machines, described: Mapping[str, Any] | None = None) -> VmSize | None:
    try:
        return find_size(one.vm_size, described)
    except UnknownVmSize:
        return None


def _vcpus(one: Machines, sku: Sku | None) -> int | None:
    vcpus = number_of(sku.capabilities.get("vCPUs")) if sku else None
    if vcpus:
        return int(vcpus)
    size = _known_size(one)
    return size.vcpus if size else None


def judge_sizes(needs: Needs, facts: Facts, described: Mapping[str, Any] | None) -> Iterator[Verdict]:
    """Check that each size is sold to the subscription in its zone, and has the expected hardware.

    :param described: VM sizes described by hand (``hpcai_vm_sizes``).
    """
    source = _SKUS.format(needs.location)
    if facts.skus.value is None:
        yield facts.skus.unknown(SIZE, needs.location, source)
        return
    if not facts.skus.value:
        summary = f"Azure's list of sizes for location {needs.location} is empty"
        action = "Check the spelling of the location: az account list-locations --output table"
        yield Verdict(SIZE, needs.location, FAIL, summary, source=source, action=action)
        return
    done = set()
    for one in needs.machines:
        key = (
            *(one.vm_size.lower(), one.zone, one.spot, one.ephemeral, one.disk_gib),
            *(one.disk_type, one.reserved, one.is_set),
        )
        if key not in done:
            done.add(key)
            sku = _sku(facts, one.vm_size)
            yield _sold(needs, one, sku)
            if sku:
                yield _hardware(needs, one, sku, described)


def _sold(needs: Needs, one: Machines, sku: Sku | None) -> Verdict:
    where = f"{needs.location}{f' zone {one.zone}' if one.zone else ''}"
    about = f"{one.vm_size} in {where}"
    source = _SKUS.format(needs.location)
    if sku is None:
        summary = f"{needs.location} does not have this size"
        action = "Choose another region or size. Regions of a size: az vm list-skus --all --size " + one.vm_size
        return Verdict(SIZE, about, FAIL, summary, source=source, action=action)
    zones = ", ".join(sku.zones) or "none"
    refused = _refused(one, sku)
    if refused:
        action = (
            f"Ask Azure support (quota request, 'region or zone access'): subscription {needs.subscription}, allow "
            f"{one.vm_size} in {where}. Or choose another zone, region or size."
        )
        return Verdict(SIZE, about, FAIL, refused, f"zones {zones}", where, source, action)
    return Verdict(SIZE, about, PASS, f"it is sold to this subscription. {STOCK}", f"zones {zones}", where, source)


def _refused(one: Machines, sku: Sku) -> str:
    """Return why a size is not sold in a zone; empty if it is."""
    for restriction in sku.restrictions:
        reason = _REASONS.get(restriction.reason.lower(), "Azure restricts it")
        code = f" ({restriction.reason})" if restriction.reason else ""
        if restriction.kind.lower() == "location":
            return f"{reason} in this region{code}"
        if restriction.kind.lower() == "zone" and one.zone and one.zone in restriction.zones:
            return f"{reason} in zone {one.zone}{code}"
    if one.zone and one.zone not in sku.zones:
        return f"it is sold in {_zones(sku)} of this region"
    return ""


def _zones(sku: Sku) -> str:
    if not sku.zones:
        return "no zone"
    return f"zone{'s' if len(sku.zones) > 1 else ''} {', '.join(sku.zones)}"


def _hardware(needs: Needs, one: Machines, sku: Sku, described: Mapping[str, Any] | None) -> Verdict:
    """Compare Azure's facts of a size with this collection's, and with what the machines use."""
    about = one.vm_size
    source = f"{_SKUS.format(needs.location)}; _node/sku"
    cannot = _cannot(one, sku.capabilities)
    if cannot:
        summary = "it does not support " + " and ".join(cannot)
        action = f"Choose another VM size for {one.label}, or change its keys in hpcai_stack."
        return Verdict(HARDWARE, about, FAIL, summary, source=source, action=action)
    if one.ephemeral and one.disk_gib is not None:
        most = _ephemeral_gib(sku.capabilities)
        if most is None:
            summary = "Azure does not say how large an ephemeral OS disk may be"
            action = f"Look up the cache and the temporary disk of the size: os_disk_gib of {one.label} must fit."
            return Verdict(HARDWARE, about, UNKNOWN, summary, f"{one.disk_gib} GiB", "", source, action)
        if one.disk_gib > most:
            summary = f"an ephemeral OS disk of {one.disk_gib} GiB is larger than the {most} GiB that the size offers"
            action = f"Set os_disk_gib of {one.label} to at most {most}, or remove ephemeral_os_disk."
            return Verdict(HARDWARE, about, FAIL, summary, f"{one.disk_gib} GiB", f"{most} GiB", source, action)
    if not one.is_set:
        return Verdict(HARDWARE, about, PASS, "it supports what the model uses", source=source)
    size = _known_size(one, described)
    if size is None:
        summary = "this collection does not know the size, so site.yml refuses its nodes"
        action = f"Add it to hpcai_vm_sizes: {{{one.vm_size}: {{{_description(sku.capabilities)}}}}}"
        return Verdict(HARDWARE, about, WARN, summary, source=source, action=action)
    differences = list(_differences(size, sku.capabilities))
    if differences:
        action = (
            "One of the two is wrong. Check a machine of this size with 'hpcnode sku', report the difference, and "
            "describe the size in hpcai_vm_sizes meanwhile."
        )
        return Verdict(HARDWARE, about, WARN, "; ".join(differences), source=source, action=action)
    return Verdict(HARDWARE, about, PASS, "Azure's facts of the size agree with this collection's", source=source)


def _cannot(one: Machines, capabilities: Mapping[str, str]) -> list[str]:
    """Return what the machines use and the size does not support."""
    used = {
        "LowPriorityCapable": (one.spot, "spot"),
        "EphemeralOSDiskSupported": (one.ephemeral, "ephemeral OS disks"),
        "AcceleratedNetworkingEnabled": (one.is_set, "accelerated networking"),
        "CapacityReservationSupported": (one.reserved, "capacity reservations"),
        "PremiumIO": (one.disk_type == PREMIUM and not one.ephemeral, f"disks of type {PREMIUM}"),
    }
    return [words for name, (is_used, words) in used.items() if is_used and _is_false(capabilities.get(name))]


def _ephemeral_gib(capabilities: Mapping[str, str]) -> int | None:
    """Return the largest ephemeral OS disk of a size in the place that Azure uses by default; None if not known.

    That is the cache if there is one, otherwise the temporary disk or the NVMe disks (documentation of DiffDiskSettings
    in Azure's SDK; "Ephemeral OS disks", size requirements).
    """
    for name, unit in (("CachedDiskBytes", 1 << 30), ("MaxResourceVolumeMB", 1024), ("NvmeDiskSizeInMiB", 1024)):
        size = number_of(capabilities.get(name))
        if size:
            return min(int(size) // unit, _LARGEST_EPHEMERAL_GIB)
    return None


def _is_false(text: str | None) -> bool:
    return str(text).strip().lower() == "false"


def _description(capabilities: Mapping[str, str]) -> str:
    vcpus, memory = (number_of(capabilities.get(name)) for name in ("vCPUs", "MemoryGB"))
    facts = {"vcpus": vcpus, "memory_mib": memory and memory * 1024, "gpu_count": number_of(capabilities.get("GPUs"))}
    return ", ".join(f"{name}: {int(value)}" for name, value in facts.items() if value is not None)


def _differences(size: VmSize, capabilities: Mapping[str, str]) -> Iterator[str]:
    for name, ours, words in (("vCPUs", size.vcpus, "vCPUs"), ("GPUs", size.gpu_count, "GPUs")):
        theirs = number_of(capabilities.get(name))
        if ours is not None and theirs is not None and theirs != ours:
            yield f"Azure says {theirs:g} {words}, this collection {ours}"
    sold = number_of(capabilities.get("MemoryGB"))
    reported = size.memory_mib / 1024 if size.memory_mib else None
    if sold and reported and not _LEAST_MEMORY * sold <= reported <= _MOST_MEMORY * sold:
        yield f"Azure says {sold:g} GiB of memory, this collection {reported:.0f} GiB"
    rdma = capabilities.get("RdmaEnabled")
    if rdma is not None and size.hca_count is not None and _is_false(rdma) == bool(size.hca_count):
        theirs_word = "no InfiniBand" if _is_false(rdma) else "InfiniBand"
        yield f"Azure says {theirs_word}, this collection {size.hca_count} InfiniBand adapters"


def judge_images(needs: Needs, facts: Facts) -> Iterator[Verdict]:
    """Check that each image exists in the region, and fits its VM size."""
    done = set()
    for one in needs.machines:
        key = one.image, one.plan, one.vm_size.lower()
        if key in done:
            continue
        done.add(key)
        answer: Answer[Image] = facts.images.get(one.image) or Answer(problem="the form of the image's id is not known")
        terms: Answer[bool] = facts.terms.get(one.plan) or Answer()
        yield _image(needs, one, answer, terms, _sku(facts, one.vm_size))


def _image(needs: Needs, one: Machines, answer: Answer[Image], terms: Answer[bool], sku: Sku | None) -> Verdict:
    about = f"{one.image} for {one.label}"
    source = "the image in Azure"
    image = answer.value
    if answer.problem:
        return answer.unknown(IMAGE, about, source)
    if image is None:
        summary = "this image does not exist, or the identity cannot see it"
        return Verdict(IMAGE, about, FAIL, summary, source=source, action=_look_for(needs, one.image))
    if image.regions is not None and folded(needs.location) not in image.regions:
        summary = f"the image has no copy in {needs.location}"
        action = f"Replicate it: az sig image-version update --ids {one.image} --add publishingProfile.targetRegions "
        action += f"name={needs.location}"
        return Verdict(IMAGE, about, FAIL, summary, ", ".join(sorted(image.regions)), needs.location, source, action)
    # Azure also requires the plan for an image that was made from one with a plan, which a managed image does not show,
    # and a gallery only if its image definition states it: Azure/azure-rest-api-specs#22133.
    perhaps = bool(one.plan) and not image.plan and one.image.startswith("/")
    if image.plan.lower() != one.plan.lower() and not perhaps:
        summary = f"the image has {_plan_words(image.plan)}, and hpcai_stack states {_plan_words(one.plan)}"
        action = f"Set plan: {image.plan} next to this image." if image.plan else "Remove plan next to this image."
        return Verdict(IMAGE, about, FAIL, summary, image.plan, one.plan, source, action)
    if one.plan and terms.problem:
        return terms.unknown(IMAGE, f"{about}, terms of its plan", _TERMS)
    if one.plan and not terms.value:
        publisher, product, name = one.plan.split(":")
        summary = f"the terms of its marketplace plan {one.plan} are not accepted in this subscription"
        action = (
            f"Read and accept them: az vm image terms accept --subscription {needs.subscription} "
            f"--publisher {publisher} --offer {product} --plan {name}"
        )
        return Verdict(IMAGE, about, FAIL, summary, "not accepted", "accepted", _TERMS, action)
    generations = sku.capabilities.get("HyperVGenerations", "") if sku else ""
    architecture = sku.capabilities.get("CpuArchitectureType", "") if sku else ""
    for theirs, wanted, words in (
        (image.generation, generations, "generation"),
        (image.architecture, architecture, "architecture"),
    ):
        if theirs and wanted and theirs.lower() not in wanted.lower().replace(" ", "").split(","):
            summary = f"the image has {words} {theirs}, {one.vm_size} starts {wanted} only"
            action = f"Choose an image of {words} {wanted} for {one.label}."
            return Verdict(IMAGE, about, FAIL, summary, theirs, wanted, source, action)
    if not image.generation:
        summary = "the image exists, but Azure does not say its generation"
        action = f"Make sure that {one.vm_size} can start it ({generations or 'generation not known'})."
        return Verdict(IMAGE, about, UNKNOWN, summary, "", generations, source, action)
    if perhaps:
        summary = f"hpcai_stack states {_plan_words(one.plan)}, and this image does not show whether it has one"
        action = "Keep plan if the image was made from a marketplace image with this plan. Otherwise remove it."
        return Verdict(IMAGE, about, WARN, summary, "", one.plan, source, action)
    return Verdict(
        IMAGE, about, PASS, f"it exists, generation {image.generation}", image.generation, generations, source
    )


def _plan_words(plan: str) -> str:
    return f"the marketplace plan {plan}" if plan else "no marketplace plan"


def _look_for(needs: Needs, image: str) -> str:
    if image.startswith("/"):
        return f"Check the id, and that the identity may read it: az resource show --ids {image}"
    publisher, offer, sku, _version = image.split(":")
    return (
        f"Choose an existing version: az vm image list --all --location {needs.location} --publisher {publisher} "
        f"--offer {offer} --sku {sku}"
    )
