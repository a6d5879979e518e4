# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fake node with NVMe disks: a tree of sysfs files, and the commands that change it.

wipefs, mdadm, mkfs, mount and umount change the fake disks as the real commands change real disks, in everything that
the code under test can read: sysfs, mountinfo, and the output of wipefs and mdadm. Messages are those of the real ones.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import shutil
from collections.abc import Sequence
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.scratch.disks import Refused
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.scratch.ensure import PRESENT, Outcome, ensure
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.scratch.facts import filesystem_uuid
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.scratch.options import parse

LOCAL = "Microsoft NVMe Direct Disk"
OURS = "hpcai-scratch"
UUID = "11111111-2222-4333-8444-555555555555"
SIZE = 960_197_124_096

Signature = dict[str, str]


class LiveRoot(Root):
    """A tree that counts as the running machine's own."""

    @property
    def is_this_machine(self) -> bool:
        """Pretend to be the running machine."""
        return True

    def at(self, path: str) -> str:
        """Return the path below the tree."""
        return os.path.join(self.path, path.lstrip("/"))


@dataclasses.dataclass
class Disk:
    """A disk."""

    model: str = LOCAL
    serial: str = ""
    signatures: list[Signature] = dataclasses.field(default_factory=list)
    partitions: list[str] = dataclasses.field(default_factory=list)
    holders: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Array:
    """An assembled array."""

    members: list[str]
    state: str = "clean"
    raid_disks: int = 0
    chunk: int = 524288
    level: str = "raid0"
    signatures: list[Signature] = dataclasses.field(default_factory=list)


def member(uuid: str = UUID, name: str = OURS) -> Signature:
    """The signature of an array's member."""
    return {"type": "linux_raid_member", "uuid": uuid, "label": name}


def filesystem(of: str = UUID, kind: str = "xfs", label: str = "hpcaiscratch") -> Signature:
    """The signature of our file system on array or disk ``of``."""
    return {"type": kind, "uuid": filesystem_uuid(of), "label": label}


def foreign(kind: str = "ext4", label: str = "precious") -> Signature:
    """The signature of a foreign file system."""
    return {"type": kind, "uuid": "99999999-0000-4000-8000-000000000000", "label": label}


