# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each command failing midway: what was made is removed again, what existed is kept, and the message says so."""

from __future__ import annotations

import errno
import pathlib
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.scratch import apply
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.scratch.ensure import ABSENT

from .node import Node, filesystem, foreign

EIGHT = [f"nvme{n}n1" for n in range(8)]
PATHS = " ".join(f"/dev/{name}" for name in EIGHT)


def failure(node: Node, goal: str = "present", **options: Any) -> str:
    """Return the error of the command that fails."""
    with pytest.raises(CommandFailed) as failed:
        node.ensure(goal, **options)
    return str(failed.value)


def is_clean(node: Node) -> bool:
    """Whether nothing that the module made is left."""
    return not node.arrays and not any(node.disks[name].signatures for name in EIGHT) and len(node.mounts) == 1


@pytest.mark.parametrize("begins", ["mdadm --create", "mkfs.xfs", "mount -t xfs"])
def test_a_failure_is_cleaned_up_and_the_next_run_succeeds(node: Node, begins: str) -> None:
    node.failing = {begins: (1, f"{begins}: first line\n{begins}: no such luck")}
    message = failure(node)
    assert f"'{begins}" in message
    assert "no such luck" in message or begins.startswith("mount")
    assert message.endswith(f"The new array or file system was removed again: {' '.join(EIGHT)} are blank.")
    assert is_clean(node)
    assert not node.root.exists("/scratch")
    node.failing = {}
    assert node.ensure().changed
    assert len(node.mounts) == 2


def test_a_timeout_after_mdadm_made_an_array_is_cleaned_up(node: Node) -> None:
    real = node._mdadm

    def create(words: list[str]) -> str:
        answer = real(words)
        if words[0] == "--create":
            # mkfs times out after the kernel has started the array.
            node.failing = {"mkfs": (124, "no answer within 120 s")}
        return answer

    node._mdadm = create  # type: ignore[method-assign]
    message = failure(node)
    assert node.commands[-2:] == ["mdadm --stop /dev/md125", f"wipefs --all --quiet {PATHS}"]
    assert "no answer within 120 s" in message
    assert is_clean(node)


def test_a_failed_clean_up_is_reported_too(node: Node) -> None:
    node.failing = {"mkfs": (1, "mkfs.xfs: no"), "mdadm --stop": (1, "mdadm: still in use")}
    message = failure(node)
    assert "Cleaning up failed too: 'mdadm --stop /dev/md125': mdadm: still in use." in message


def test_a_single_disk_is_blank_again_after_mkfs_failed(node: Node) -> None:
    node.failing = {"mkfs": (1, "mkfs.xfs: no")}
    assert failure(node, devices=["/dev/nvme3n1"]).endswith("nvme3n1 are blank.")
    assert node.commands[-1] == "wipefs --all --quiet /dev/nvme3n1"


def test_what_existed_before_is_never_removed(node: Node) -> None:
    node.ours(mounted=False)
    node.failing = {"mount": (32, "mount: /scratch: unknown filesystem type 'xfs'.")}
    message = failure(node)
    assert "unknown filesystem type" in message
    assert message.endswith("Nothing was changed.")
    assert node.arrays
    assert node.disks["nvme0n1"].signatures


def test_wrong_mount_options_keep_the_file_system(node: Node) -> None:
    node.ours(mounted=False)
    node.failing = {"mount -t xfs -o nonsense": (32, "mount: /scratch: wrong fs type, bad option, bad superblock")}
    message = failure(node, mount_options=["nonsense"])
    assert message.startswith("mount_options of /scratch are invalid for xfs: mount: /scratch: wrong fs type, bad")
    assert node.commands[-1] == "umount /scratch"
    assert not any(words.startswith("mkfs") for words in node.commands)


# mount(8) 2.37 prints this for both EINVAL and EUCLEAN, whatever the cause.
_BAD_SUPERBLOCK = (
    "mount: /scratch: wrong fs type, bad option, bad superblock on /dev/md127, missing codepage or helper program, or "
    "other error."
)


