# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mounts, swap, and the processes that use a mount."""

from __future__ import annotations

import errno
import os
import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.disks import BlockDevice, Partition
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.mounts import (
    device_of,
    mount_error,
    processes_below,
    read_mounts,
    read_swaps,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

MOUNTINFO = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw,errors=remount-ro
30 22 0:26 /@ /mnt/btrfs rw - btrfs /dev/nvme1n1 rw,space_cache=v2
31 22 9:127 / /scratch rw,noatime shared:9 master:3 - xfs /dev/md127 rw,attr2,sunit=1024
32 22 253:0 / /with\040space rw - xfs /dev/mapper/vg-data rw
33 22 0:5 / /proc rw - proc proc rw
34 22 9:127 /enroot /var/lib/enroot ro shared:9 - xfs /dev/md127 rw
35 22 0:99 / /no-separator rw proc
""".lstrip()
DEVICES = {
    "sda": BlockDevice("sda", "8:0", 1, partitions=(Partition("sda1", "8:1"), Partition("sda2", "8:2"))),
    "nvme1n1": BlockDevice("nvme1n1", "259:1", 1),
    "md127": BlockDevice("md127", "9:127", 1),
    "dm-0": BlockDevice("dm-0", "253:0", 1, mapped_name="vg-data"),
}


def tree(folder: pathlib.Path, **files: str) -> Root:
    """Create files below /proc; two underscores in a name mean a slash."""
    for name, text in files.items():
        file = folder / "proc" / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
    return Root(str(folder))


@pytest.mark.parametrize("character", ["\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_a_user_cannot_hide_a_mount_by_its_name(tmp_path: pathlib.Path, character: str) -> None:
    line = f"36 22 0:77 / /x{character}y rw - fuse.z a{character}b rw,user_id=4001\n"
    [mount] = read_mounts(tree(tmp_path, self__mountinfo=line))
    assert (mount.mountpoint, mount.source) == (f"/x{character}y", f"a{character}b")


def test_mounts_are_read_with_options_and_escaped_names(tmp_path: pathlib.Path) -> None:
    mounts = read_mounts(tree(tmp_path, self__mountinfo=MOUNTINFO))
    assert [mount.mountpoint for mount in mounts] == [
        "/",
        "/mnt/btrfs",
        "/scratch",
        "/with space",
        "/proc",
        "/var/lib/enroot",
    ]
    scratch = mounts[2]
    assert (scratch.number, scratch.root, scratch.filesystem, scratch.source) == ("9:127", "/", "xfs", "/dev/md127")
    assert scratch.options == ("rw", "noatime", "attr2", "sunit=1024")
    assert mounts[5].root == "/enroot"


def test_a_bind_mount_of_a_removed_folder_has_its_path(tmp_path: pathlib.Path) -> None:
    """As Linux 6.1 writes it. Regression: such a bind mount of a job was not recognised, and stayed."""
    line = "82 230 9:127 /beeond/17/files//deleted /beeond rw,nosuid,nodev - xfs /dev/md127 rw\n"
    (mount,) = read_mounts(tree(tmp_path, self__mountinfo=line))
    assert (mount.root, mount.mountpoint) == ("/beeond/17/files", "/beeond")


def test_the_device_of_a_mount_is_found_by_number_or_name(tmp_path: pathlib.Path) -> None:
    mounts = read_mounts(tree(tmp_path, self__mountinfo=MOUNTINFO))
    # The source of / does not name the device (/dev/root), and the number of btrfs is its own.
    assert [device_of(mount, DEVICES) for mount in mounts] == ["sda1", "nvme1n1", "md127", "dm-0", None, "md127"]


def test_a_mapped_device_is_found_by_its_name(tmp_path: pathlib.Path) -> None:
    root = tree(tmp_path, self__mountinfo="32 22 0:50 / /b rw - btrfs /dev/mapper/vg-data rw\n")
    assert device_of(read_mounts(root)[0], DEVICES) == "dm-0"


def test_swap_devices_are_found(tmp_path: pathlib.Path) -> None:
    lines = "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n/swap\\040file file 1 0 -3\n"
    assert read_swaps(tree(tmp_path, swaps=lines), DEVICES) == {"sda2"}
    assert read_swaps(Root(str(tmp_path / "nowhere")), DEVICES) == set()


def test_processes_with_a_folder_or_file_below_a_mount_are_found(tmp_path: pathlib.Path) -> None:
    root = tree(tmp_path, **{f"{pid}__comm": f"name{pid}\n" for pid in range(1, 9)})
    for pid in range(1, 9):
        (tmp_path / f"proc/{pid}/fd").mkdir()
    (tmp_path / "proc/1/cwd").symlink_to("/scratch")
    (tmp_path / "proc/2/fd/7").symlink_to("/scratch/data (deleted)")
    (tmp_path / "proc/3/cwd").symlink_to("/scratch-of-another")
    (tmp_path / "proc/4/exe").symlink_to("/scratch/bin/a.out")
    assert processes_below(root, "/scratch") == ["name1 (1)", "name2 (2)", "name4 (4)"]
    assert processes_below(root, "/scratch", most=2) == ["name1 (1)", "name2 (2)"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may mount")
def test_a_mount_returns_the_kernels_error(tmp_path: pathlib.Path) -> None:
    assert mount_error("tmpfs", "none", str(tmp_path)) == errno.EPERM


@pytest.mark.skipif(os.geteuid() != 0, reason="only root reaches the file system")
def test_a_mount_as_root_returns_the_kernels_error(tmp_path: pathlib.Path) -> None:
    assert mount_error("no-such-type", "none", str(tmp_path / "missing")) in (errno.ENOENT, errno.EPERM)
