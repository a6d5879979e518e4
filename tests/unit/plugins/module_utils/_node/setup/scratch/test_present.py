# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The states in which the scratch can be found, and what is done in each."""

from __future__ import annotations

import errno
import json
import os

import pytest

from .node import UUID, Array, Disk, Node, filesystem, foreign, member

EIGHT = [f"nvme{n}n1" for n in range(8)]
PATHS = " ".join(f"/dev/{name}" for name in EIGHT)


def verbs(node: Node) -> list[str]:
    """The programs that changed something, with mdadm's mode."""
    return [" ".join(words[: 2 if words[0] == "mdadm" else 1]) for words in (c.split() for c in node.commands)]


def test_blank_disks_become_a_mounted_array(node: Node) -> None:
    done = node.ensure(expected_count=8)
    assert done.changed
    created, made, mounted = node.commands
    uuid = node.disks["nvme0n1"].signatures[0]["uuid"]
    assert created == (
        "mdadm --create /dev/md/hpcai-scratch --run --name=hpcai-scratch --homehost=any --metadata=1.2 "
        f"--uuid={uuid.replace('-', '')} --level=0 --chunk=512K --raid-devices=8 {PATHS}"
    )
    assert made == (
        f"mkfs.xfs -f -q -K -L hpcaiscratch -m uuid={filesystem(uuid)['uuid']} -d su=524288,sw=8 -l su=32768 /dev/md125"
    )
    assert mounted == "mount -t xfs -o noatime /dev/md125 /scratch"
    assert (done.device, done.filesystem, done.mountpoint) == ("/dev/md125", "xfs", "/scratch")
    assert done.devices == tuple(PATHS.split())
    assert done.size_bytes == node.root.number("/sys/block/md125/size") * 512  # type: ignore[operator]
    assert os.stat(node.root.at("/scratch")).st_mode & 0o7777 == 0o1777


def test_a_healthy_mounted_scratch_is_left_alone_and_read_once(node: Node) -> None:
    node.ours()
    done = node.ensure(expected_count=8)
    assert (done.changed, done.steps, done.warnings, node.commands) == (False, (), (), [])
    assert done.before == done.after
    assert (done.device, len(done.devices)) == ("/dev/md127", 8)
    assert [words.split()[0] for words in node.looked] == ["wipefs"]


def test_a_second_run_after_each_change_changes_nothing(node: Node) -> None:
    node.ensure(mount_options=["noatime", "nofail", "x-systemd.idle-timeout=1"], mode="0750")
    node.commands.clear()
    again = node.ensure(mount_options=["noatime", "nofail", "x-systemd.idle-timeout=1"], mode="0750")
    assert (again.changed, node.commands) == (False, [])


def test_check_mode_reports_the_same_steps_and_changes_nothing(node: Node) -> None:
    foreseen = node.ensure(check=True)
    assert node.commands == []
    assert not node.root.exists("/scratch")
    done = node.ensure()
    assert foreseen.steps == done.steps
    assert foreseen.changed
    assert {**foreseen.after, "device": "md125"} == done.after
    assert foreseen.before == done.before == {}
    assert (foreseen.device, foreseen.devices) == (None, done.devices)


@pytest.mark.parametrize("name", ["hpcai-scratch", "any:hpcai-scratch", "oldhost:hpcai-scratch"])
def test_our_array_is_mounted_with_any_number_and_host_name(node: Node, name: str) -> None:
    node.ours(mounted=False, device="md42")
    for disk in EIGHT:
        node.disks[disk].signatures = [member(name=name)]
    done = node.ensure()
    assert node.commands == ["mount -t xfs -o noatime /dev/md42 /scratch"]
    assert done.steps[0] == "mount md42 on /scratch"


