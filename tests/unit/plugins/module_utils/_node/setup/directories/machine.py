# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A machine with fake mounts; its folders are real ones below a temporary folder."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from typing import Any

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.directories.ensure import Outcome, ensure
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.directories.options import parse

from ..scratch.node import LiveRoot

ME = {"owner": str(os.getuid()), "group": str(os.getgid())}
SSD = "8:17"


class Machine:
    """A fake machine. Its root file system is on sda1, and sdb1 is its temporary disk, if it has one."""

    def __init__(self, folder: pathlib.Path) -> None:
        """Start without a temporary disk, and with nothing mounted on the scratch."""
        self.folder = folder
        self.root = LiveRoot(str(folder))
        # Number, folder of the file system, mountpoint, type, source, options.
        self.mounts: list[tuple[str, str, str, str, str, str]] = [("8:1", "/", "/", "ext4", "/dev/sda1", "rw")]
        self.commands: list[str] = []
        self.answer: tuple[int, str] = (0, "")
        self.write()

    def write(self) -> None:
        """Write the mounts as the kernel shows them."""
        lines = [
            f"{20 + index} 1 {number} {top} {where} {options} shared:1 - {kind} {source} rw"
            for index, (number, top, where, kind, source, options) in enumerate(self.mounts)
        ]
        self.file("proc/self/mountinfo", "\n".join(lines) + "\n")

    def file(self, path: str, text: str) -> pathlib.Path:
        """Write a file."""
        file = self.folder / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def path(self, path: str) -> pathlib.Path:
        """Return where a path of the machine is below the temporary folder."""
        return self.folder / path.lstrip("/")

    def device(self, name: str, partitions: Sequence[str] = ()) -> None:
        """Add a disk."""
        self.file(f"sys/block/{name}/size", "67108864")
        self.file(f"sys/block/{name}/dev", "8:16")
        self.file(f"dev/{name}", "")
        self.path(f"sys/block/{name}/holders").mkdir(exist_ok=True)
        for number, partition in enumerate(partitions, start=1):
            self.file(f"sys/block/{name}/{partition}/partition", str(number))
            self.file(f"sys/block/{name}/{partition}/dev", f"8:{16 + number}")
            self.path(f"sys/block/{name}/{partition}/holders").mkdir(exist_ok=True)
            self.file(f"dev/{partition}", "")

    def mount(self, where: str, number: str = SSD, source: str = "/dev/sdb1", kind: str = "ext4", **more: str) -> None:
        """Add a mount."""
        self.path(where).mkdir(parents=True, exist_ok=True)
        self.mounts.append((number, more.get("top", "/"), where, kind, source, more.get("options", "rw")))
        self.write()

    def temporary_disk(self, mounted: str = "/mnt", linked: bool = True) -> None:
        """Add a temporary disk, as shown by the udev rules of azure-vm-utils."""
        self.device("sdb", ["sdb1"])
        if linked:
            link = self.path("dev/disk/azure/resource")
            link.parent.mkdir(parents=True)
            link.symlink_to("../../sdb")
        if mounted:
            self.mount(mounted)

    def run(self, command: Sequence[str]) -> Result:
        """Stand in for the runner: mount --bind and umount."""
        self.commands.append(" ".join(command))
        rc, stderr = self.answer
        if rc:
            return Result(tuple(command), rc, "", stderr)
        if command[0] == "umount":
            self.mounts = [mount for mount in self.mounts if mount[2] != command[1]]
        else:
            where = command[-1]
            # The source is given by an open folder, not by a path.
            source = f"/{os.path.relpath(os.readlink(command[-2]), self.root.path)}"
            # The mountpoint shows the permissions of the mounted folder.
            self.path(where).chmod(self.path(source).stat().st_mode & 0o7777)
            on = next(mount for mount in self.mounts if mount[2] == os.path.dirname(source))
            self.mounts.append((on[0], f"{on[1].rstrip('/')}/{os.path.basename(source)}", where, on[3], on[4], "rw"))
        self.write()
        return Result(tuple(command), 0, "", "")

    def ensure(self, *folders: dict[str, Any], check: bool = False, wait_s: float = 0, **options: Any) -> Outcome:
        """Create directories that belong to the user who runs the test."""
        nvme_count = options.pop("nvme_count", 0)
        sets = {"site": [{**ME, **folder} for folder in folders]}
        parsed = parse({"folders": sets, **options})
        return ensure(parsed, self.root, self.run, check, nvme_count, wait_s, lock_timeout_s=0)
