# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is refused, with its name and the reason, and without any change (Node.refusal checks that for all)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.disks import BlockDevice
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.scratch import facts as facts_module
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.scratch.disks import Refused

from .node import Array, Disk, Node, filesystem, foreign, member

OTHER = "77777777-0000-4000-8000-000000000000"


def other_array(node: Node, *members: str, name: str = "site:128", device: str = "md128") -> None:
    """Create a foreign array."""
    for disk in members:
        node.disks[disk].signatures = [member(OTHER, name)]
    node.arrays[device] = Array(list(members), "clean", len(members), signatures=[foreign("ext4", "old")])


def holds_file_system(node: Node) -> None:
    node.disks["nvme2n1"].signatures = [foreign("ext4", "precious")]


def holds_partition_table(node: Node) -> None:
    node.disks["nvme2n1"].signatures = [{"type": "gpt"}]


def has_partitions(node: Node) -> None:
    node.disks["nvme2n1"].partitions = ["nvme2n1p1"]


def has_foreign_superblock(node: Node) -> None:
    node.disks["nvme2n1"].signatures = [member(OTHER, "site:data")]


def holds_more_than_our_superblock(node: Node) -> None:
    node.disks["nvme2n1"].signatures = [member(), foreign("xfs", "")]


FORCEABLE: dict[str, tuple[Callable[[Node], None], str]] = {
    "file system": (holds_file_system, "contains a file system or other data of type ext4 'precious'"),
    "partition table": (holds_partition_table, "contains a partition table"),
    "partitions": (has_partitions, "has partitions (nvme2n1p1)"),
    "superblock": (has_foreign_superblock, "contains a superblock of the md array 'site:data'"),
    "beside ours": (holds_more_than_our_superblock, "contains a file system or other data of type xfs"),
}


@pytest.mark.parametrize("kind", FORCEABLE)
def test_a_disk_with_foreign_content_is_refused_and_named(node: Node, kind: str) -> None:
    make, words = FORCEABLE[kind]
    make(node)
    node.write()
    assert node.refusal() == f"/dev/nvme2n1 {words}, and is not in force_devices."
    # Forcing another disk does not help.
    assert "/dev/nvme2n1" in node.refusal(force_devices=["/dev/nvme3n1"])


@pytest.mark.parametrize("kind", FORCEABLE)
def test_a_forced_disk_with_foreign_content_is_used(node: Node, kind: str) -> None:
    FORCEABLE[kind][0](node)
    node.write()
    done = node.ensure(force_devices=["/dev/nvme2n1"])
    partition = "/dev/nvme2n1p1 " if kind == "partitions" else ""
    assert node.commands[0] == f"wipefs --all --quiet {partition}/dev/nvme2n1"
    assert len(done.devices) == 8


def test_all_refused_disks_are_named_at_once(node: Node) -> None:
    holds_file_system(node)
    node.disks["nvme5n1"].signatures = [{"type": "dos"}]
    node.write()
    message = node.refusal()
    assert "/dev/nvme2n1 contains a file system" in message
    assert "; /dev/nvme5n1 contains a partition table" in message


def mounted(node: Node) -> None:
    node.disks["nvme2n1"].signatures = [foreign()]
    node.mounts.append(["nvme2n1", "/data", "ext4", "rw"])


def partition_mounted(node: Node) -> None:
    node.disks["nvme2n1"].partitions = ["nvme2n1p1"]
    node.mounts.append(["nvme2n1p1", "/data", "ext4", "rw"])


def swapped_to(node: Node) -> None:
    node.swaps = ["nvme2n1"]


def swapped_to_partition(node: Node) -> None:
    node.disks["nvme2n1"].partitions = ["nvme2n1p1"]
    node.swaps = ["nvme2n1p1"]


def below_swap(node: Node) -> None:
    other_array(node, "nvme2n1", device="md0")
    node.swaps = ["md0"]


def held_by_device_mapper(node: Node) -> None:
    node.disks["nvme2n1"].holders = ["dm-0"]


def member_of_other_array(node: Node) -> None:
    other_array(node, "nvme2n1", "nvme3n1")


def os_disk(node: Node) -> None:
    node.disks["nvme2n1"].partitions = ["nvme2n1p1"]
    node.mounts = [["nvme2n1p1", "/", "ext4", "rw"]]