class Node:
    """A fake node; ``commands`` are those that were run, without those that only read."""

    def __init__(self, folder: pathlib.Path, disks: int = 8) -> None:
        """Start with blank local disks, and the operating system on sda."""
        self.folder = folder
        self.root = LiveRoot(str(folder))
        self.disks = {f"nvme{n}n1": Disk(serial=f"SN{n}") for n in range(disks)}
        self.disks["sda"] = Disk("Virtual Disk", "OS", [{"type": "gpt"}], ["sda1"])
        self.arrays: dict[str, Array] = {}
        # Device, mountpoint, type, options; in the order of mounting.
        self.mounts: list[list[str]] = [["sda1", "/", "ext4", "rw,relatime"]]
        self.swaps: list[str] = []
        # The signatures on the array that was stopped last.
        self.stopped: list[Signature] = []
        self.chunks: dict[str, int] = {}
        self.raid_disks: dict[str, int] = {}
        # First bytes of devices, and links to them below /dev/disk.
        self.contents: dict[str, bytes] = {}
        self.links: dict[str, str] = {}
        self.loops: dict[str, str] = {}
        self.commands: list[str] = []
        self.looked: list[str] = []
        # Exit status and message of commands that begin with these words.
        self.failing: dict[str, tuple[int, str]] = {}
        # The error number of mount(2) without options.
        self.mount_errno = 0
        self.write()

    def ours(self, members: int = 8, device: str = "md127", mounted: bool = True, state: str = "clean") -> None:
        """Create our array on the first disks, as the module does."""
        names = [f"nvme{n}n1" for n in range(members)]
        for name in names:
            self.disks[name].signatures = [member()]
        self.chunks[UUID], self.raid_disks[UUID] = 524288, members
        if device:
            self.arrays[device] = Array(names, state, members, signatures=[filesystem()])
        else:
            self.stopped = [filesystem()]
        if mounted:
            self.mounts.append([device, "/scratch", "xfs", "rw,noatime"])
        self.write()
        if mounted:
            os.chmod(self.root.at("/scratch"), 0o1777)

    def number(self, name: str) -> str:
        """major:minor of a device or partition."""
        major = 9 if name.startswith("md") else 259
        return f"{major}:{sum(ord(letter) * 31**index for index, letter in enumerate(name)) % 100000}"

    def write(self) -> None:
        """Rewrite the tree."""
        for top in ("sys", "proc", "dev"):
            shutil.rmtree(self.folder / top, ignore_errors=True)
        for name, disk in self.disks.items():
            holders = [*disk.holders, *(array for array, made in self.arrays.items() if name in made.members)]
            self._device(name, SIZE // 512, holders)
            self._file(f"sys/block/{name}/device/model", disk.model.ljust(40))
            self._file(f"sys/block/{name}/device/serial", disk.serial)
            self._file(f"sys/block/{name}/device/device/numa_node", "3" if name == "nvme0n1" else "-1")
            for number, partition in enumerate(disk.partitions, start=1):
                self._file(f"sys/block/{name}/{partition}/partition", str(number))
                self._file(f"sys/block/{name}/{partition}/dev", self.number(partition))
                (self.folder / f"sys/block/{name}/{partition}/holders").mkdir()
                self._file(f"dev/{partition}", "")
        for name, backing_file in self.loops.items():
            self._device(name, 8, [])
            self._file(f"sys/block/{name}/loop/backing_file", backing_file)
        for name, array in self.arrays.items():
            self._device(name, 0 if array.state == "inactive" else SIZE // 512 * len(array.members), [])
            fields = {"array_state": array.state, "raid_disks": array.raid_disks, "chunk_size": array.chunk}
            for key, value in {**fields, "level": array.level}.items():
                self._file(f"sys/block/{name}/md/{key}", str(value))
            for disk_name in array.members:
                (self.folder / f"sys/block/{name}/slaves/{disk_name}").mkdir(parents=True)
                (self.folder / f"sys/block/{name}/md/dev-{disk_name}").mkdir()
        lines = [
            f"{20 + index} 1 {self.number(device)} / {where} {options} shared:1 - {kind} /dev/{device} rw"
            for index, (device, where, kind, options) in enumerate(self.mounts)
        ]
        self._file("proc/self/mountinfo", "\n".join(lines) + "\n")
        swaps = [f"/dev/{name} partition 1 0 -2" for name in self.swaps]
        self._file("proc/swaps", "\n".join(["Filename Type Size Used Priority", *swaps]) + "\n")
        for link, name in self.links.items():
            path = self.folder / f"dev/disk/{link}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(f"../../{name}")
        for name, content in self.contents.items():
            (self.folder / f"dev/{name}").write_bytes(content)
        for _device, where, *_rest in self.mounts:
            (self.folder / where.lstrip("/")).mkdir(parents=True, exist_ok=True)

    def _device(self, name: str, sectors: int, holders: Sequence[str]) -> None:
        self._file(f"sys/block/{name}/size", str(sectors))
        self._file(f"sys/block/{name}/dev", self.number(name))
        self._file(f"dev/{name}", "")
        for holder in ("", *holders):
            (self.folder / f"sys/block/{name}/holders/{holder}").mkdir(parents=True, exist_ok=True)

    def _file(self, path: str, text: str) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def run(self, command: Sequence[str]) -> Result:
        """Stand in for the runner."""
        words = " ".join(command)
        looking = words.startswith(("wipefs --no-act", "mdadm --examine", "udevadm"))
        (self.looked if looking else self.commands).append(words)
        rc, stderr = next((answer for start, answer in self.failing.items() if words.startswith(start)), (0, ""))
        if rc:
            return Result(tuple(command), rc, "", stderr)
        name = command[0].replace(".", "_").replace("mkfs_xfs", "mkfs").replace("mkfs_ext4", "mkfs")
        stdout = getattr(self, f"_{name}")(list(command[1:])) or ""
        if not looking:
            self.write()
        return Result(tuple(command), 0, stdout, "")

    def _udevadm(self, _words: list[str]) -> None: ...

    def _of(self, path: str) -> Disk | Array | None:
        name = path.rsplit("/", 1)[-1]
        return self.disks.get(name) or self.arrays.get(name)

    def _wipefs(self, words: list[str]) -> str:
        paths = [word for word in words if not word.startswith("--")]
        if "--all" in words:
            for path in paths:
                found = self._of(path)
                if found:
                    found.signatures = []
                if isinstance(found, Disk):
                    found.partitions = []
            return ""
        signatures: list[dict[str, Any]] = []
        for path in paths:
            found = self._of(path)
            for mark in found.signatures if found else []:
                empty = {"offset": "0x0", "uuid": None, "label": None}
                signatures.append({"device": path.rsplit("/", 1)[-1], **empty, **mark})
        return json.dumps({"signatures": signatures})

    def _mdadm(self, words: list[str]) -> str:
        names = [word.rsplit("/", 1)[-1] for word in words if word.startswith("/") and "/md/" not in word]
        options = dict(word[2:].split("=", 1) for word in words if word.startswith("--") and "=" in word)
        if words[0] == "--examine":
            return self._examine(words[1:])
        if words[0] == "--stop":
            self.stopped = self.arrays.pop(names[0]).signatures
        elif words[0] == "--zero-superblock":
            for name in names:
                self.disks[name].signatures = []
        elif words[0] == "--assemble":
            uuid = options["uuid"]
            dashed = re.sub(r"(.{8})(.{4})(.{4})(.{4})(.{12})", r"\1-\2-\3-\4-\5", uuid)
            self.arrays["md126"] = Array(names, "clean", len(names), self.chunks[dashed], signatures=self.stopped)
        elif words[0] == "--create":
            uuid = re.sub(r"(.{8})(.{4})(.{4})(.{4})(.{12})", r"\1-\2-\3-\4-\5", options["uuid"])
            chunk = int(options["chunk"].rstrip("K")) * 1024
            for name in names:
                assert not self.disks[name].signatures, f"{name} is not blank"
                self.disks[name].signatures = [member(uuid, options["name"])]
            self.arrays["md125"] = Array(names, "clean", int(options["raid-devices"]), chunk)
            self.chunks[uuid], self.raid_disks[uuid] = chunk, len(names)
        return ""

    def _examine(self, paths: list[str]) -> str:
        text = ""
        for role, path in enumerate(paths):
            mark = self.disks[path.rsplit("/", 1)[-1]].signatures[0]
            uuid = mark["uuid"].replace("-", "")
            colons = ":".join(uuid[at : at + 8] for at in range(0, 32, 8))
            text += (
                f"{path}:\n          Magic : a92b4efc\n     Array UUID : {colons}\n     Raid Level : raid0\n"
                f"   Raid Devices : {self.raid_disks.get(mark['uuid'], 8)}\n\n     Chunk Size : 512K\n\n"
                f"   Device Role : Active device {role}\n"
            )
        return text

    def _mkfs(self, words: list[str]) -> None:
        found = self._of(words[-1])
        assert found is not None
        kind = "xfs" if "-m" in words and words[words.index("-m") + 1].startswith("uuid=") else "ext4"
        uuid = words[words.index("-m") + 1][5:] if kind == "xfs" else words[words.index("-U") + 1]
        found.signatures = [{"type": kind, "uuid": uuid, "label": words[words.index("-L") + 1]}]

    def _mount(self, words: list[str]) -> None:
        device, where = words[-2].rsplit("/", 1)[-1], words[-1]
        options = words[words.index("-o") + 1].split(",") if "-o" in words else []
        shown = ",".join(["rw", *(option for option in options if option not in ("remount", "defaults", "nofail"))])
        if "remount" in options:
            entry = [mount for mount in self.mounts if mount[1] == where][-1]
            entry[3] = shown
        else:
            self.mounts.append([device, where, words[words.index("-t") + 1], shown])

    def mount_error(self, kind: str, device: str, where: str) -> int:
        """Stand in for mount(2)."""
        self.commands.append(f"mount(2) {kind} {device} {where}")
        if self.mount_errno == 0:
            self._mount(["-t", kind, device, where])
            self.write()
        return self.mount_errno

    def _umount(self, words: list[str]) -> None:
        entry = [mount for mount in self.mounts if mount[1] == words[-1]][-1]
        self.mounts.remove(entry)

    # What the tests call.

    def ensure(self, goal: str = PRESENT, check: bool = False, root: Root | None = None, **options: Any) -> Outcome:
        """Bring the scratch to a goal with these options, and leave the settings for the boot alone."""
        me = {"owner": str(os.getuid()), "group": str(os.getgid())}
        parsed = parse({**me, **options})
        return ensure(goal, parsed, root or self.root, self.run, check, lock_timeout_s=0, keeps_settings=True)

    def refusal(self, **options: Any) -> str:
        """Return the refusal, which is the same with and without check mode, and changes nothing."""
        messages = []
        for check in (True, False):
            with pytest.raises(Refused) as refused:
                self.ensure(check=check, **options)
            messages.append(str(refused.value))
        assert self.commands == []
        assert messages[0] == messages[1]
        return messages[0]
