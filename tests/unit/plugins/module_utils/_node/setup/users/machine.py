# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A machine with accounts in files below a folder; fake commands change these files."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Sequence

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

PASSWD = """root:x:0:0:root:/root:/bin/bash
azureuser:x:1000:1000::/home/azureuser:/bin/bash
"""
GROUP = """root:x:0:
sudo:x:27:azureuser
azureuser:x:1000:
docker:x:999:alice
"""
ROOT_MOUNT = "20 1 8:1 / / rw - ext4 /dev/sda1 rw"


class Machine:
    """A fake machine."""

    def __init__(self, folder: pathlib.Path) -> None:
        """Start with an admin, and no other user."""
        self.folder = folder
        self.root = Root(str(folder))
        self.commands: list[str] = []
        self.given: dict[str, tuple[int, int]] = {}
        self.file("etc/passwd", PASSWD)
        self.file("etc/group", GROUP)
        self.file("etc/shadow", "root:*:1::::::\nazureuser:!:1::::::\n")
        self.file("etc/skel/.profile", "# skeleton\n")
        self.mounts(ROOT_MOUNT)

    def file(self, path: str, text: str) -> pathlib.Path:
        """Write a file."""
        file = self.folder / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def mounts(self, *lines: str) -> None:
        """Set the mounts."""
        self.file("proc/self/mountinfo", "".join(f"{line}\n" for line in lines))

    def text(self, path: str) -> str:
        """The content of a file."""
        return (self.folder / path.lstrip("/")).read_text(encoding="utf-8")

    def run(self, command: Sequence[str]) -> Result:
        """Run a fake command."""
        self.commands.append(" ".join(command))
        words = dict(itertools.pairwise(command))
        name = command[-1]
        if command[0] == "groupadd":
            self._append("etc/group", f"{name}:x:{words['--gid']}:")
        elif command[0] == "useradd":
            self._append(
                "etc/passwd",
                f"{name}:x:{words['--uid']}:{words['--gid']}:{words['--comment']}:{words['--home-dir']}:{words['--shell']}",
            )
            self._append("etc/shadow", f"{name}:{words['--password']}:1::::::")
            self._join(name, words.get("--groups", ""))
        elif command[0] == "usermod" and "--append" in command:
            self._join(name, words["--groups"])
        elif command[0] == "usermod":
            fields = {"--home": ("etc/passwd", 5), "--shell": ("etc/passwd", 6), "--password": ("etc/shadow", 1)}
            self._set(*fields[command[1]], name, command[2])
        elif command[0] == "userdel":
            self._drop("etc/passwd", name)
            # With USERGROUPS_ENAB of login.defs, userdel also removes a group of the user's name without members.
            self._drop("etc/group", name, only_if_it_ends_with=":")
        elif command[0] == "groupdel":
            if not self._drop("etc/group", name):
                return Result(tuple(command), 6, "", f"groupdel: group '{name}' does not exist\n")
        elif command[0] == "gpasswd":
            self._leave(command[2], name)
        else:
            raise NotImplementedError(command)
        return Result(tuple(command), 0, "", "")

    def feed(self, command: Sequence[str], text: str) -> Result:
        """Run a fake chpasswd, which gets a line at its standard input."""
        self.commands.append(" ".join(command))
        assert list(command) == ["chpasswd", "--encrypted"]
        name, secret = text.rstrip("\n").split(":")
        self._set("etc/shadow", 1, name, secret)
        return Result(tuple(command), 0, "", "")

    def give(self, handle: int, uid: int, gid: int) -> None:
        """Record the owner that an open file gets."""
        self.given[pathlib.Path(f"/proc/self/fd/{handle}").readlink().name] = (uid, gid)

    def _drop(self, path: str, name: str, only_if_it_ends_with: str = "") -> bool:
        lines = self.text(path).splitlines()
        kept = [line for line in lines if not (line.startswith(f"{name}:") and line.endswith(only_if_it_ends_with))]
        self.file(path, "".join(f"{line}\n" for line in kept))
        return kept != lines

    def _append(self, path: str, line: str) -> None:
        self.file(path, f"{self.text(path)}{line}\n")

    def _set(self, path: str, field: int, name: str, value: str) -> None:
        lines = [line.split(":") for line in self.text(path).splitlines()]
        for line in lines:
            if line[0] == name:
                line[field] = value
        self.file(path, "".join(f"{':'.join(line)}\n" for line in lines))

    def _join(self, name: str, groups: str) -> None:
        lines = []
        for line in self.text("etc/group").splitlines():
            group, _secret, _gid, members = line.split(":")
            if group in groups.split(","):
                line = f"{line}{',' if members else ''}{name}"
            lines.append(f"{line}\n")
        self.file("etc/group", "".join(lines))

    def _leave(self, name: str, group: str) -> None:
        lines = []
        for line in self.text("etc/group").splitlines():
            *start, members = line.split(":")
            if start[0] == group:
                members = ",".join(member for member in members.split(",") if member != name)
            lines.append(":".join([*start, members]) + "\n")
        self.file("etc/group", "".join(lines))
