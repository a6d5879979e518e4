# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ansible reaches private nodes through the login node, over real ssh, with the inventory that users copy."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from pathlib import Path

from contract.inventory.reading import Finished, ansible
from contract.inventory.test_inventory_shipped import copy_of_shipped
from simulated.cluster import Cluster
from simulator.scenario import SUBSCRIPTION

PUBLIC, LOGIN = "10.78.0.200", "10.78.0.4"


def run(folder: Path, azure: Cluster) -> Finished:
    return ansible(
        *(
            "ansible",
            "azure_hosts",
            "-i",
            "azure_vmss.yml",
            "-m",
            "ansible.builtin.raw",
            "-a",
            "echo reached-from $SSH_CLIENT",
        ),
        *("-e", f"ansible_ssh_private_key_file={azure.state}/id_ed25519"),
        *("-e", f"hpcai_known_hosts={folder}/known_hosts"),
        cwd=folder,
        # Each run must check the host keys, so none may reuse an open connection.
        env={
            "HPCAI_AZURE_ENDPOINT": azure.endpoint,
            "HPCAI_AZURE_TOKEN": "simulated-token",
            "ANSIBLE_SSH_ARGS": "-o ControlMaster=no -o ControlPath=none",
        },
    )


def is_known(folder: Path, name: str) -> bool:
    """Whether known_hosts contains a host key for this name; names in it may be hashed."""
    found = subprocess.run(["ssh-keygen", "-F", name, "-f", folder / "known_hosts"], capture_output=True, check=False)
    return found.returncode == 0


def test_private_nodes_are_reached_and_their_host_keys_stored_by_vm_id(azure: Cluster, tmp_path: Path) -> None:
    folder = copy_of_shipped(tmp_path / "ops", SUBSCRIPTION, "sim")

    first = run(folder, azure)
    again = run(folder, azure)

    for finished in (first, again):
        assert finished.returncode == 0, finished.stdout + finished.stderr
        # From here to the login node, and from the login node to the two others.
        assert finished.stdout.count("reached-from 10.78.0.1 ") == 1
        assert finished.stdout.count(f"reached-from {LOGIN} ") == 2
    with urllib.request.urlopen(f"{azure.endpoint}/_simulator/state", timeout=10) as answer:
        machines = json.load(answer)["instances"]
    assert len(machines) == 3
    for machine in machines:
        assert is_known(folder, machine["vm_id"])
        assert not is_known(folder, machine["private_ipv4"])
    assert not is_known(folder, PUBLIC)


def test_a_machine_with_another_host_key_is_refused(azure: Cluster, tmp_path: Path) -> None:
    folder = copy_of_shipped(tmp_path / "ops", SUBSCRIPTION, "sim")
    assert run(folder, azure).returncode == 0
    known = folder / "known_hosts"
    lines = known.read_text(encoding="utf-8").splitlines()
    # Each machine's name gets the host key of another machine.
    names = [line.split(" ", 1)[0] for line in lines]
    keys = [line.split(" ", 1)[1] for line in lines]
    swapped = [f"{name} {key}" for name, key in zip(names, [*keys[1:], keys[0]], strict=True)]
    known.write_text("\n".join(swapped) + "\n", encoding="utf-8")

    finished = run(folder, azure)

    assert finished.returncode != 0
    assert "reached-from 10." not in finished.stdout
    assert "Host key verification failed" in finished.stdout + finished.stderr
