# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the directories are created: on NVMe disks, on a fallback, or nowhere."""

from __future__ import annotations

import json
import os
import pathlib
import re
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import run
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.lock import only_one
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.directories import ensure as core
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.scratch.disks import Refused
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import UnknownVmSize

from .machine import ME, Machine
from .test_plan import CLOUD_INIT

JOBS = {"path": "jobs", "mode": "1777"}
OWNERS = f"{ME['owner']}:{ME['group']}"


def refusal(machine: Machine, *folders: dict[str, Any], **options: Any) -> str:
    """Return the refusal, which is the same with and without check mode, and changes nothing."""
    words = []
    for check in (True, False):
        with pytest.raises(Refused) as refused:
            machine.ensure(*folders, check=check, **options)
        words.append(str(refused.value))
    assert machine.commands == []
    assert words[0] == words[1]
    return words[0]


def scratch_settings(machine: Machine, **options: Any) -> None:
    """Write the settings of nvme_raid."""
    machine.file("etc/hpcai/scratch.json", json.dumps({"schema": 1, **ME, **options}))


# On a mount: the usual case.


def test_directories_are_created_on_an_existing_mount(machine: Machine) -> None:
    machine.mount("/scratch", number="9:127", source="/dev/md127", kind="xfs")
    foreseen = machine.ensure(JOBS, {"path": "data/a"}, check=True)
    assert not machine.path("/scratch/jobs").exists()
    done = machine.ensure(JOBS, {"path": "data/a"})
    assert done.actions == foreseen.actions
    assert done.actions == (f"make /scratch/data/a {OWNERS} 0755", f"make /scratch/jobs {OWNERS} 1777")
    assert (done.kind, done.warnings, done.problems) == ("mount", (), ())
    assert done.size_bytes > done.free_bytes > 0
    assert machine.path("/scratch/jobs").stat().st_mode & 0o7777 == 0o1777
    assert machine.ensure(JOBS, {"path": "data/a"}).actions == ()
    assert machine.commands == []