def test_a_stopped_array_is_assembled_and_mounted(node: Node) -> None:
    node.ours(device="", mounted=False)
    done = node.ensure()
    assert node.commands == [
        f"mdadm --assemble /dev/md/hpcai-scratch --run --uuid={UUID.replace('-', '')} {PATHS}",
        "mount -t xfs -o noatime /dev/md126 /scratch",
    ]
    assert done.steps == (
        f"assemble {' '.join(EIGHT)}",
        "mount md126 on /scratch",
        f"make /scratch {os.getuid()}:{os.getgid()} 1777",
    )


def test_an_array_that_udev_left_inactive_is_assembled_again(node: Node) -> None:
    node.ours(mounted=False, state="inactive")
    node.arrays["md127"].level, node.arrays["md127"].raid_disks = "", 0
    node.write()
    node.ensure()
    assert verbs(node) == ["mdadm --stop", "mdadm --assemble", "mount"]


def test_the_array_is_rebuilt_if_a_member_is_blank(node: Node) -> None:
    node.ours(device="", mounted=False)
    node.disks["nvme5n1"].signatures = []
    node.write()
    done = node.ensure(expected_count=8)
    assert verbs(node) == ["wipefs", "mdadm --create", "mkfs.xfs", "mount"]
    # The blank disk has nothing to wipe.
    assert "/dev/nvme5n1" not in node.commands[0]
    assert len(done.devices) == 8


@pytest.mark.parametrize("missing", [True, False])
def test_a_running_array_is_rebuilt_if_a_member_was_wiped_or_removed(node: Node, missing: bool) -> None:
    # The kernel notices neither before it needs the member.
    node.ours()
    if missing:
        del node.disks["nvme5n1"]
    else:
        node.disks["nvme5n1"].signatures = []
    node.write()
    done = node.ensure(expected_count=8 - missing)
    assert verbs(node) == ["umount", "mdadm --stop", "wipefs", "mdadm --create", "mkfs.xfs", "mount"]
    assert len(done.devices) == 8 - missing


def test_the_array_is_rebuilt_if_all_disks_are_blank_after_a_redeploy(node: Node) -> None:
    node.ours()
    node.arrays.clear()
    node.mounts.pop()
    for disk in EIGHT:
        node.disks[disk].signatures = []
    node.write()
    node.ensure()
    assert verbs(node) == ["mdadm --create", "mkfs.xfs", "mount"]


def test_the_array_is_rebuilt_from_fewer_disks_if_that_is_allowed(node: Node) -> None:
    node.ours(state="broken")
    node.arrays["md127"].members.remove("nvme7n1")
    del node.disks["nvme7n1"]
    node.write()
    done = node.ensure(expected_count=8, on_count_mismatch="warn")
    assert node.commands[0] == "umount /scratch"
    assert verbs(node) == ["umount", "mdadm --stop", "wipefs", "mdadm --create", "mkfs.xfs", "mount"]
    present = ", ".join(f"nvme{n}n1 SN{n}" for n in range(7))
    assert done.warnings == (
        f"there are 7 local NVMe disks where 8 are expected (found: {present})",
        "the array had 8 disks, and is made again from the 7 that are left",
    )
    assert len(done.devices) == 7


def test_without_an_expected_number_a_missing_disk_destroys_no_data(node: Node) -> None:
    node.ours(device="", mounted=False)
    late = node.disks.pop("nvme7n1")
    node.write()
    assert node.refusal().startswith("there are 7 local NVMe disks where 8 are expected (found: nvme0n1 SN0")
    allowed = node.ensure(on_count_mismatch="warn", check=True)
    assert allowed.warnings[-1] == "the array had 8 disks, and is made again from the 7 that are left"
    node.disks["nvme7n1"] = late
    node.write()
    node.ensure()
    assert verbs(node) == ["mdadm --assemble", "mount"]


def test_an_inactive_array_with_missing_members_is_rebuilt(node: Node) -> None:
    node.ours(mounted=False, state="inactive")
    node.arrays["md127"].members.remove("nvme3n1")
    node.disks["nvme3n1"].signatures = []
    node.write()
    node.ensure()
    assert verbs(node) == ["mdadm --stop", "wipefs", "mdadm --create", "mkfs.xfs", "mount"]


