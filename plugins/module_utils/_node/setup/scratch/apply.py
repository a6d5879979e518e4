# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Carry out a plan, and undo the started work if a command fails midway."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import uuid
from collections.abc import Sequence

from ...machine.atomic import write_file
from ...machine.disks import read_signatures
from ...machine.mounts import mount_error, processes_below, read_mounts
from ...machine.root import Root
from ...machine.run import CommandFailed, Result, Run
from .facts import RECORD, filesystem_uuid
from .mounting import gid_of, uid_of
from .options import ScratchOptions
from .steps import NEW, ScratchPlan, Step

_BLOCK_BYTES = 4096
_LOG_UNIT_BYTES = 32 * 1024
_SETTLE_S = 30
_MOUNT_FAILED = 32  # mount(8), exit status: the system call failed. Other codes say nothing about the file system.


def settle(run: Run) -> None:
    """Wait for udev: it opens disks and assembles arrays. Without udev this returns at once."""
    run(["udevadm", "settle", f"--timeout={_SETTLE_S}"])


class Applier:
    """Carries out steps. It remembers what this run created, and undoes only that."""

    def __init__(self, options: ScratchOptions, root: Root, run: Run) -> None:
        self.options, self.root, self.run = options, root, run
        self.array = ""
        self.array_uuid = ""
        self._made: tuple[str, ...] = ()
        self._made_folder = False
        self.done: list[str] = []

    def done_so_far(self) -> str:
        """Return what was done so far, as the end of an error message."""
        return f"Done before that: {'; '.join(self.done)}." if self.done else "Nothing was changed."

    def apply(self, plan: ScratchPlan) -> None:
        """Carry out the plan's steps up to the next look at the machine, which follows the assembly of an array.

        :raises CommandFailed: a command failed. What this run had created was removed again.
        """
        for step in plan.steps_until_look:
            try:
                getattr(self, f"_{step.verb}")(step)
            except (CommandFailed, OSError) as error:
                raise CommandFailed(f"{str(error).rstrip('.')}. {self._undo()}") from error
            self.done.append(str(step))
        if any(step.verb in ("mount", "remount") for step in plan.steps_until_look):
            self._record(plan)

    # One method for each step in steps._WORDS.

    def _unmount(self, step: Step) -> None:
        result = self.run(["umount", step.where])
        if result.rc != 0:
            users = ", ".join(processes_below(self.root, step.where))
            raise CommandFailed(
                f"{step.where} cannot be unmounted{f', it is used by {users}' if users else ''}: {_message(result)}"
            )

    def _stop(self, step: Step) -> None:
        settle(self.run)
        _need(self.run(["mdadm", "--stop", f"/dev/{step.device}"]))
        settle(self.run)

    def _erase(self, step: Step) -> None:
        _need(self.run(["wipefs", "--all", "--quiet", f"/dev/{step.device}"]))

    def _forget(self, step: Step) -> None:
        _need(self.run(["mdadm", "--zero-superblock", *_paths(step.disks)]))

    def _wipe(self, step: Step) -> None:
        partitions = [
            f"/dev/{entry}"
            for disk in step.disks
            for entry in self.root.entries(f"/sys/block/{disk}")
            if entry.startswith(disk) and self.root.exists(f"/sys/block/{disk}/{entry}/partition")
        ]
        # Partitions first: otherwise their superblocks would appear again below a new, equal partition table.
        _need(self.run(["wipefs", "--all", "--quiet", *partitions, *_paths(step.disks)]))
        settle(self.run)

    def _create(self, step: Step) -> None:
        self._made = step.disks
        self.array_uuid = str(uuid.uuid4())
        _need(
            self.run(
                [
                    "mdadm",
                    "--create",
                    f"/dev/md/{self.options.array_name}",
                    "--run",
                    f"--name={self.options.array_name}",
                    # No host name: otherwise an array from an image or a renamed host would count as foreign.
                    "--homehost=any",
                    "--metadata=1.2",
                    f"--uuid={self.array_uuid.replace('-', '')}",
                    "--level=0",
                    f"--chunk={self.options.chunk_bytes // 1024}K",
                    f"--raid-devices={len(step.disks)}",
                    *_paths(step.disks),
                ]
            )
        )
        self.array = self._holder(step.disks)
        settle(self.run)

    def _assemble(self, step: Step) -> None:
        _need(
            self.run(
                [
                    "mdadm",
                    "--assemble",
                    f"/dev/md/{self.options.array_name}",
                    "--run",
                    f"--uuid={step.uuid.replace('-', '')}",
                    *_paths(step.disks),
                ]
            )
        )
        settle(self.run)

    def _mkfs(self, step: Step) -> None:
        self._made = self._made or (step.disks if len(step.disks) == 1 else ())
        device = self._device(step.device)
        uuid_of = self.array_uuid if step.device == NEW else step.uuid
        _need(self.run(mkfs_command(self.options, f"/dev/{device}", len(step.disks), filesystem_uuid(uuid_of))))
        settle(self.run)

    def _mount(self, step: Step) -> None:
        folder = self.root.at(step.where)
        if not os.path.isdir(folder):
            os.makedirs(folder, mode=0o755)
            self._made_folder = True
        filesystem, options = step.detail.split(" ", 1)
        command = ["mount", "-t", filesystem, "-o", options, f"/dev/{self._device(step.device)}", step.where]
        first = self.run(command)
        if first.rc == 0:
            return
        if self._made or not step.disks or first.rc != _MOUNT_FAILED:
            _need(first)
        self._check_is_damaged(step, filesystem, first)
        self.done.append(f"the file system on {step.device} was damaged ({_message(first)}) and was made again")
        self._mkfs(step)
        _need(self.run(command))

    def _check_is_damaged(self, step: Step, filesystem: str, first: Result) -> None:
        """Make sure that the file system on the device is ours, and that the kernel reports it as damaged.

        Only EUCLEAN means damage. EINVAL can also mean a feature that an older kernel lacks, and mount(8) reports both
        as a possible bad superblock.

        :raises CommandFailed: it is not ours or not damaged, so it must not be formatted.
        """
        device = f"/dev/{step.device}"
        number = mount_error(filesystem, device, step.where)
        if number == 0:
            _need(self.run(["umount", step.where]))
            raise CommandFailed(f"mount_options of {step.where} are invalid for {filesystem}: {_message(first)}")
        if number != errno.EUCLEAN:
            raise CommandFailed(
                f"{device} cannot be mounted on {step.where} ({errno.errorcode.get(number, number)}: "
                f"{os.strerror(number)}). This does not prove that its {filesystem} file system is damaged, so it was "
                f"not formatted. Read the kernel log. For a new file system, run state=absent, then state=present"
            )
        found = read_signatures(self.root, [step.device], self.run)[step.device]
        if not found or any(mark.uuid != filesystem_uuid(step.uuid) for mark in found):
            raise CommandFailed(
                f"{device} has other data than the file system that was made for it, so it was not formatted. "
                f"Inspect it with wipefs {device}"
            )

    def _remount(self, step: Step) -> None:
        # With device and folder, the new options replace the old ones; otherwise mount would add them.
        _need(self.run(["mount", "-o", f"remount,{step.detail}", f"/dev/{step.device}", step.where]))

    def _own(self, step: Step) -> None:
        folder = self.root.at(step.where)
        os.chown(folder, uid_of(self.options.owner), gid_of(self.options.group))
        os.chmod(folder, self.options.mode)

    def _device(self, name: str) -> str:
        return self.array if name == NEW else name

    def _holder(self, disks: Sequence[str]) -> str:
        holders = self.root.entries(f"/sys/block/{disks[0]}/holders")
        arrays = [holder for holder in holders if self.root.exists(f"/sys/block/{holder}/md")]
        if not arrays:
            raise CommandFailed(f"mdadm made an array of {' '.join(disks)}, but {disks[0]} is in no array")
        return arrays[0]

    def _undo(self) -> str:
        """Remove what this run created, so that nothing is left half-done. What existed before is not touched."""
        answers = self._take_apart() if self._made else []
        if self._made_folder:
            with contextlib.suppress(OSError):
                os.rmdir(self.root.at(self.options.mountpoint))
        failed = [f"'{' '.join(answer.command)}': {_message(answer)}" for answer in answers if answer.rc != 0]
        if failed:
            return f"Cleaning up failed too: {'; '.join(failed)}."
        if self._made:
            return f"The new array or file system was removed again: {' '.join(self._made)} are blank."
        return self.done_so_far()

    def _take_apart(self) -> list[Result]:
        answers = []
        mounts = read_mounts(self.root)
        if any(mount.mountpoint == self.options.mountpoint for mount in mounts):
            answers.append(self.run(["umount", self.options.mountpoint]))
        settle(self.run)
        holders = [entry for disk in self._made for entry in self.root.entries(f"/sys/block/{disk}/holders")]
        answers += [self.run(["mdadm", "--stop", f"/dev/{array}"]) for array in dict.fromkeys(holders)]
        settle(self.run)
        return [*answers, self.run(["wipefs", "--all", "--quiet", *_paths(self._made)])]

    def _record(self, plan: ScratchPlan) -> None:
        device = self._device(plan.device)
        record = {
            "number": self.root.text(f"/sys/block/{device}/dev") or "",
            "mount_options": list(self.options.mount_options),
            "adopted": device if plan.adopted else None,
        }
        write_file(self.root.at(RECORD), json.dumps(record) + "\n")


