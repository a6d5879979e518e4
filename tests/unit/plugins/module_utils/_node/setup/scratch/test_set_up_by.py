# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A refusal names the service that set up what is in the way of the scratch, with the remedy."""

from __future__ import annotations

import pytest

from .node import Array, Node, foreign, member


def test_the_service_of_azures_images_is_named_with_the_remedy(node: Node) -> None:
    eight = [f"nvme{n}n1" for n in range(8)]
    for name in eight:
        node.disks[name].signatures = [member("aaaaaaaa-2222-4333-8444-555555555555", "host:azure-ephemeral-md")]
    made = [{"type": "ext4", "uuid": "99999999-0000-4000-8000-000000000000", "label": "AzureEphmDsk"}]
    node.arrays["md127"] = Array(eight, "clean", 8, signatures=made)
    node.mounts.append(["md127", "/mnt", "ext4", "rw"])
    node.write()
    message = node.refusal()
    assert "/dev/nvme0n1 is a member of md127 (raid0, clean, mounted on /mnt)" in message
    assert "azure-ephemeral-disk-setup.service did that: disable it (scratch_mask_azure_ephemeral=true)" in message


def test_its_stopped_array_is_recognised_by_name_with_any_host(node: Node) -> None:
    for number in range(8):
        mark = member("aaaaaaaa-2222-4333-8444-555555555555", "host:azure-ephemeral-md")
        node.disks[f"nvme{number}n1"].signatures = [mark]
    node.write()
    message = node.refusal()
    # Said once, not for each disk.
    assert message.count("azure-ephemeral-disk-setup.service did that") == 1
    assert message.count("a superblock of the md array 'host:azure-ephemeral-md'") == 8


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        ("comment=azure-ephemeral-disk-setup", "azure-ephemeral-disk-setup.service did that"),
        ("comment=cloudconfig", "cloud-init mounts it through /etc/fstab"),
        ("comment=mine", ""),
    ],
)
def test_the_service_that_mounts_a_disk_at_boot_is_named(node: Node, mark: str, words: str) -> None:
    node.disks["nvme3n1"].signatures = [foreign()]
    node.mounts.append(["nvme3n1", "/mnt", "ext4", "rw"])
    node.write()
    file = node.folder / "etc/fstab"
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"# /dev/a /mnt b comment=none 0 0\n/dev/disk/by-label/x /mnt auto defaults,nofail,{mark} 0 2\n")
    message = node.refusal()
    assert f"/dev/nvme3n1 is mounted on /mnt{'; ' + words if words else '.'}" in message


def test_a_mount_of_cloud_init_at_the_mountpoint_is_named(node: Node) -> None:
    node.disks["sda"].partitions.append("sda2")
    node.mounts.append(["sda2", "/scratch", "ext4", "rw"])
    node.write()
    assert node.refusal().endswith("/scratch is a mount of /dev/sda2 (ext4). Choose another mountpoint.")
    file = node.folder / "etc/fstab"
    file.parent.mkdir(exist_ok=True)
    file.write_text("/dev/sda2 /scratch ext4 defaults,comment=cloudconfig 0 2\n")
    assert "Choose another mountpoint; cloud-init mounts it through /etc/fstab" in node.refusal()
