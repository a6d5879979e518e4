# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Block devices and arrays, read from a captured sysfs."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.disks import (
    Array,
    Partition,
    Signature,
    Superblock,
    by_number,
    disk_of,
    disks_below,
    parse_size,
    read_block_devices,
    read_signatures,
    read_superblocks,
    resolve,
    with_dashes,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

FILES = {
    "nvme0n1/size": "1875385008",
    "nvme0n1/dev": "259:0",
    "nvme0n1/device/model": "Microsoft NVMe Direct Disk              ",
    "nvme0n1/device/serial": "68e8d42a7ed4e5f90002",
    "nvme0n1/device/numa_node": "3",
    "nvme10n1/size": "8",
    "nvme10n1/device/device/numa_node": "1",
    "nvme9n1/size": "8",
    "nvme9n1/device/numa_node": "-1",
    # A path of a multipath disk, a loop device without a file, an array that was stopped.
    "nvme0c0n1/size": "8",
    "loop0/size": "0",
    "md5/size": "0",
    "md5/md/array_state": "clear",
    "md127/size": "16",
    "md127/dev": "9:127",
    "md127/md/array_state": "clean",
    "md127/md/level": "raid0",
    "md127/md/raid_disks": "2",
    "md127/md/chunk_size": "524288",
    "md127/slaves/nvme9n1/x": "",
    "md127/slaves/nvme10n1/x": "",
    "nvme9n1/holders/md127/x": "",
    # udev began to assemble it, and the kernel never started it.
    "md126/size": "0",
    "md126/md/array_state": "inactive",
    "md126/md/level": "",
    "md126/md/raid_disks": "0",
    "md126/md/dev-sdc/state": "spare",
    "sda/size": "100",
    "sda/sda1/partition": "1",
    "sda/sda1/dev": "8:1",
    "sda/sda1/holders/dm-0/x": "",
    "sda/sda10/partition": "10",
    "sda/sda2/partition": "2",
    "dm-0/size": "50",
    "dm-0/dm/name": "vg-root",
    "dm-0/slaves/sda1/x": "",
    "loop6/size": "8",
    "loop6/loop/backing_file": "/dev/nvme0n1",
}


@pytest.fixture
def root(tmp_path: pathlib.Path) -> Root:
    """A captured tree with these devices."""
    for path, text in FILES.items():
        file = tmp_path / "sys/block" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n", encoding="utf-8")
    return Root(str(tmp_path))


def test_devices_with_a_size_are_listed_in_numeric_order(root: Root) -> None:
    devices = read_block_devices(root)
    assert list(devices) == ["dm-0", "loop6", "md126", "md127", "nvme0n1", "nvme9n1", "nvme10n1", "sda"]
    assert [name for name, device in devices.items() if device.is_disk] == [
        "loop6",
        "nvme0n1",
        "nvme9n1",
        "nvme10n1",
        "sda",
    ]


def test_a_disk_has_its_size_model_and_serial(root: Root) -> None:
    disk = read_block_devices(root)["nvme0n1"]
    assert (disk.path, disk.number, disk.size_bytes) == ("/dev/nvme0n1", "259:0", 1875385008 * 512)
    assert (disk.model, disk.serial) == ("Microsoft NVMe Direct Disk", "68e8d42a7ed4e5f90002")
    assert (disk.partitions, disk.holders, disk.array) == ((), (), None)


@pytest.mark.parametrize(("name", "node"), [("nvme0n1", 3), ("nvme10n1", 1), ("nvme9n1", None), ("sda", None)])
def test_a_disk_has_the_numa_node_of_its_controller(root: Root, name: str, node: int | None) -> None:
    assert read_block_devices(root)[name].numa_node == node


def test_partitions_are_listed_with_the_devices_on_them(root: Root) -> None:
    disk = read_block_devices(root)["sda"]
    assert disk.partitions == (Partition("sda1", "8:1", ("dm-0",)), Partition("sda2", ""), Partition("sda10", ""))


def test_arrays_are_read_with_their_state_and_members(root: Root) -> None:
    devices = read_block_devices(root)
    assert devices["md127"].array == Array("raid0", 2, 524288, "clean", ("nvme9n1", "nvme10n1"))
    assert devices["md126"].array == Array("", 0, 0, "inactive", ("sdc",))
    assert devices["nvme9n1"].holders == ("md127",)


def test_a_loop_device_has_its_backing_file(root: Root) -> None:
    assert read_block_devices(root)["loop6"].backing_file == "/dev/nvme0n1"


def test_the_disks_below_stacked_devices_are_found(root: Root) -> None:
    devices = read_block_devices(root)
    assert disks_below(devices, "dm-0") == {"sda"}
    assert disks_below(devices, "sda1") == {"sda"}
    assert disks_below(devices, "md127") == {"nvme9n1", "nvme10n1"}
    assert disks_below(devices, "nowhere") == set()
    assert disk_of(devices, "sda10") == "sda"


def test_names_sort_by_their_numbers() -> None:
    assert sorted(["nvme10n1", "nvme9n1", "nvme9n1p2", "sda"], key=by_number) == [
        "nvme9n1",
        "nvme9n1p2",
        "nvme10n1",
        "sda",
    ]


