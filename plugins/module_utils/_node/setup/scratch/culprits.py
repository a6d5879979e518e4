# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Who made what is in the way: services of Azure's images that set up local disks themselves, and the cure."""

from __future__ import annotations

from collections.abc import Iterable

from .facts import Facts

EPHEMERAL_SERVICE = "azure-ephemeral-disk-setup.service"
# azure-vm-utils, ephemeral-disk-setup: name of its array, label of its file system, mark of its lines in fstab.
_EPHEMERAL_ARRAY, _EPHEMERAL_LABEL = "azure-ephemeral-md", "AzureEphmDsk"
_EPHEMERAL_MARK = "comment=azure-ephemeral-disk-setup"
_CLOUD_INIT_MARK = "comment=cloudconfig"


def culprit(facts: Facts, name: str) -> str:
    """Return who set up a disk, what holds it, or what is mounted of it, and what to do; empty where nobody is known.

    The answer goes on where a reason ends.
    """
    names = [name]
    for found in names:
        device = facts.devices.get(found)
        parts = device.partitions if device else ()
        holders = [*(device.holders if device else ()), *(holder for part in parts for holder in part.holders)]
        names += [holder for holder in holders if holder not in names]
    labels = {mark.label.rpartition(":")[2] for found in names for mark in facts.signatures.get(found) or ()}
    mounts = [mount.mountpoint for found in names for mount in facts.mounts_of(found)]
    return _named(facts, mounts, bool(labels & {_EPHEMERAL_ARRAY, _EPHEMERAL_LABEL}))


def mount_culprit(facts: Facts, mountpoint: str) -> str:
    """Return likewise who mounts something there at each boot."""
    return _named(facts, [mountpoint], False)


def _named(facts: Facts, mountpoints: Iterable[str], ephemeral: bool) -> str:
    marks = {option for path in mountpoints for option in facts.fstab.get(path, ())}
    if ephemeral or _EPHEMERAL_MARK in marks:
        return (
            f"; {EPHEMERAL_SERVICE} did that: switch it off (scratch_mask_azure_ephemeral=true), remove its line from "
            f"/etc/fstab, unmount and stop what it made, and force the disks once"
        )
    if _CLOUD_INIT_MARK in marks:
        return (
            "; cloud-init mounts it, by /etc/fstab: take it out of 'mounts' and 'fs_setup' of the cloud-config, remove "
            "that line and unmount it"
        )
    return ""