def below_the_os(node: Node) -> None:
    other_array(node, "nvme2n1", device="md0")
    node.mounts = [["md0", "/", "ext4", "rw"]]


def remote(node: Node) -> None:
    node.disks["nvme2n1"].model = "MSFT NVMe Accelerator v1.0"


UNFORCEABLE: dict[str, tuple[Callable[[Node], None], str]] = {
    "mounted": (mounted, "is mounted on /data"),
    "partition mounted": (partition_mounted, "is mounted on /data"),
    "swap": (swapped_to, "is used as swap"),
    "swap partition": (swapped_to_partition, "is used as swap"),
    "below swap": (below_swap, "is the operating system's disk"),
    "device-mapper": (held_by_device_mapper, "is held by dm-0"),
    "other array": (member_of_other_array, "is a member of md128 (raid0, clean)"),
    "operating system": (os_disk, "is the operating system's disk"),
    "below the operating system": (below_the_os, "is the operating system's disk"),
    "remote disk": (remote, "is a remote, managed disk (model MSFT NVMe Accelerator v1.0)"),
}


@pytest.mark.parametrize("kind", UNFORCEABLE)
def test_a_disk_in_use_is_refused_even_if_forced(node: Node, kind: str) -> None:
    make, words = UNFORCEABLE[kind]
    make(node)
    node.write()
    disks = ["/dev/nvme1n1", "/dev/nvme2n1"]
    assert f"/dev/nvme2n1 {words}" in node.refusal(devices=disks)
    assert f"/dev/nvme2n1 {words}" in node.refusal(devices=disks, force_devices=disks)


def test_a_disk_behind_a_loop_device_is_refused(node: Node) -> None:
    node.loops = {"loop6": "/dev/nvme2n1"}
    node.write()
    assert "/dev/nvme2n1 is held by /dev/loop6" in node.refusal(force_devices=["/dev/nvme2n1"])


def test_a_disk_that_a_program_opened_exclusively_is_refused(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts_module, "_is_busy", lambda _root, device: device.name == "nvme2n1")
    message = node.refusal(force_devices=["/dev/nvme2n1"])
    assert message == "/dev/nvme2n1 is opened exclusively by a program."