def test_the_vm_size_does_not_matter_if_something_is_mounted(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.mount("/scratch", number="0:60", source="server:/fast", kind="nfs4")
    monkeypatch.setattr(core, "expected_disks", None)
    assert machine.ensure(JOBS).kind == "mount"


def test_a_failure_of_one_directory_does_not_affect_the_others(machine: Machine) -> None:
    machine.mount("/scratch", number="9:127", source="/dev/md127", kind="xfs")
    done = machine.ensure({"path": "a", "owner": "nobody-here"}, JOBS, {"path": "z"})
    assert done.problems == ("/scratch/a: owner: there is no user 'nobody-here' on this machine.",)
    assert len(done.actions) == 2
    assert machine.path("/scratch/z").is_dir()
    assert not machine.path("/scratch/a").exists()


@pytest.mark.parametrize(
    ("files", "words"), [(0, "/scratch is full: "), (100, "/scratch has almost no free inodes: 0")]
)
def test_a_full_disk_is_reported_even_if_nothing_is_created(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, files: int, words: str
) -> None:
    machine.mount("/scratch", number="9:127", source="/dev/md127", kind="xfs")
    free = 90 if files else 0
    space = os.statvfs_result((4096, 4096, 100, free, free, files, 0, 0, 0, 255))
    monkeypatch.setattr(core.os, "fstatvfs", lambda _handle: space)
    [warning] = machine.ensure().warnings
    assert words in warning
    assert f"{free * 4096} bytes" in warning


# Missing local disks.


def test_a_missing_raid_is_never_replaced_by_the_systems_disk(machine: Machine) -> None:
    machine.temporary_disk()
    with pytest.raises(Refused, match="/scratch is not mounted, although 8 local NVMe disks are expected here"):
        machine.ensure(JOBS, nvme_count=8)
    assert not machine.path("/scratch").exists()
    assert machine.commands == []


def test_check_mode_predicts_directories_on_disks_that_are_not_mounted(machine: Machine) -> None:
    foreseen = machine.ensure(JOBS, check=True, nvme_count=8)
    assert (foreseen.kind, foreseen.actions) == (None, (f"make /scratch/jobs {OWNERS} 1777",))
    assert "check mode cannot predict whether this run would mount them" in foreseen.warnings[0]


@pytest.mark.parametrize(("options", "count"), [({"expected_count": 2}, 2), ({"devices": ["/dev/nvme0n1"]}, 1)])
def test_the_settings_of_the_disks_override_the_vm_size(machine: Machine, options: dict[str, Any], count: int) -> None:
    scratch_settings(machine, **options)
    with pytest.raises(Refused, match=f"{count} local NVMe disks are expected here"):
        machine.ensure(JOBS, nvme_count=0)
    scratch_settings(machine, expected_count=0)
    assert machine.ensure(JOBS, nvme_count=8).kind == "directory"


def test_an_unknown_vm_size_does_not_count_as_one_without_disks(machine: Machine) -> None:
    machine.file("etc/hpcai/node.json", '{"schema": 1, "vm_size": "Standard_Q1"}')
    with pytest.raises(UnknownVmSize, match="Standard_Q1"):
        machine.ensure(JOBS, nvme_count=None)
    described = {"Standard_Q1": {"vcpus": 4, "memory_mib": 16384}}
    machine.file("etc/hpcai/node.json", json.dumps({"schema": 1, "vm_size": "Standard_Q1", "vm_sizes": described}))
    done = machine.ensure(JOBS, nvme_count=None)
    assert done.kind == "directory"
    assert "hpcai_vm_sizes has no nvme_count for Standard_Q1: 0" in done.warnings[0]


# Fallbacks.


def test_a_folder_on_the_temporary_disk_is_a_fallback_with_a_warning(machine: Machine) -> None:
    machine.temporary_disk()
    foreseen = machine.ensure(JOBS, check=True)
    assert (machine.commands, machine.path("/mnt/hpcai-scratch").exists()) == ([], False)
    done = machine.ensure(JOBS)
    assert done.kind == "temporary_disk"
    assert done.actions[:2] == (
        f"make /mnt/hpcai-scratch {OWNERS} 1777",
        "mount /mnt/hpcai-scratch on /scratch",
    )
    assert done.actions == foreseen.actions
    assert [re.sub(r"proc/\d+/fd/\d+", "proc/PID/fd/N", command) for command in machine.commands] == [
        "mount -c --bind /proc/PID/fd/N /scratch"
    ]
    assert machine.path("/mnt/hpcai-scratch").stat().st_mode & 0o7777 == 0o1777
    [warning] = done.warnings
    assert warning.startswith("/scratch is not on NVMe disks: there are no local NVMe disks here (the VM size: 0), ")
    assert "a slow folder on the temporary disk /dev/sdb, " in warning
    assert " GB are free" in warning
    again = machine.ensure(JOBS)
    assert (again.kind, again.actions, again.warnings[0].split(",")[0]) == (
        "temporary_disk",
        (),
        warning.split(",")[0],
    )


def test_a_folder_on_the_systems_disk_is_the_last_fallback(machine: Machine) -> None:
    foreseen = machine.ensure(JOBS, check=True)
    assert not machine.path("/scratch").exists()
    done = machine.ensure(JOBS)
    assert done.kind == "directory"
    assert done.actions == (f"make /scratch {OWNERS} 1777", f"make /scratch/jobs {OWNERS} 1777")
    assert done.actions == foreseen.actions
    assert "a slow folder on the operating system's disk (there is no temporary disk)" in done.warnings[0]
    assert machine.ensure(JOBS).actions == ()
    machine.path("/scratch").chmod(0o700)
    assert machine.ensure(JOBS, check=True).actions == (f"make /scratch {OWNERS} 1777",)
    assert machine.path("/scratch").stat().st_mode & 0o7777 == 0o700
    assert machine.ensure(JOBS).actions == (f"make /scratch {OWNERS} 1777",)


def test_mnt_without_a_mount_is_left_alone(machine: Machine) -> None:
    machine.path("/mnt").mkdir()
    assert machine.ensure(JOBS).kind == "directory"
    assert os.listdir(machine.path("/mnt")) == []
    assert "fallback is temporary_disk; there is no temporary disk" in refusal_of(machine, fallback=["temporary_disk"])


def refusal_of(machine: Machine, **options: Any) -> str:
    """Return the refusal."""
    with pytest.raises(Refused) as refused:
        machine.ensure(JOBS, **options)
    return str(refused.value)


def test_only_allowed_fallbacks_are_used(machine: Machine) -> None:
    machine.temporary_disk()
    assert "no fallback is allowed" in refusal(machine, JOBS, fallback=[])
    assert not machine.path("/scratch").exists()
    # Only the allowed ones, in their order.
    assert machine.ensure(JOBS, check=True, fallback=["directory", "temporary_disk"]).kind == "directory"
    assert machine.ensure(JOBS, fallback=["temporary_disk"]).kind == "temporary_disk"


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ("unmounted", "the temporary disk /dev/sdb is not mounted; cloud-init or the Azure agent must mount it"),
        ("awaited", "is not mounted yet by cloud-init (/etc/fstab) on /mnt"),
        ("read only", "the temporary disk at /mnt is mounted read-only"),
        ("open", "every user may rename files in /mnt"),
        ("filled", "/scratch contains files, which a mount would hide"),
    ],
)
def test_an_unusable_temporary_disk_is_named_with_the_reason(machine: Machine, trouble: str, words: str) -> None:
    machine.temporary_disk("" if trouble in ("unmounted", "awaited") else "/mnt")
    if trouble == "awaited":
        machine.file("etc/fstab", CLOUD_INIT)
    elif trouble == "read only":
        machine.mounts[-1] = (*machine.mounts[-1][:5], "ro")
        machine.mounts[-1] = ("8:17", "/", "/mnt", "ext4", "/dev/sdb1", "ro")
        text = machine.path("proc/self/mountinfo")
        machine.write()
        text.write_text(text.read_text().replace("/dev/sdb1 rw", "/dev/sdb1 ro"))
    elif trouble == "open":
        machine.path("/mnt").chmod(0o777)
    elif trouble == "filled":
        machine.file("scratch/file", "")
    assert words in refusal_of(machine, fallback=["temporary_disk"])
    assert words in machine.ensure(JOBS).warnings[0]
    assert machine.commands == []


