# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tree of a machine after a bake."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest

Write = Callable[[str, str], pathlib.Path]

SECRET = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----\n"
USED = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1::/usr/sbin:/usr/sbin/nologin\n"
    "azureuser:x:1000:1000::/home/azureuser:/bin/bash\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n",
    "etc/shadow": "root:*:19000:0:99999:7:::\ndaemon:*:19000:0:99999:7:::\nazureuser:$6$salt$hash:19000:0:99999:7:::\n",
    "etc/shadow-": "azureuser:$6$old$hash:19000:0:99999:7:::\n",
    "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
    "etc/hostname": "image-vm\n",
    "etc/resolv.conf": "nameserver 10.0.0.1\n",
    "etc/ssh/sshd_config": "PasswordAuthentication no\n",
    "etc/ssh/ssh_host_ed25519_key": SECRET,
    "etc/ssh/ssh_host_ed25519_key.pub": "ssh-ed25519 AAAA\n",
    "etc/munge/munge.key": "k" * 32,
    "etc/hpcai/cluster.json": "{}\n",
    "etc/hpcai/slurmd.env": "SLURMD_OPTIONS=\n",
    "etc/hpcai/clocks.json": "{}\n",
    "etc/nvme/hostnqn": "nqn.2014-08.org.nvmexpress:uuid:1\n",
    "root/.ssh/authorized_keys": "ssh-ed25519 AAAA root\n",
    "root/.bash_history": "id\n",
    "root/.profile": "umask 022\n",
    "home/azureuser/.ssh/authorized_keys": "ssh-ed25519 AAAA me\n",
    "home/azureuser/.ssh/id_ed25519": SECRET,
    "home/azureuser/.ansible/tmp/ansible-tmp-1/x": "x",
    "home/azureuser/work.txt": "mine\n",
    "var/lib/hpcai/instance.json": "{}\n",
    "var/lib/slurm/slurmctld/node_state": "x",
    "var/lib/systemd/random-seed": "seed",
    "var/lib/waagent/Certificates.pem": SECRET,
    "var/lib/waagent/provisioned": "1\n",
    "var/lib/cloud/instances/i/user-data.txt": "secret\n",
    "var/lib/cloud/seed/nocloud/meta-data": "{}\n",
    "var/lib/dhcp/dhclient.eth0.leases": "lease {}\n",
    "var/lib/apt/lists/partial/.keep": "x",
    "var/lib/apt/lists/mirror_InRelease": "x",
    "var/cache/apt/archives/jq.deb": "x",
    "var/log/syslog": "boot\n",
    "var/log/syslog.1": "older\n",
    "var/log/chrony/measurements.log": "m\n",
    "var/log/journal/0123/system.journal": "j",
    "var/log/empty.log": "",
    "tmp/left/over": "x",
    "tmp/systemd-private-1-chrony/tmp/x": "x",
    "var/tmp/left": "x",
    "usr/bin/hpcnode": "#!/usr/bin/python3\n",
}


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    """The root of that machine."""
    root = tmp_path / "root"
    for name, text in USED.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "etc/shadow").chmod(0o640)
    (root / "var/lib/dbus").mkdir(parents=True)
    (root / "var/lib/dbus/machine-id").symlink_to("/etc/machine-id")
    return root
