# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Makes a folder with a machine's files a host for Ansible. For tests; users have community.general.chroot."""

from __future__ import annotations

import pathlib
import shlex
import shutil
import subprocess

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = """
name: folder
short_description: Run commands in a folder with a machine's files
version_added: "0.1.0"
author: hpcai.azure contributors
description: Runs each command with chroot in a new mount namespace, with proc, dev and the name servers.
options:
  folder:
    description: The folder.
    type: path
    vars:
      - name: ansible_host
"""

# No new process namespace: a test searches this host for processes that outlive their command.
ENTER = """
set -e
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
touch "$1/etc/resolv.conf"
mount --bind /etc/resolv.conf "$1/etc/resolv.conf"
exec chroot "$1" /bin/sh -c "$2"
"""


class Connection(ConnectionBase):
    """Runs commands and copies files."""

    transport = "folder"
    has_pipelining = True
    folder: pathlib.Path

    def _connect(self) -> Connection:
        self.folder = pathlib.Path(self.get_option("folder"))
        if not (self.folder / "bin/sh").exists():
            raise AnsibleConnectionFailure(f"{self.folder} does not contain a machine's files")
        self._connected = True
        return self

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        """Run a command in the folder."""
        self._connect()
        argv = ["unshare", "--mount", "sh", "-c", ENTER, "sh", str(self.folder), cmd]
        done = subprocess.run(argv, input=in_data, capture_output=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def put_file(self, in_path: str, out_path: str) -> None:
        """Copy a file into the folder."""
        shutil.copyfile(in_path, self._inside(out_path))

    def fetch_file(self, in_path: str, out_path: str) -> None:
        """Copy a file out of the folder."""
        shutil.copyfile(self._inside(in_path), out_path)

    def close(self) -> None:
        """Mark the connection as closed."""
        self._connected = False

    def _inside(self, path: str) -> pathlib.Path:
        return self.folder / shlex.split(path)[0].lstrip("/")
