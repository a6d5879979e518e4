# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removing the scratch, and only stopping it."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.scratch.ensure import ABSENT, DOWN

from .node import Array, Disk, Node, filesystem, foreign, member

EIGHT = [f"nvme{n}n1" for n in range(8)]
PATHS = " ".join(f"/dev/{name}" for name in EIGHT)


def test_absent_removes_everything_that_is_ours(node: Node) -> None:
    node.ours()
    foreseen = node.ensure(ABSENT, check=True)
    assert node.commands == []
    done = node.ensure(ABSENT)
    assert node.commands == [
        "umount /scratch",
        "wipefs --all --quiet /dev/md127",
        "mdadm --stop /dev/md127",
        f"mdadm --zero-superblock {PATHS}",
    ]
    assert foreseen.steps == done.steps
    assert done.after == {}
    assert done.before["mountpoint"] == "/scratch"
    assert (done.device, done.devices, done.filesystem, done.mountpoint) == (None, (), None, None)
    assert not node.root.exists("/run/hpcai/scratch.json")
    node.commands.clear()
    again = node.ensure(ABSENT)
    assert (again.changed, node.commands, again.before) == (False, [], {})


def test_absent_finds_members_without_an_array(node: Node) -> None:
    node.ours(device="", mounted=False)
    node.disks["nvme5n1"].signatures = []
    node.write()
    node.ensure(ABSENT)
    assert node.commands == [f"mdadm --zero-superblock {PATHS.replace('/dev/nvme5n1 ', '')}"]


def test_absent_removes_the_file_system_of_a_single_disk(node: Node) -> None:
    node.ensure(devices=["/dev/nvme3n1"])
    node.commands.clear()
    node.ensure(ABSENT)
    assert node.commands == ["umount /scratch", "wipefs --all --quiet /dev/nvme3n1"]


def test_absent_unmounts_everywhere_the_last_mount_first(node: Node) -> None:
    node.ours()
    node.mounts.append(["md127", "/srv/fast", "xfs", "rw"])
    node.write()
    node.ensure(ABSENT)
    assert node.commands[:2] == ["umount /srv/fast", "umount /scratch"]


def test_absent_leaves_a_member_with_foreign_data_alone(node: Node) -> None:
    node.ours(device="", mounted=False)
    node.disks["nvme5n1"].signatures.append(foreign("xfs", "mine"))
    node.write()
    done = node.ensure(ABSENT)
    assert "/dev/nvme5n1" not in node.commands[0]
    assert done.warnings == ("/dev/nvme5n1 also contains foreign data, and was left unchanged",)


def test_absent_leaves_foreign_arrays_and_file_systems_alone(node: Node) -> None:
    for name in EIGHT[:2]:
        node.disks[name].signatures = [member("77777777-0000-4000-8000-000000000000", "site:128")]
    node.arrays["md128"] = Array(EIGHT[:2], "clean", 2, signatures=[foreign("ext4", "old")])
    node.disks["nvme5n1"].signatures = [foreign()]
    node.mounts.append(["md128", "/scratch", "ext4", "rw"])
    node.write()
    done = node.ensure(ABSENT)
    assert (done.changed, node.commands) == (False, [])
    assert done.warnings == ("/scratch is a mount of /dev/md128, which this module did not make. It stays",)


@pytest.mark.parametrize("goal", [ABSENT, DOWN])
@pytest.mark.parametrize("adopt", [True, False])
def test_an_adopted_array_is_only_unmounted(node: Node, goal: str, adopt: bool) -> None:
    for name in EIGHT:
        node.disks[name].signatures = [member("77777777-0000-4000-8000-000000000000", "site:128")]
    node.arrays["md128"] = Array(EIGHT, "clean", 8, signatures=[foreign("ext4", "old")])
    node.write()
    node.ensure(adopt=True)
    node.commands.clear()
    # The option adopt may be missing now; the record of the mount shows that it was adopted.
    node.ensure(goal, adopt=adopt)
    assert node.commands == ["umount /scratch"]
    assert node.arrays["md128"].signatures


def test_down_stops_without_wiping_and_up_finds_it_again(node: Node) -> None:
    node.ours()
    done = node.ensure(DOWN)
    assert node.commands == ["umount /scratch", "mdadm --stop /dev/md127"]
    assert done.changed
    assert node.ensure(DOWN).changed is False
    node.commands.clear()
    up = node.ensure()
    assert [words.split()[0] for words in node.commands] == ["mdadm", "mount"]
    assert up.device == "/dev/md126"


def test_down_only_unmounts_a_single_disk(node: Node) -> None:
    node.disks["nvme3n1"].signatures = [filesystem("SN3")]
    node.mounts.append(["nvme3n1", "/scratch", "xfs", "rw"])
    node.write()
    node.ensure(DOWN)
    assert node.commands == ["umount /scratch"]
    assert node.ensure(DOWN).changed is False


def test_absent_on_a_node_without_disks_changes_nothing(node: Node) -> None:
    node.disks = {"sda": Disk("Virtual Disk", "OS", [{"type": "gpt"}], ["sda1"])}
    node.write()
    assert node.ensure(ABSENT).changed is False