def test_it_waits_until_the_temporary_disk_is_mounted(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.temporary_disk("")
    machine.file("etc/fstab", CLOUD_INIT)
    naps: list[float] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            machine.mount("/mnt")

    monkeypatch.setattr(run.time, "sleep", sleep)
    assert machine.ensure(JOBS, wait_s=60).kind == "temporary_disk"
    assert len(naps) == 3


def test_a_users_link_on_the_temporary_disk_is_not_used(machine: Machine, tmp_path: pathlib.Path) -> None:
    machine.temporary_disk()
    machine.path("/mnt").chmod(0o1777)
    machine.path("/mnt/hpcai-scratch").symlink_to(tmp_path)
    before = tmp_path.stat().st_mode
    done = machine.ensure(JOBS)
    assert f"/mnt/hpcai-scratch was a symbolic link of user {os.getuid()}: it was removed" in done.warnings
    assert machine.path("/mnt/hpcai-scratch").is_dir()
    assert tmp_path.stat().st_mode == before


def test_a_failed_mount_is_an_error(machine: Machine) -> None:
    machine.temporary_disk()
    machine.answer = (32, "mount: /scratch: permission denied.")
    with pytest.raises(CommandFailed, match="cannot be mounted on /scratch: mount: /scratch: permission denied"):
        machine.ensure(JOBS)


def test_a_folder_on_the_temporary_disk_does_not_count_as_nvme(machine: Machine) -> None:
    machine.temporary_disk()
    machine.ensure(JOBS)
    machine.commands.clear()
    assert "is a folder on the temporary disk, although 8 local NVMe disks are expected" in refusal(
        machine, JOBS, nvme_count=8
    )


# Mountpoints that hide files, or are not folders.


def test_a_mountpoint_below_a_mount_of_cloud_init_is_refused(machine: Machine) -> None:
    machine.file("etc/fstab", CLOUD_INIT)
    assert "is below /mnt, where cloud-init (/etc/fstab) mounts a disk" in refusal(
        machine, JOBS, mountpoint="/mnt/scratch"
    )
    # An existing mount there is kept.
    machine.mount("/mnt/scratch", number="9:127", source="/dev/md127", kind="xfs")
    assert (
        "is below /mnt, where cloud-init (/etc/fstab) mounts a disk, which hides it"
        in machine.ensure(JOBS, mountpoint="/mnt/scratch").warnings[0]
    )


def test_a_mountpoint_below_mnt_gives_a_warning(machine: Machine) -> None:
    machine.mount("/mnt/resource_nvme", number="9:127", source="/dev/md128", kind="xfs")
    done = machine.ensure(JOBS, mountpoint="/mnt/resource_nvme")
    assert "Choose another, such as /scratch" in done.warnings[0]
    assert len(done.actions) == 1


def test_a_link_at_the_mountpoint_is_refused(machine: Machine, tmp_path: pathlib.Path) -> None:
    machine.path("/scratch").symlink_to(tmp_path)
    assert "/scratch is not a folder" in refusal(machine, JOBS)


def test_a_concurrent_run_is_refused_after_its_wait(machine: Machine) -> None:
    with only_one(machine.root.at(core.LOCK), 0):
        assert "another run is changing the directories" in refusal_of(machine)


def test_needs_root(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "needs root. Run with become" in refusal_of(machine)
