# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Block devices and arrays out of a captured sysfs."""

from __future__ import annotations

import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.disks import (
    Array,
    Partition,
    by_number,
    disk_of,
    disks_below,
    read_block_devices,
    resolve,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

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
    """The tree."""
    for path, text in FILES.items():
        file = tmp_path / "sys/block" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n", encoding="utf-8")
    return Root(str(tmp_path))


def test_devices_that_have_a_size_in_the_order_of_their_numbers(root: Root) -> None:
    devices = read_block_devices(root)
    assert list(devices) == ["dm-0", "loop6", "md126", "md127", "nvme0n1", "nvme9n1", "nvme10n1", "sda"]
    assert [name for name, device in devices.items() if device.is_disk] == [
        "loop6",
        "nvme0n1",
        "nvme9n1",
        "nvme10n1",
        "sda",
    ]


def test_a_disk(root: Root) -> None:
    disk = read_block_devices(root)["nvme0n1"]
    assert (disk.path, disk.number, disk.size_bytes) == ("/dev/nvme0n1", "259:0", 1875385008 * 512)
    assert (disk.model, disk.serial) == ("Microsoft NVMe Direct Disk", "68e8d42a7ed4e5f90002")
    assert (disk.partitions, disk.holders, disk.array) == ((), (), None)


@pytest.mark.parametrize(("name", "node"), [("nvme0n1", 3), ("nvme10n1", 1), ("nvme9n1", None), ("sda", None)])
def test_the_numa_node_of_its_controller(root: Root, name: str, node: int | None) -> None:
    assert read_block_devices(root)[name].numa_node == node


def test_partitions_and_what_is_stacked_on_them(root: Root) -> None:
    disk = read_block_devices(root)["sda"]
    assert disk.partitions == (Partition("sda1", "8:1", ("dm-0",)), Partition("sda2", ""), Partition("sda10", ""))


def test_arrays(root: Root) -> None:
    devices = read_block_devices(root)
    assert devices["md127"].array == Array("raid0", 2, 524288, "clean", ("nvme9n1", "nvme10n1"))
    assert devices["md126"].array == Array("", 0, 0, "inactive", ("sdc",))
    assert devices["nvme9n1"].holders == ("md127",)


def test_a_loop_device_tells_what_it_shows(root: Root) -> None:
    assert read_block_devices(root)["loop6"].backing_file == "/dev/nvme0n1"


def test_the_disks_below_what_is_stacked(root: Root) -> None:
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


def test_links_below_dev_are_followed_and_stay_below_it(root: Root, tmp_path: pathlib.Path) -> None:
    (tmp_path / "dev/disk/by-id").mkdir(parents=True)
    (tmp_path / "dev/nvme0n1").touch()
    (tmp_path / "elsewhere").touch()
    (tmp_path / "dev/disk/by-id/one").symlink_to("../../nvme0n1")
    (tmp_path / "dev/disk/by-id/out").symlink_to("../../../elsewhere")
    (tmp_path / "dev/disk/by-id/dead").symlink_to("../../nvme7n1")
    paths = ("/dev/nvme0n1", "/dev/disk/by-id/one", "/dev/disk/by-id/out", "/dev/disk/by-id/dead", "/dev/nvme7n1")
    assert [resolve(root, path) for path in paths] == ["nvme0n1", "nvme0n1", None, None, None]