@pytest.mark.parametrize("number", ["EINVAL", "EIO", "EBUSY", "EBADMSG", "ENOMEM"])
def test_only_a_file_system_that_the_kernel_calls_damaged_is_formatted(node: Node, number: str) -> None:
    # An XFS with a feature that an older kernel lacks gives EINVAL, after a reboot into that kernel.
    node.ours(mounted=False)
    node.failing, node.mount_errno = {"mount -t xfs": (32, _BAD_SUPERBLOCK)}, getattr(errno, number)
    message = failure(node)
    assert message.startswith(f"/dev/md127 cannot be mounted on /scratch ({number}: ")
    assert message.endswith("For a new file system, run state=absent, then state=present. Nothing was changed.")
    assert not any(words.startswith(("mkfs", "wipefs --all")) for words in node.commands)
    assert node.arrays["md127"].signatures


def test_a_mount_that_times_out_is_not_retried(node: Node) -> None:
    node.ours(mounted=False)
    node.failing, node.mount_errno = {"mount -t xfs": (124, "no answer within 120 s")}, errno.EUCLEAN
    assert "no answer within 120 s" in failure(node)
    assert node.commands == ["mount -t xfs -o noatime /dev/md127 /scratch"]


@pytest.mark.parametrize("found", [[foreign("xfs")], [filesystem(), foreign("ext4")], []])
def test_a_file_system_that_proves_to_be_foreign_is_not_formatted(
    node: Node, found: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    node.ours(mounted=False)
    node.failing, node.mount_errno = {"mount -t xfs": (32, _BAD_SUPERBLOCK)}, errno.EUCLEAN
    real = node.mount_error

    def mount_error(kind: str, device: str, where: str) -> int:
        # Another program writes between our check and the mount.
        node.arrays["md127"].signatures = found
        return real(kind, device, where)

    monkeypatch.setattr(apply, "mount_error", mount_error)
    assert "was not formatted. Inspect it with wipefs /dev/md127" in failure(node)
    assert not any(words.startswith("mkfs") for words in node.commands)


def test_a_scratch_in_use_is_not_unmounted_and_its_processes_are_named(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.ours()
    node.failing = {"umount": (32, "umount: /scratch: target is busy.")}
    process = node.folder / "proc/4711"
    (process / "fd").mkdir(parents=True)
    (process / "comm").write_text("python3\n")
    (process / "fd/3").symlink_to("/scratch/data/part-0")
    bystander = node.folder / "proc/4712"
    (bystander / "fd").mkdir(parents=True)
    (bystander / "cwd").symlink_to("/scratch2")
    message = failure(node, ABSENT)
    assert message.startswith(
        "/scratch cannot be unmounted, it is used by python3 (4711): umount: /scratch: target is busy"
    )
    assert node.commands == ["umount /scratch"]


def test_an_error_lists_the_steps_that_were_done_before(node: Node) -> None:
    node.ours()
    node.failing = {"mdadm --stop": (1, "mdadm: Cannot get exclusive access to /dev/md127")}
    message = failure(node, ABSENT)
    assert message.endswith("Done before that: unmount /scratch; wipe the signature on md127.")


def test_a_late_refusal_lists_the_steps_that_were_done_before(node: Node) -> None:
    # The content of a stopped array is visible only when it is assembled.
    node.ours(device="", mounted=False)
    node.stopped = [foreign("xfs", "mine")]
    message = failure(node)
    assert "md126 is ours, but contains xfs that this module did not make" in message
    assert message.endswith(f"Done before that: assemble {' '.join(EIGHT)}.")


def test_a_failed_remount_keeps_the_mount(node: Node) -> None:
    node.ours()
    node.failing = {"mount -o remount": (32, "mount: /scratch: bad option")}
    assert failure(node, mount_options=["nonsense"]).endswith("Nothing was changed.")
    assert len(node.mounts) == 2


def test_it_gives_up_if_its_changes_have_no_effect(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.ours(mounted=False)
    node._mount = lambda words: None  # type: ignore[method-assign]
    assert "the scratch did not converge after 4 attempts" in failure(node)


def test_an_existing_mountpoint_is_kept_after_a_failure(node: Node, tmp_path: pathlib.Path) -> None:
    (node.folder / "scratch").mkdir()
    node.failing = {"mount -t": (32, "mount: no")}
    failure(node)
    assert node.root.exists("/scratch")
