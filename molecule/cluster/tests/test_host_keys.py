# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An impostor at a new machine's address, over real ssh, with the inventory that users copy.

The impostor is the machine itself with other host keys than those that it printed at its first boot.
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
WAYS = ["available", pytest.param("required", marks=pytest.mark.thorough)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's repository whose ssh knows no machine."""
    return copy_of_shipped(tmp_path / "ops", SUBSCRIPTION, "sim")


def machine(azure: Cluster) -> dict[str, Any]:
    """What the simulator says of the machine."""
    with urllib.request.urlopen(f"{azure.endpoint}/_simulator/state", timeout=10) as answer:
        (found,) = [item for item in json.load(answer)["instances"] if item["computer_name"] == HOST]
    return dict(found)


def diagnose(azure: Cluster, wanted: bool) -> None:
    """Switch the machine's boot diagnostics."""
    url = f"{azure.endpoint}/_simulator/instances{machine(azure)['id']}"
    assert requests.patch(url, json={"boot_diagnostics": wanted}, timeout=10).status_code == 200


@pytest.fixture
def address(azure: Cluster) -> str:
    """Where the machine is."""
    return str(machine(azure)["private_ipv4"])


@pytest.fixture
def impostor(azure: Cluster, address: str) -> Iterator[None]:
    """Somebody else answers there."""
    restart = "sudo systemctl restart ssh"
    azure.ssh(
        address,
        f"sudo sh -c 'mkdir /root/keys && mv /etc/ssh/ssh_host_* /root/keys && ssh-keygen -q -A' && {restart}",
    )
    yield
    azure.ssh(
        address, f"sudo sh -c 'rm /etc/ssh/ssh_host_* && mv /root/keys/* /etc/ssh && rmdir /root/keys' && {restart}"
    )


def reach(folder: Path, azure: Cluster, *options: str) -> Finished:
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


def words(done: Finished) -> str:
    """What the run said, on one line."""
    return " ".join((done.stdout + done.stderr).split())


def gathered(done: Finished) -> bool:
    """Whether the machine gave its facts."""
    return f"ok: [{HOST}]" in done.stdout.partition("TASK [Gather facts]")[2].partition("\nTASK [")[0]


@pytest.mark.thorough
@pytest.mark.usefixtures("impostor")
def test_an_impostor_is_accepted_where_nobody_verifies(azure: Cluster, folder: Path) -> None:
    done = reach(folder, azure, "-e", "hpcai_verify_host_keys=never")

    assert gathered(done), done.stdout + done.stderr


@pytest.mark.usefixtures("impostor")
@pytest.mark.parametrize("way", WAYS)
def test_an_impostor_is_refused_at_the_first_contact(azure: Cluster, folder: Path, way: str) -> None:
    done = reach(folder, azure, "-e", f"hpcai_verify_host_keys={way}")

    assert done.returncode != 0
    assert not gathered(done), done.stdout
    assert "Host key verification failed" in words(done)


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["available", "required"])
def test_the_machine_itself_is_reached(azure: Cluster, folder: Path, way: str) -> None:
    done = reach(folder, azure, "-e", f"hpcai_verify_host_keys={way}")

    assert gathered(done), done.stdout + done.stderr
    assert "Azure cannot verify" not in words(done)
    # Its own and those of the login node, which leads to it.
    known = (folder / "known_hosts").read_text(encoding="utf-8").splitlines()
    assert len({line.split()[0] for line in known}) == 2


@pytest.mark.thorough
def test_required_stops_before_a_machine_that_nobody_can_vouch_for(azure: Cluster, folder: Path) -> None:
    diagnose(azure, False)
    try:
        required = reach(folder, azure, "-e", "hpcai_verify_host_keys=required")
        available = reach(folder, azure)
    finally:
        diagnose(azure, True)

    assert "Azure cannot verify the host keys of 1 of 2 machines" in words(required)
    assert "TASK [Wait for ssh]" not in required.stdout
    assert gathered(available), available.stdout + available.stderr
    assert "Azure cannot verify the host keys of 1 of 2 machines" in words(available)