def test_a_file_system_that_is_missing_after_a_power_cut_is_created(node: Node) -> None:
    node.ours(mounted=False)
    node.arrays["md127"].signatures = []
    node.write()
    node.ensure()
    assert verbs(node) == ["mkfs.xfs", "mount"]
    assert filesystem()["uuid"] in node.commands[0]


def test_a_file_system_that_a_power_cut_left_incomplete_is_recreated(node: Node) -> None:
    node.ours(mounted=False)
    # mkfs.xfs clears the byte sb_inprogress of the superblock last of all.
    half = bytearray(b"XFSB".ljust(512, b"\0"))
    half[126] = 1
    node.contents["md127"] = bytes(half)
    node.write()
    assert node.ensure(check=True).steps[0] == "make xfs hpcaiscratch on md127"
    half[126] = 0
    node.contents["md127"] = bytes(half)
    node.write()
    assert node.ensure(check=True).steps[0] == "mount md127 on /scratch"


def test_a_file_system_of_an_earlier_array_is_replaced(node: Node) -> None:
    # Power was cut between mdadm and mkfs: the file system of an earlier array on these disks is visible.
    node.ours(mounted=False)
    node.arrays["md127"].signatures = [filesystem("an earlier array")]
    node.write()
    node.ensure()
    assert verbs(node) == ["mkfs.xfs", "mount"]


def test_our_damaged_file_system_is_recreated_and_reported(node: Node) -> None:
    node.ours(mounted=False)
    stderr = "mount: /scratch: mount(2) system call failed: Structure needs cleaning.\n       dmesg(1) may have more"
    node.failing, node.mount_errno = {"mount -t xfs": (32, stderr)}, errno.EUCLEAN
    real = node._mkfs

    def mkfs(words: list[str]) -> None:
        node.failing = {}
        real(words)

    node._mkfs = mkfs  # type: ignore[method-assign]
    done = node.ensure()
    assert verbs(node) == ["mount", "mount(2)", "mkfs.xfs", "mount"]
    assert "the file system on md127 was damaged" in done.steps[0]
    assert "Structure needs cleaning" in done.steps[0]


def test_one_disk_needs_no_array(node: Node) -> None:
    done = node.ensure(devices=["/dev/nvme3n1"])
    assert node.commands == [
        f"mkfs.xfs -f -q -K -L hpcaiscratch -m uuid={filesystem('SN3')['uuid']} /dev/nvme3n1",
        "mount -t xfs -o noatime /dev/nvme3n1 /scratch",
    ]
    assert (done.device, done.devices) == ("/dev/nvme3n1", ("/dev/nvme3n1",))
    node.commands.clear()
    assert node.ensure(devices=["/dev/nvme3n1"]).changed is False
    # After a reboot it is recognised by its UUID only.
    node.mounts.pop()
    os.unlink(node.root.at("/run/hpcai/scratch.json"))
    node.write()
    assert node.ensure(devices=["/dev/nvme3n1"]).steps[0] == "mount nvme3n1 on /scratch"


def test_a_copy_of_another_disks_file_system_is_replaced(node: Node) -> None:
    node.disks["nvme3n1"].signatures = [filesystem("SN of another disk")]
    node.write()
    node.ensure(devices=["/dev/nvme3n1"])
    assert verbs(node) == ["wipefs", "mkfs.xfs", "mount"]


def test_the_scratch_moves_to_another_mountpoint_with_its_content(node: Node) -> None:
    node.ours()
    node.ensure(mountpoint="/mnt/fast")
    assert node.commands == ["umount /scratch", "mount -t xfs -o noatime /dev/md127 /mnt/fast"]