def mkfs_command(options: ScratchOptions, device: str, disks: int, filesystem_id: str) -> list[str]:
    """Return the command that makes the file system.

    It passes the stripe layout to mkfs instead of letting mkfs guess it, and skips the discard of the whole disks,
    which takes minutes. XFS: the log stripe unit is 32 KiB, the value that mkfs.xfs falls back to with a warning. The
    maximum is 256 KiB, so the chunk size may be too large, and a large unit would pad each write to the log.
    """
    if options.filesystem == "xfs":
        stripes = [
            "-d",
            f"su={options.chunk_bytes},sw={disks}",
            "-l",
            f"su={min(_LOG_UNIT_BYTES, options.chunk_bytes)}",
        ]
        named = ["-L", options.label, "-m", f"uuid={filesystem_id}"]
        return ["mkfs.xfs", "-f", "-q", "-K", *named, *(stripes if disks > 1 else ()), device]
    extended = ["nodiscard", "lazy_itable_init=1", "lazy_journal_init=1"]
    if disks > 1:
        stride = options.chunk_bytes // _BLOCK_BYTES
        extended += [f"stride={stride}", f"stripe_width={stride * disks}"]
    named = ["-L", options.label, "-U", filesystem_id]
    # -m 0: reserved blocks keep a system disk usable for root; scratch needs none.
    return ["mkfs.ext4", "-F", "-q", "-b", str(_BLOCK_BYTES), "-m", "0", *named, "-E", ",".join(extended), device]


def _paths(disks: Sequence[str]) -> list[str]:
    return [f"/dev/{disk}" for disk in disks]


def _need(result: Result) -> None:
    if result.rc != 0:
        raise CommandFailed(f"'{' '.join(result.command)}' failed: {_message(result)}")


def _message(result: Result) -> str:
    lines = (result.stderr.strip() or result.stdout.strip() or f"exit status {result.rc}").splitlines()
    # mount writes the error on the first line and a hint on the last; mdadm and mkfs write the error last.
    return lines[0 if result.command[0] in ("mount", "umount") else -1].strip()
