# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is in the baked image: nothing of one machine or cluster, and no key. And that the scan for it finds some."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulator.backends.containers import base_image, images, machine
from simulator.backends.containers.command import run
from simulator.backends.containers.places import LABEL_NAME, LABEL_STATE
from simulator.backends.containers.podman import Podman
from simulator.scan import LARGEST, scan

NAME = "image-scan"
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
    """Put a file into a tree."""
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("name", PLANTED)
def test_scan_finds_what_is_planted(tmp_path: Path, name: str) -> None:
    for innocent, text in INNOCENT.items():
        plant(tmp_path, innocent, text)
    assert scan(tmp_path, [KNOWN]) == []
    plant(tmp_path, name, PLANTED[name])
    found = scan(tmp_path, [KNOWN])
    assert found
    assert all(line.startswith(f"/{name}: ") for line in found)


def test_scan_looks_at_no_link(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hostname").symlink_to("/etc/hostname")
    (tmp_path / "etc/x").symlink_to("/nowhere")
    assert scan(tmp_path) == []


@pytest.fixture(scope="module")
def fresh() -> Iterator[Path]:
    """The root of a machine that was made of the baked image and has never been started."""
    if os.geteuid() != 0:
        pytest.skip("machines need root")
    podman = Podman()
    podman.remove_containers([NAME])
    run(["ip", "netns", "delete", NAME], check=False)
    image = images.prepare(print)
    # podman wants to see a machine's network, even that of one which is never started.
    run(["ip", "netns", "add", NAME])
    machine.create(
        podman,
        name=NAME,
        image=image,
        namespace=NAME,
        labels={LABEL_NAME: NAME, LABEL_STATE: NAME},
        local_disk=None,
    )
    try:
        yield machine.root_folder(podman, NAME)
    finally:
        machine.release(podman, NAME)
        podman.remove_containers([NAME])
        run(["ip", "netns", "delete", NAME], check=False)


@pytest.mark.nodes
@pytest.mark.timeout(900)
def test_fresh_copy_of_the_image_holds_nothing_of_a_machine_or_a_cluster(fresh: Path) -> None:
    assert (fresh / "usr/bin/hpcnode").exists()
    assert scan(fresh) == []


@pytest.mark.nodes
@pytest.mark.timeout(900)
def test_scan_of_the_image_finds_a_key_that_is_planted_there(fresh: Path) -> None:
    place = fresh / "usr/lib/x86/cache.dat"
    plant(fresh, "usr/lib/x86/cache.dat", OPENSSH)
    try:
        assert scan(fresh) == ["/usr/lib/x86/cache.dat: a private key"]
    finally:
        place.unlink()


@pytest.mark.nodes
@pytest.mark.timeout(900)
def test_image_trusts_the_authority_of_the_simulated_vaults(fresh: Path) -> None:
    wanted = base_image.authority().certificate
    assert (fresh / "usr/local/share/ca-certificates/hpcai-simulator.crt").read_bytes() == wanted
    assert wanted.strip() in (fresh / "etc/ssl/certs/ca-certificates.crt").read_bytes()
