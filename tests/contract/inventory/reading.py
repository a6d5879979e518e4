# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads an inventory source in a test: with the plugin, or with Ansible's command in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleParserError
from ansible.inventory.data import InventoryData
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import inventory_loader

from simulator.testing import Simulator

REPOSITORY = Path(__file__).parents[3]
COLLECTIONS = REPOSITORY / ".collections"
BIN = Path(sys.executable).parent


@dataclass
class Source:
    """An inventory file that reads a simulator."""

    path: Path
    simulator: Simulator
    options: dict[str, Any] = field(default_factory=dict)

    def write(self, **options: Any) -> Source:
        """Write the file, with these options in addition to those for the connection to the simulator."""
        self.options = {
            "plugin": "hpcai.azure.azure_vmss",
            "subscription_ids": [self.simulator.subscription_id],
            "endpoint": self.simulator.endpoint,
            "token": self.simulator.token,
            **options,
        }
        self.path.write_text(yaml.safe_dump(self.options), encoding="utf-8")
        return self

    def read(self, *, flush: bool = False, into: InventoryData | None = None, **options: Any) -> InventoryData:
        """Read the file with the plugin. With options, write the file first; ``flush`` is --flush-cache."""
        if options or not self.options:
            self.write(**options)
        inventory = InventoryData() if into is None else into
        plugin = inventory_loader.get("hpcai.azure.azure_vmss")
        plugin.parse(inventory, DataLoader(), str(self.path), cache=not flush)
        inventory.reconcile_inventory()
        return inventory


@dataclass(frozen=True)
class Finished:
    """The result of a command."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        """The JSON output, without Ansible's marks of strings that are not templates."""
        return dict(_plain(json.loads(self.stdout)))

    @property
    def hosts(self) -> set[str]:
        """The hosts in the output of `ansible-inventory --list`."""
        return set(self.json["_meta"]["hostvars"])


def ansible(program: str, *arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> Finished:
    """Run one of Ansible's programs as in a user's repository with an empty ansible.cfg."""
    (cwd / "ansible.cfg").touch()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "HPCAI_"))}
    try:
        done = subprocess.run(
            [BIN / program, *arguments],
            cwd=cwd,
            env={
                **inherited,
                "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
                "ANSIBLE_HOME": str(cwd / ".ansible"),
                **(env or {}),
            },
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        output = b"\n".join(text for text in (error.stdout, error.stderr) if isinstance(text, bytes))
        pytest.fail(f"{program} did not end within {error.timeout:g} s. Its output:\n{output.decode(errors='replace')}")
    return Finished(done.returncode, done.stdout, done.stderr)


def failure(source: Source, **options: Any) -> str:
    """The error of a source that must fail. Also checks that the inventory stays empty and no token is shown."""
    inventory = InventoryData()
    with pytest.raises(AnsibleParserError) as raised:
        source.read(into=inventory, **options)
    assert not inventory.hosts
    assert set(inventory.groups) == {"all", "ungrouped"}
    assert str(raised.value).startswith(f"{source.path}: ")
    assert "\n" not in str(raised.value)
    assert source.simulator.token not in str(raised.value)
    return str(raised.value)


def report(inventory: InventoryData) -> dict[str, Any]:
    """The report of the inventory on its first source."""
    return dict(inventory.groups["all"].vars["azure_inventory"]["sources"][0])


def facts(inventory: InventoryData, host: str) -> dict[str, Any]:
    """The variables of a host."""
    return dict(inventory.hosts[host].vars)


def members(inventory: InventoryData, group: str) -> set[str]:
    """The hosts of a group; empty if the group does not exist."""
    return {host.name for host in inventory.groups[group].get_hosts()} if group in inventory.groups else set()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"__ansible_unsafe"}:
            return value["__ansible_unsafe"]
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