def test_members_of_an_array_are_not_opened_to_check_for_use(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    # At boot this could take a member away from udev while it assembles the array.
    node.ours(device="", mounted=False)
    opened: list[str] = []

    def is_busy(_root: Root, device: BlockDevice) -> bool:
        opened.append(device.name)
        return False

    monkeypatch.setattr(facts_module, "_is_busy", is_busy)
    node.ensure(check=True)
    assert opened == []
    node.disks["nvme4n1"].signatures = []
    node.write()
    node.ensure(check=True)
    assert opened == ["nvme4n1"]


def test_an_unreadable_disk_is_refused_even_if_forced(node: Node) -> None:
    # With one unreadable disk, wipefs fails for all; then each disk is read alone.
    all_disks = "wipefs --no-act --json " + " ".join(f"{node.folder}/dev/{name}" for name in node.disks)
    node.failing = {f"{all_disks}": (1, "wipefs: error"), f"wipefs --no-act --json {node.folder}/dev/nvme2n1": (1, "")}
    message = node.refusal(force_devices=["/dev/nvme2n1"])
    assert message.startswith("/dev/nvme2n1 cannot be read")
    assert "nvme3n1" not in message


def test_a_partition_is_refused_as_a_device(node: Node) -> None:
    node.disks["nvme2n1"].partitions = ["nvme2n1p1"]
    node.write()
    assert node.refusal(devices=["/dev/nvme2n1p1"]) == "/dev/nvme2n1p1 is not a whole disk."


def test_a_foreign_array_is_refused_with_a_hint_how_to_use_it(node: Node) -> None:
    other_array(node, *[f"nvme{n}n1" for n in range(8)])
    node.mounts.append(["md128", "/mnt/resource_nvme", "xfs", "rw"])
    node.write()
    message = node.refusal()
    assert "/dev/nvme0n1 is a member of md128 (raid0, clean, mounted on /mnt/resource_nvme)" in message
    assert "set adopt=true to use it as it is" in message


def test_an_array_that_is_mounted_elsewhere_is_not_adopted(node: Node) -> None:
    other_array(node, "nvme0n1", "nvme1n1")
    node.mounts.append(["md128", "/mnt/resource_nvme", "ext4", "rw"])
    node.write()
    assert "set mountpoint to /mnt/resource_nvme" in node.refusal(adopt=True)
    assert node.ensure(adopt=True, mountpoint="/mnt/resource_nvme", owner="root").changed is False


def test_an_array_without_a_file_system_is_not_adopted(node: Node) -> None:
    other_array(node, "nvme0n1", "nvme1n1")
    node.arrays["md128"].signatures = []
    node.write()
    assert "md128 has no file system, and an adopted array is never formatted" in node.refusal(adopt=True)


def test_neither_of_two_arrays_is_adopted(node: Node) -> None:
    other_array(node, "nvme0n1", "nvme1n1")
    other_array(node, "nvme2n1", "nvme3n1", device="md129")
    node.write()
    assert "found several arrays: md128 md129" in node.refusal(adopt=True)


def test_an_array_that_includes_other_disks_is_not_adopted(node: Node) -> None:
    node.disks["nvme1n1"].model = "Samsung SSD"
    other_array(node, "nvme0n1", "nvme1n1")
    node.write()
    assert "/dev/nvme0n1 is a member of md128" in node.refusal(adopt=True)


@pytest.mark.parametrize("state", ["broken", "inactive"])
def test_a_broken_array_is_not_adopted(node: Node, state: str) -> None:
    other_array(node, "nvme0n1", "nvme1n1")
    node.arrays["md128"].state = state
    node.write()
    assert f"/dev/nvme0n1 is a member of md128 (raid0, {state})" in node.refusal(adopt=True)


def test_an_array_with_our_name_and_another_raid_level_is_foreign(node: Node) -> None:
    node.ours(mounted=False)
    node.arrays["md127"].level = "raid5"
    node.write()
    assert "is a member of md127 (raid5, clean)" in node.refusal()


def test_a_mountpoint_that_is_not_empty_is_refused(node: Node) -> None:
    (node.folder / "scratch").mkdir()
    (node.folder / "scratch/file").touch()
    assert node.refusal().startswith("/scratch is not empty, and the mount would hide its content")
    node.ours(mounted=False)
    assert node.refusal().startswith("/scratch is not empty")


def test_a_mountpoint_that_is_a_link_is_refused(node: Node) -> None:
    (node.folder / "scratch").symlink_to("/tmp")
    assert node.refusal() == "/scratch is not a folder. Remove it, or choose another mountpoint."


@pytest.mark.parametrize("state", ["blank", "stopped", "under ours"])
def test_a_mountpoint_with_a_foreign_mount_is_refused(node: Node, state: str) -> None:
    if state == "stopped":
        node.ours(mounted=False)
    if state == "under ours":
        node.ours()
    node.disks["vdb"] = Disk("", "D")
    node.mounts.append(["vdb", "/scratch", "ext4", "rw"])
    node.write()
    assert node.refusal() == "/scratch is a mount of /dev/vdb (ext4). Choose another mountpoint."


def test_a_label_that_is_already_used_is_refused(node: Node) -> None:
    node.disks["vdb"] = Disk("", "D", [foreign("ext4", "hpcaiscratch")])
    node.links = {"by-label/hpcaiscratch": "vdb"}
    node.write()
    assert node.refusal() == "label hpcaiscratch is already used by /dev/vdb. Set another label."
    # udev's link to our own file system, which is about to be recreated, does not count.
    node.links = {"by-label/hpcaiscratch": "nvme2n1"}
    node.disks["nvme2n1"].signatures = [filesystem("a copy of another disk's")]
    node.write()
    assert node.ensure(devices=["/dev/nvme1n1", "/dev/nvme2n1"]).device == "/dev/md125"


@pytest.mark.parametrize(
    ("options", "difference"),
    [
        ({"chunk": "256K"}, "chunk is 512K, not 256K"),
        ({"filesystem": "ext4"}, "filesystem is xfs, not ext4"),
        ({"label": "other"}, "label is 'hpcaiscratch', not 'other'"),
    ],
)
def test_options_that_only_a_rebuild_can_change_are_refused(
    node: Node, options: dict[str, str], difference: str
) -> None:
    node.ours()
    assert f"md127 was made with other options ({difference})" in node.refusal(**options)


def test_a_foreign_file_system_on_our_array_is_refused(node: Node) -> None:
    node.ours(mounted=False)
    node.arrays["md127"].signatures = [foreign("xfs", "mine")]
    node.write()
    assert "md127 is ours, but contains xfs that this module did not make" in node.refusal()


def test_two_complete_arrays_of_ours_are_refused(node: Node) -> None:
    node.ours(4)
    for n in range(4, 8):
        node.disks[f"nvme{n}n1"].signatures = [member(OTHER)]
    node.arrays["md126"] = Array([f"nvme{n}n1" for n in range(4, 8)], "clean", 4, signatures=[filesystem(OTHER)])
    node.write()
    assert node.refusal().startswith("there are 2 complete scratch arrays (md127 on nvme0n1")


@pytest.mark.parametrize("has_scratch", [True, False])
def test_an_unexpected_number_of_disks_is_refused(node: Node, has_scratch: bool) -> None:
    if has_scratch:
        node.ours(8)
    message = node.refusal(expected_count=7)
    assert "there are 8 local NVMe disks where 7 are expected" in message
    assert node.ensure(expected_count=7, on_count_mismatch="ignore").warnings == ()


def test_a_missing_named_device_is_refused(node: Node) -> None:
    names = ["/dev/nvme0n1", "/dev/nvme1n1", "/dev/nvme9n1"]
    message = node.refusal(devices=names)
    assert (
        "there are 2 local NVMe disks where 3 are expected (found: nvme0n1 SN0, nvme1n1 SN1; missing: /dev/nvme9n1)"
        in message
    )


def test_a_scratch_on_other_disks_than_the_named_ones_is_refused(node: Node) -> None:
    node.ours(4)
    message = node.refusal(devices=[f"/dev/nvme{n}n1" for n in range(1, 8)])
    assert message == "the scratch uses nvme0n1, not in devices. Run with state=absent first."


def test_a_named_disk_that_the_scratch_does_not_use_is_refused(node: Node) -> None:
    node.ours(4)
    message = node.refusal(devices=[f"/dev/nvme{n}n1" for n in range(5)])
    assert "there are 4 local NVMe disks where 5 are expected" in message


def test_an_unreadable_member_is_refused_and_the_scratch_is_kept(node: Node) -> None:
    node.ours()
    # Its model is not among the given ones, so that it is no disk to build on.
    node.disks["nvme7n1"].model = "Samsung SSD"
    node.write()
    names = " ".join(f"{node.folder}/dev/{name}" for name in ["md127", *node.disks])
    node.failing = {
        f"wipefs --no-act --json {names}": (1, "wipefs: error"),
        f"wipefs --no-act --json {node.folder}/dev/nvme7n1": (1, "wipefs: error"),
    }
    assert node.refusal() == "/dev/nvme7n1 cannot be read."


def test_having_no_disk_at_all_is_refused(node: Node) -> None:
    message = node.refusal(models=["QEMU NVMe Ctrl"])
    assert (
        "no disk has one of the models QEMU NVMe Ctrl; models found: Microsoft NVMe Direct Disk, Virtual Disk"
        in message
    )
    assert "expected_count=0" in message
    assert node.refusal(devices=["/dev/nvme9n1"]) == "none of the devices exist (/dev/nvme9n1)."


def test_disks_are_refused_if_none_is_expected(node: Node) -> None:
    assert "there are 8 local NVMe disks where 0 are expected" in node.refusal(expected_count=0)


@pytest.mark.parametrize("option", ["owner", "group"])
def test_an_unknown_user_or_group_is_refused_before_any_change(node: Node, option: str) -> None:
    assert node.refusal(**{option: "nobody-of-that-name"}).startswith(f"{option}: there is no")


def test_changing_a_captured_tree_is_refused(node: Node) -> None:
    captured = Root(str(node.folder))
    assert node.ensure(check=True, root=captured).changed
    with pytest.raises(Refused, match=r"is a captured tree and cannot be changed\. Use check mode"):
        node.ensure(root=captured)
    assert node.commands == []


def test_a_disk_whose_content_was_not_captured_is_refused(node: Node) -> None:
    for file in (node.folder / "dev").glob("nvme2n1"):
        file.unlink()
    with pytest.raises(Refused, match="nvme2n1 cannot be read"):
        node.ensure(check=True, root=Root(str(node.folder)))
