# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ansible-playbook on this machine, in a mount namespace where changes go to a file system in memory."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from collection import COLLECTIONS

# Changes below the folders disappear with the namespace. No systemd runs that could be reloaded.
ENTER = """\
mount -t tmpfs tmpfs "$1" || exit 77
for folder in $2; do
    mkdir -p "$1/$folder/upper" "$1/$folder/work"
    above="lowerdir=/$folder,upperdir=$1/$folder/upper,workdir=$1/$folder/work"
    mount -t overlay overlay -o "$above" "/$folder" || exit 77
done
[ ! -d /run/systemd ] || mount -t tmpfs tmpfs /run/systemd || exit 77
rm -rf /etc/hpcai /var/lib/hpcai
shift 2
exec "$@"
"""


def ansible_playbook(folder: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ansible-playbook in a folder; /etc, /usr, /opt and /var/lib can be written.

    The test is skipped if the namespace cannot be made: without it, the run would change this machine.
    """
    if os.geteuid() != 0:
        pytest.skip("needs root for a mount namespace")
    (folder / "ansible.cfg").touch()
    (folder / "above").mkdir(exist_ok=True)
    program = pathlib.Path(sys.executable).with_name("ansible-playbook")
    folders = "etc usr opt var/lib"
    words = ["unshare", "--mount", "sh", "-c", ENTER, "enter", str(folder / "above"), folders, str(program), *arguments]
    done = subprocess.run(
        words,
        cwd=folder,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
            "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
            "ANSIBLE_HOME": str(folder / ".ansible"),
            "ANSIBLE_NOCOLOR": "1",
        },
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    if done.returncode == 77:
        pytest.skip("this machine cannot mount an overlay in a namespace")
    return done