def test_a_bind_mount_from_the_scratch_does_not_count_as_its_mount(node: Node) -> None:
    node.ours()
    bound = f"99 1 {node.number('md127')} /enroot /var/lib/enroot rw shared:1 - xfs /dev/md127 rw\n"
    mountinfo = node.folder / "proc/self/mountinfo"
    mountinfo.write_text(mountinfo.read_text() + bound)
    assert node.ensure().changed is False
    mountinfo.write_text(bound)
    assert node.ensure(check=True).steps[0] == "mount md127 on /scratch"


def test_ext4_gets_its_stripes_too(node: Node) -> None:
    node.ensure(filesystem="ext4", chunk="256K", label="a-longer-label")
    uuid = node.disks["nvme0n1"].signatures[0]["uuid"]
    assert node.commands[1] == (
        f"mkfs.ext4 -F -q -b 4096 -m 0 -L a-longer-label -U {filesystem(uuid)['uuid']} "
        "-E nodiscard,lazy_itable_init=1,lazy_journal_init=1,stride=64,stripe_width=512 /dev/md125"
    )


def test_a_small_chunk_limits_the_logs_stripe_unit(node: Node) -> None:
    node.ensure(chunk="16K")
    assert "-d su=16384,sw=8 -l su=16384 " in node.commands[1]


def test_only_disks_of_the_given_models_are_used(node: Node) -> None:
    node.disks["nvme1n1"].model = "Microsoft NVMe Direct Disk v2"
    node.disks["nvme6n1"].model = "MSFT NVMe Accelerator v1.0"
    node.disks["nvme7n1"].model = "Samsung SSD"
    node.disks["nvme7n1"].signatures = [foreign()]
    node.write()
    assert [path[5:] for path in node.ensure().devices] == EIGHT[:6]


def test_named_devices_are_used_with_any_model_and_any_link(node: Node) -> None:
    node.disks["vdb"] = Disk("", "V1")
    node.disks["vdc"] = Disk("", "V2")
    node.links = {"by-id/virtio-V1": "vdb"}
    node.write()
    done = node.ensure(devices=["/dev/disk/by-id/virtio-V1", "/dev/vdc"])
    assert done.devices == ("/dev/vdb", "/dev/vdc")


def test_nothing_is_done_if_no_disk_is_expected_and_none_exists(node: Node) -> None:
    node.disks = {"sda": node.disks["sda"]}
    node.write()
    done = node.ensure(expected_count=0)
    assert (done.changed, done.device, done.devices, done.filesystem) == (False, None, (), None)


def test_a_healthy_array_is_adopted_by_mounting_it_only(node: Node) -> None:
    for disk in EIGHT:
        node.disks[disk].signatures = [member("77777777-0000-4000-8000-000000000000", "oldsite:128")]
    node.arrays["md128"] = Array(EIGHT, "clean", 8, 65536, signatures=[foreign("ext4", "old")])
    node.write()
    done = node.ensure(adopt=True)
    assert node.commands == ["mount -t ext4 -o noatime /dev/md128 /scratch"]
    assert (done.adopted, done.filesystem, done.device) == (True, "ext4", "/dev/md128")
    record = json.loads(node.root.text("/run/hpcai/scratch.json") or "")
    assert record["adopted"] == "md128"
    node.commands.clear()
    again = node.ensure(adopt=True, mode="0700")
    assert (again.changed, node.commands) == (False, [])


def test_our_array_is_built_if_the_adopted_arrays_disks_are_blank(node: Node) -> None:
    assert node.ensure(adopt=True).adopted is False
    assert verbs(node) == ["mdadm --create", "mkfs.xfs", "mount"]


def test_disks_that_a_healthy_scratch_does_not_use_give_a_warning(node: Node) -> None:
    node.ours(6)
    done = node.ensure()
    assert done.changed is False
    assert done.warnings == (
        "nvme6n1 nvme7n1 are not part of the scratch. To add them, run state=absent, then state=present",
    )
