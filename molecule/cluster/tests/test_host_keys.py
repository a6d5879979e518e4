# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An impostor answers at the address of a new machine, over real ssh, with the inventory that users copy.

The impostor is the machine itself, with host keys that differ from those that it printed at its first boot.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from contract.inventory.reading import Finished, ansible
from contract.inventory.test_inventory_shipped import copy_of_shipped
from simulated.cluster import Cluster
from simulator.scenario import SUBSCRIPTION

HOST = "compute000003"
MODES = ["available", pytest.param("required", marks=pytest.mark.thorough)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's repository without known host keys."""
    return copy_of_shipped(tmp_path / "ops", SUBSCRIPTION, "sim")


def machine(azure: Cluster) -> dict[str, Any]:
    """The machine in the simulator's state."""
    with urllib.request.urlopen(f"{azure.endpoint}/_simulator/state", timeout=10) as answer:
        (found,) = [item for item in json.load(answer)["instances"] if item["computer_name"] == HOST]
    return dict(found)


def set_boot_diagnostics(azure: Cluster, enabled: bool) -> None:
    """Switch the machine's boot diagnostics on or off."""
    url = f"{azure.endpoint}/_simulator/instances{machine(azure)['id']}"
    assert requests.patch(url, json={"boot_diagnostics": enabled}, timeout=10).status_code == 200


@pytest.fixture
def address(azure: Cluster) -> str:
    """The machine's private address."""
    return str(machine(azure)["private_ipv4"])


@pytest.fixture
def impostor(azure: Cluster, address: str) -> Iterator[None]:
    """The machine answers with new host keys; afterwards it has its own again."""
    restart = "sudo systemctl restart ssh"
    azure.ssh(
        address,
        f"sudo sh -c 'mkdir /root/keys && mv /etc/ssh/ssh_host_* /root/keys && ssh-keygen -q -A' && {restart}",
    )
    yield
    azure.ssh(
        address, f"sudo sh -c 'rm /etc/ssh/ssh_host_* && mv /root/keys/* /etc/ssh && rmdir /root/keys' && {restart}"
    )


def contact(folder: Path, azure: Cluster, *options: str) -> Finished:
    """Run what site.yml does up to the first contact with the machine."""
    return ansible(
        *("ansible-playbook", "-i", "azure_vmss.yml", "hpcai.azure.site", "--limit", HOST, "--tags", "nothing_more"),
        *("-e", f"ansible_ssh_private_key_file={azure.state}/id_ed25519", "-e", "hpcai_connect_timeout=5"),
        *("-e", f"hpcai_known_hosts={folder}/known_hosts"),
        *options,
        cwd=folder,
        env={
            "HPCAI_AZURE_ENDPOINT": azure.endpoint,
            "HPCAI_AZURE_TOKEN": "simulated-token",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_SSH_ARGS": "-o ControlMaster=no -o ControlPath=none",
        },
    )


def output_of(done: Finished) -> str:
    """The output of the run, on one line."""
    return " ".join((done.stdout + done.stderr).split())


def gathered(done: Finished) -> bool:
    """Whether the run gathered the machine's facts."""
    return f"ok: [{HOST}]" in done.stdout.partition("TASK [Gather facts]")[2].partition("\nTASK [")[0]


@pytest.mark.thorough
@pytest.mark.usefixtures("impostor")
def test_an_impostor_is_accepted_without_verification(azure: Cluster, folder: Path) -> None:
    done = contact(folder, azure, "-e", "hpcai_verify_host_keys=never")

    assert gathered(done), done.stdout + done.stderr


@pytest.mark.usefixtures("impostor")
@pytest.mark.parametrize("mode", MODES)
def test_an_impostor_is_refused_at_the_first_contact(azure: Cluster, folder: Path, mode: str) -> None:
    done = contact(folder, azure, "-e", f"hpcai_verify_host_keys={mode}")

    assert done.returncode != 0
    assert not gathered(done), done.stdout
    assert "Host key verification failed" in output_of(done)


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["available", "required"])
def test_the_genuine_machine_is_accepted(azure: Cluster, folder: Path, mode: str) -> None:
    done = contact(folder, azure, "-e", f"hpcai_verify_host_keys={mode}")

    assert gathered(done), done.stdout + done.stderr
    assert "Azure cannot verify" not in output_of(done)
    # The keys of the machine, and those of the login node on the way to it.
    known = (folder / "known_hosts").read_text(encoding="utf-8").splitlines()
    assert len({line.split()[0] for line in known}) == 2


@pytest.mark.thorough
def test_required_refuses_a_machine_that_azure_cannot_verify(azure: Cluster, folder: Path) -> None:
    set_boot_diagnostics(azure, False)
    try:
        required = contact(folder, azure, "-e", "hpcai_verify_host_keys=required")
        available = contact(folder, azure)
    finally:
        set_boot_diagnostics(azure, True)

    assert "Azure cannot verify the host keys of 1 of 2 machines" in output_of(required)
    assert "TASK [Wait for ssh]" not in required.stdout
    assert gathered(available), available.stdout + available.stderr
    assert "Azure cannot verify the host keys of 1 of 2 machines" in output_of(available)
