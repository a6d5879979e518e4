# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scan of a folder for data of one machine or cluster, and for keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator.scan import LARGEST, scan

PEM = "-----BEGIN {} KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n" + "-----END {} KEY-----\n"
OPENSSH = PEM.replace("{}", "OPENSSH PRIVATE")
PLANTED = {
    "etc/ssh/ssh_host_ed25519_key": "x",
    "etc/ssh/ssh_host_ecdsa_key.pub": "x",
    "root/.ssh/authorized_keys": "ssh-ed25519 AAAA",
    "home/azureuser/.ssh/id_rsa": "x",
    "home/azureuser/notes.txt": "x",
    "home/azureuser/.profile": "another than the skeleton's",
    "etc/munge/munge.key": "x",
    "etc/hpcai/munge.key": "x",
    "etc/hpcai/cluster.json": "{}",
    "etc/hpcai/slurmd.env": "x",
    "etc/hpcai/node.json": '{"schema": 1, "vm_size": "Standard_ND96asr_v4"}',
    "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
    "etc/hostname": "compute000000",
    "etc/shadow": "root:$y$j9T$abc$def:20000:0:99999:7:::\n",
    "var/lib/dbus/machine-id": "x",
    "var/lib/hpcai/instance.json": "{}",
    "var/lib/hpcai/joining.json": "{}",
    "var/lib/systemd/random-seed": "x",
    "var/lib/cloud/instances/i-1/user-data.txt": "x",
    "var/lib/waagent/ovf-env.xml": "x",
    "var/lib/slurm/slurmctld/node_state": "x",
    "var/log/syslog": "a line",
    "root/.bash_history": "x",
    "root/.python_history": "x",
    "root/.ansible/tmp/x": "x",
    "tmp/left": "x",
    "usr/lib/python3/secret.py": OPENSSH,
    "opt/app/server.pem": "a certificate\n" + PEM.replace("{}", "PRIVATE"),
    "opt/app/old.pem": PEM.replace("{}", "RSA PRIVATE"),
    "opt/app/state.bin": "before the-munge-key-of-a-running-cluster after",
}
INNOCENT = {
    "etc/skel/.profile": "umask 022\n",
    "home/azureuser/.profile": "umask 022\n",
    "etc/machine-id": "",
    "etc/hpcai/node.json": '{"schema": 1, "vm_sizes": {"Standard_X": {"vcpus": 2}}}',
    "etc/shadow": "root:*:20000:0:99999:7:::\ndaemon:!:20000::::::\n",
    "var/log/wtmp": "",
    "etc/ssl/certs/ca.pem": PEM.replace("{} KEY", "CERTIFICATE"),
    "usr/share/doc/openssl/example.pem": PEM.replace("{}", "PRIVATE"),
    "usr/lib/python3/reader.py": 'MARK = "-----BEGIN OPENSSH PRIVATE KEY-----"\nprint(MARK)\n',
    "usr/lib/big.bin": OPENSSH + " " * LARGEST,
}
KNOWN = b"the-munge-key-of-a-running-cluster"


def plant(root: Path, name: str, text: str) -> None:
    """Write a file below a folder."""
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("name", PLANTED)
def test_the_scan_finds_a_planted_file(tmp_path: Path, name: str) -> None:
    for innocent, text in INNOCENT.items():
        plant(tmp_path, innocent, text)
    assert scan(tmp_path, [KNOWN]) == []
    plant(tmp_path, name, PLANTED[name])
    found = scan(tmp_path, [KNOWN])
    assert found
    assert all(line.startswith(f"/{name}: ") for line in found)


def test_the_scan_ignores_links(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hostname").symlink_to("/etc/hostname")
    (tmp_path / "etc/x").symlink_to("/nowhere")
    assert scan(tmp_path) == []
