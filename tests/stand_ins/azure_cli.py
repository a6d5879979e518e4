# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The commands of ``az`` that the tutorial uses, for a simulated Azure: ``python -m stand_ins.azure_cli ...``.

Other commands and options are refused, as ``az`` does. The environment has the simulator's URL (HPCAI_AZURE_ENDPOINT),
and for uploads the account's URL with an IP address, its SAS and its certificate (SIMULATED_ACCOUNT,
SIMULATED_ACCOUNT_SAS, SIMULATED_ACCOUNT_CERTIFICATE).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests
from azure.mgmt.compute.models import Sku, VirtualMachineScaleSetUpdate

from simulator import TOKEN, clients
from simulator.scenario import SUBSCRIPTION

USER = "00000000-0000-4000-8000-00000000000c"
STORAGE = "2024-01-01"


def main(words: list[str]) -> int:
    """Run a command, and print its answer as ``--output tsv`` does."""
    parser = argparse.ArgumentParser(prog="az", allow_abbrev=False)
    kinds = parser.add_subparsers(required=True)
    for command, (run, options) in COMMANDS.items():
        added = kinds.add_parser(command, allow_abbrev=False)
        added.set_defaults(run=run)
        for option in options:
            flag = option == "--show-details"
            added.add_argument(option, **({"action": "store_true"} if flag else {"required": True}))
    # "vmss scale" is one command for argparse.
    first = next((place for place, word in enumerate(words) if word.startswith("-")), len(words))
    given = parser.parse_args([" ".join(words[:first]), *words[first:]])
    answer = given.run(given)
    if answer is not None:
        print(answer)
    return 0


def arm(path: str, version: str) -> dict[str, Any]:
    """Get something from the simulated Resource Manager."""
    url, headers = f"{os.environ['HPCAI_AZURE_ENDPOINT']}{path}", {"Authorization": f"Bearer {TOKEN}"}
    answer = requests.get(url, params={"api-version": version}, headers=headers, timeout=60)
    answer.raise_for_status()
    return dict(answer.json())


def nothing(_given: argparse.Namespace) -> None:
    """Sign in: the simulator accepts a fixed token."""


def subscription(given: argparse.Namespace) -> str:
    """The id of the subscription."""
    assert given.query == "id"
    return SUBSCRIPTION


def user(given: argparse.Namespace) -> str:
    """The id of the signed-in user."""
    assert given.query == "id"
    return USER


def scale(given: argparse.Namespace) -> None:
    """Change the capacity of a scale set, and wait until the instances exist."""
    update = VirtualMachineScaleSetUpdate(sku=Sku(capacity=int(given.new_capacity)))
    sets = clients.compute(os.environ["HPCAI_AZURE_ENDPOINT"]).virtual_machine_scale_sets
    sets.begin_update(given.resource_group, given.name, update).result()


def address(given: argparse.Namespace) -> str:
    """The public address of a virtual machine."""
    assert given.query == "publicIps"
    state = requests.get(f"{os.environ['HPCAI_AZURE_ENDPOINT']}/_simulator/state", timeout=60).json()
    (found,) = (one["public_ipv4"] for one in state["instances"] if one["name"] == given.name)
    return str(found)


def account(given: argparse.Namespace) -> str:
    """The id of a storage account of the subscription."""
    assert given.query == "id"
    listed = arm(f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Storage/storageAccounts", STORAGE)
    (found,) = (one["id"] for one in listed["value"] if one["name"] == given.name)
    return str(found)


def assign(given: argparse.Namespace) -> None:
    """Assign a role to the user. The simulated account has no roles, so only the scope is checked."""
    assert (given.assignee, given.role) == (USER, "Storage Blob Data Contributor")
    arm(given.scope, STORAGE)


def upload(given: argparse.Namespace) -> None:
    """Upload the files of a folder."""
    for path in sorted(Path(given.source).iterdir()):
        url = f"{os.environ['SIMULATED_ACCOUNT']}/{given.destination}/{path.name}?{os.environ['SIMULATED_ACCOUNT_SAS']}"
        headers = {"x-ms-version": "2021-12-02", "x-ms-blob-type": "BlockBlob"}
        trusted = os.environ["SIMULATED_ACCOUNT_CERTIFICATE"]
        requests.put(url, path.read_bytes(), headers=headers, verify=trusted, timeout=60).raise_for_status()


COMMANDS: dict[str, tuple[Callable[[argparse.Namespace], str | None], tuple[str, ...]]] = {
    "login": (nothing, ()),
    "account show": (subscription, ("--query", "--output")),
    "ad signed-in-user show": (user, ("--query", "--output")),
    "vmss scale": (scale, ("--resource-group", "--name", "--new-capacity")),
    "vm show": (address, ("--show-details", "--resource-group", "--name", "--query", "--output")),
    "storage account show": (account, ("--name", "--query", "--output")),
    "role assignment create": (assign, ("--role", "--assignee", "--scope")),
    "storage blob upload-batch": (upload, ("--account-name", "--destination", "--source", "--auth-mode")),
}
"""A command, what runs it, and all of its options."""

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
