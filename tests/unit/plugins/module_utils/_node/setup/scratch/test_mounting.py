# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The mount and its folder: what counts as unchanged, and what is changed in place."""

from __future__ import annotations

import json
import os

import pytest

from .node import Node


@pytest.fixture
def mounted(node: Node) -> Node:
    """A scratch that was mounted before, without a record of its options."""
    node.ours()
    return node


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["defaults"],
        ["noatime", "rw", "exec", "dev", "suid", "async"],
        ["noatime", "nofail", "_netdev", "x-systemd.requires=a.service", "comment=ours"],
    ],
)
def test_options_that_are_active_or_invisible_change_nothing(mounted: Node, options: list[str]) -> None:
    assert mounted.ensure(mount_options=options).changed is False


@pytest.mark.parametrize("options", [["nodev"], ["noatime", "nosuid"], ["ro"]])
def test_other_options_are_applied_by_one_remount(mounted: Node, options: list[str]) -> None:
    done = mounted.ensure(mount_options=options)
    assert mounted.commands == [f"mount -o remount,{','.join(options)} /dev/md127 /scratch"]
    assert done.before["mount_options"] == ["rw", "noatime"]
    assert done.after["mount_options"] == options
    assert mounted.ensure(mount_options=options).changed is False


def test_an_option_that_is_no_longer_wanted_is_removed(mounted: Node) -> None:
    mounted.ensure(mount_options=["noatime", "nodev"])
    mounted.commands.clear()
    assert mounted.ensure(mount_options=["noatime"]).changed
    assert mounted.commands == ["mount -o remount,noatime /dev/md127 /scratch"]


def test_an_option_that_the_kernel_never_lists_is_applied_once(mounted: Node) -> None:
    assert mounted.ensure(mount_options=["noatime", "largeio"]).changed
    mounted.mounts[-1][3] = "rw,noatime"
    mounted.write()
    assert mounted.ensure(mount_options=["noatime", "largeio"]).changed is False


def test_a_file_system_that_went_read_only_is_made_writable(mounted: Node) -> None:
    mounted.ensure(mount_options=["noatime", "nodev"])
    mounted.mounts[-1][3] = "ro,noatime,nodev"
    mounted.write()
    mounted.commands.clear()
    assert mounted.ensure(mount_options=["noatime", "nodev"]).changed
    assert mounted.commands[0].startswith("mount -o remount,")


def test_a_record_of_another_device_is_ignored(mounted: Node) -> None:
    record = mounted.folder / "run/hpcai/scratch.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"number": "9:1", "mount_options": ["nodev"]}))
    assert mounted.ensure().changed is False
    record.write_text("no json")
    assert mounted.ensure().changed is False


def test_wrong_permissions_are_corrected_and_nothing_else(mounted: Node) -> None:
    os.chmod(mounted.root.at("/scratch"), 0o755)
    done = mounted.ensure()
    assert done.steps == (f"make /scratch {os.getuid()}:{os.getgid()} 1777",)
    assert (done.before["mode"], done.after["mode"]) == ("0755", "1777")
    assert mounted.commands == []
    assert os.stat(mounted.root.at("/scratch")).st_mode & 0o7777 == 0o1777
    assert mounted.ensure().changed is False


def test_another_owner_is_part_of_the_diff(mounted: Node) -> None:
    foreseen = mounted.ensure(check=True, owner="65534")
    assert foreseen.steps == (f"make /scratch 65534:{os.getgid()} 1777",)
    assert (foreseen.before["owner"], foreseen.after["owner"]) == (str(os.getuid()), "65534")