def test_links_are_followed_within_dev_only(root: Root, tmp_path: pathlib.Path) -> None:
    (tmp_path / "dev/disk/by-id").mkdir(parents=True)
    (tmp_path / "dev/nvme0n1").touch()
    (tmp_path / "elsewhere").touch()
    (tmp_path / "dev/disk/by-id/one").symlink_to("../../nvme0n1")
    (tmp_path / "dev/disk/by-id/out").symlink_to("../../../elsewhere")
    (tmp_path / "dev/disk/by-id/dead").symlink_to("../../nvme7n1")
    paths = ("/dev/nvme0n1", "/dev/disk/by-id/one", "/dev/disk/by-id/out", "/dev/disk/by-id/dead", "/dev/nvme7n1")
    assert [resolve(root, path) for path in paths] == ["nvme0n1", "nvme0n1", None, None, None]


RECORDED = pathlib.Path(__file__).with_name("recorded")
WIPEFS = (RECORDED / "wipefs-2.38.1.json").read_text(encoding="utf-8")
EXAMINE = (RECORDED / "mdadm-4.2-examine.txt").read_text(encoding="utf-8")
NAMES = [f"nvme{n}n1" for n in range(5)]
UUID = "68706361-0000-4000-8000-00000000abcd"


@pytest.fixture
def signatures_root(tmp_path: pathlib.Path) -> Root:
    """A captured tree with the content of five disks."""
    for name in NAMES:
        (tmp_path / "dev").mkdir(exist_ok=True)
        (tmp_path / "dev" / name).touch()
    return Root(str(tmp_path))


def test_signatures_of_all_disks_are_read_by_one_command(signatures_root: Root) -> None:
    commands = []

    def run(command: Sequence[str]) -> Result:
        commands.append(list(command))
        return Result(tuple(command), 0, WIPEFS, "")

    found = read_signatures(signatures_root, NAMES, run)
    assert commands == [["wipefs", "--no-act", "--json", *(signatures_root.at(f"/dev/{name}") for name in NAMES)]]
    assert found["nvme0n1"] == found["nvme1n1"] == (Signature("linux_raid_member", "any:hpcai-scratch", UUID),)
    assert found["nvme2n1"] == (Signature("xfs", "precious", "99999999-0000-4000-8000-000000000000"),)
    assert [signature.type for signature in found["nvme3n1"] or ()] == ["gpt", "gpt", "PMBR"]
    assert found["nvme4n1"] == ()


def test_an_unreadable_disk_does_not_count_as_blank(signatures_root: Root) -> None:
    def run(command: Sequence[str]) -> Result:
        broken = signatures_root.at("/dev/nvme1n1") in command
        stderr = "wipefs: error: /dev/nvme1n1: probing initialization failed: Permission denied"
        return Result(tuple(command), 1 if broken else 0, "" if broken else '{"signatures": []}', stderr)

    found = read_signatures(signatures_root, NAMES, run)
    assert found == {**dict.fromkeys(NAMES, ()), "nvme1n1": None}


def test_a_disk_with_read_errors_does_not_count_as_blank(signatures_root: Root, tmp_path: pathlib.Path) -> None:
    """wipefs 2.38.1 ignores errors of read(2): it succeeds without a signature."""
    (tmp_path / "dev/nvme1n1").unlink()
    # Reading the address 0 of the own memory fails with EIO.
    (tmp_path / "dev/nvme1n1").symlink_to("/proc/self/mem")
    found = read_signatures(signatures_root, NAMES, lambda command: Result(tuple(command), 0, "", ""))
    assert found == {**dict.fromkeys(NAMES, ()), "nvme1n1": None}


def test_a_disk_that_was_not_captured_is_unknown_without_a_command(signatures_root: Root) -> None:
    def run(_command: Sequence[str]) -> Result:
        raise AssertionError

    assert read_signatures(signatures_root, ["nvme9n1"], run) == {"nvme9n1": None}


@pytest.mark.parametrize("stdout", ["", '{\n   "signatures": [\n\n   ]\n}\n'])
def test_disks_without_signatures_are_blank(signatures_root: Root, stdout: str) -> None:
    answer = read_signatures(signatures_root, NAMES[:2], lambda command: Result(tuple(command), 0, stdout, ""))
    assert answer == {"nvme0n1": (), "nvme1n1": ()}


def test_superblocks_of_members_are_read() -> None:
    answer = read_superblocks(Root("/"), NAMES, lambda command: Result(tuple(command), 1, EXAMINE, ""))
    assert answer == {
        "nvme0n1": Superblock(UUID, "raid0", 2, 524288, 0),
        "nvme1n1": Superblock(UUID, "raid0", 2, 524288, 1),
    }


def test_without_members_no_superblock_is_read() -> None:
    def run(_command: Sequence[str]) -> Result:
        raise AssertionError

    assert read_superblocks(Root("/"), [], run) == {}


def test_a_spare_has_no_role() -> None:
    spare = EXAMINE.replace("Active device 1", "spare")
    answer = read_superblocks(Root("/"), NAMES, lambda command: Result(tuple(command), 1, spare, ""))
    assert answer["nvme1n1"].role is None


def test_uuids_of_mdadm_are_converted_to_the_common_format() -> None:
    assert with_dashes("68706361:00004000:80000000:0000ABCD") == UUID
    assert with_dashes(UUID) == UUID


def test_sizes_are_parsed_and_invalid_ones_refused() -> None:
    assert [parse_size(text) for text in ("512K", "64 M", "4096", "1GiB")] == [524288, 67108864, 4096, 1073741824]
    for text in ("", "K", "512X", "-4K", "1.5K"):
        with pytest.raises(ValueError, match="not a size"):
            parse_size(text)
