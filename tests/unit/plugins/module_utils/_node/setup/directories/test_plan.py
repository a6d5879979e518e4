# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which disk counts as the temporary disk."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.disks import read_block_devices
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.mounts import read_mounts
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.directories.plan import (
    TemporaryDisk,
    configured_mounts,
    find_temporary_disk,
)

from .machine import Machine

CLOUD_INIT = "/dev/disk/cloud/azure_resource-part1 /mnt auto defaults,nofail,comment=cloudconfig 0 2\n"


def found(machine: Machine, *known_mounts: str) -> TemporaryDisk | None:
    """Find the temporary disk."""
    return find_temporary_disk(machine.root, read_mounts(machine.root), read_block_devices(machine.root), known_mounts)


def where(machine: Machine, *known_mounts: str) -> tuple[str, str | None] | None:
    """The device of the temporary disk, and where it is mounted."""
    disk = found(machine, *known_mounts)
    return (disk.device, disk.mount.mountpoint if disk.mount else None) if disk else None


@pytest.mark.parametrize("mountpoint", ["/mnt", "/mnt/resource", "/elsewhere"])
def test_udevs_link_identifies_it_wherever_it_is_mounted(machine: Machine, mountpoint: str) -> None:
    machine.temporary_disk(mountpoint)
    machine.mount("/other", number="8:33", source="/dev/sdc1")
    assert where(machine) == ("/dev/sdb", mountpoint)


def test_cloud_inits_link_to_the_partition_identifies_it_too(machine: Machine) -> None:
    machine.temporary_disk(linked=False)
    link = machine.path("dev/disk/cloud/azure_resource")
    link.parent.mkdir(parents=True)
    link.symlink_to("../../sdb1")
    assert where(machine) == ("/dev/sdb", "/mnt")


def test_a_bind_mount_of_its_folder_does_not_count_as_its_mount(machine: Machine) -> None:
    machine.temporary_disk("")
    machine.mount("/scratch", top="/hpcai-scratch")
    assert where(machine) == ("/dev/sdb", None)


@pytest.mark.parametrize("folder", ["/dev/disk/azure", "/dev/disk/cloud"])
def test_a_data_disk_on_mnt_is_not_used_if_azures_udev_rules_exist(machine: Machine, folder: str) -> None:
    machine.mount("/mnt", number="8:33", source="/dev/sdc1")
    assert where(machine) == ("/dev/sdc1", "/mnt")
    machine.path(folder).mkdir(parents=True)
    assert where(machine) is None


def test_in_a_container_a_local_mount_at_mnt_is_used(machine: Machine) -> None:
    assert where(machine) is None
    machine.mount("/mnt", number="0:52", source="/dev/vda1", top="/var/lib/simulated")
    assert where(machine) == ("", "/mnt")


@pytest.mark.parametrize("kind", ["nfs4", "tmpfs", "cifs", "lustre", "fuse.blobfuse2"])
def test_a_file_system_that_is_not_local_is_not_used(machine: Machine, kind: str) -> None:
    machine.mount("/mnt", number="0:60", source="server:/export", kind=kind)
    assert where(machine) is None
    # Unless the settings name it.
    assert where(machine, "/mnt") == ("", "/mnt")


def test_mnt_without_a_mount_is_never_used(machine: Machine) -> None:
    machine.path("mnt").mkdir()
    assert where(machine) is None
    assert where(machine, "/mnt") is None


@pytest.mark.parametrize(
    ("file", "text", "awaited"),
    [
        ("etc/fstab", CLOUD_INIT, "cloud-init (/etc/fstab) on /mnt"),
        ("etc/fstab", f"#{CLOUD_INIT}", ""),
        ("etc/fstab", "/dev/sdc1 /data ext4 defaults 0 2\n", ""),
        ("etc/waagent.conf", "ResourceDisk.Format=y\nResourceDisk.MountPoint=/mnt/resource\n", "on /mnt/resource"),
        ("etc/waagent.conf", "ResourceDisk.Format=n\nResourceDisk.MountPoint=/mnt/resource\n", ""),
        ("etc/waagent.conf", "#ResourceDisk.Format=y\n", ""),
    ],
)
def test_the_service_that_will_mount_it_is_named(machine: Machine, file: str, text: str, awaited: str) -> None:
    machine.temporary_disk("")
    machine.file(file, text)
    disk = found(machine)
    assert disk is not None
    assert disk.mount is None
    assert disk.awaited.endswith(awaited)
    assert bool(disk.awaited) == bool(awaited)


def test_the_azure_agents_default_mountpoint_is_mnt_resource(machine: Machine) -> None:
    machine.file("etc/waagent.conf", " ResourceDisk.Format = y # as on RHEL\n")
    assert list(configured_mounts(machine.root)) == ["/mnt/resource"]
