# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The contenders: each with the files, the command and the environment that its users would have."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchmarks import azure_rm_batch
from benchmarks.static import hosts
from simulator import TOKEN
from simulator.scenario import SUBSCRIPTION

REPOSITORY = Path(__file__).resolve().parents[2]
OURS = Path(sys.executable).parent
THEIRS = REPOSITORY / ".venv-bench"

LIVE = "azure_vmss"
READING = "azure_vmss, read but not printed"
CACHED = "azure_vmss, from its cache"
AZURE_RM = "azure_rm"
FLOOR = "SDK lists, one after the other"
CONCURRENT = "SDK lists, 8 at a time"
STATIC_JSON = "static file, JSON"
STATIC_YAML = "static file, YAML"
EMPTY = "static file, no host"


@dataclass(frozen=True)
class Contender:
    """One way to list the hosts."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    asks: bool = True
    """Whether it sends requests to Azure."""

    def found(self, output: Path) -> int:
        """The number of hosts that it found."""
        if self.name in (FLOOR, CONCURRENT):
            return int(output.read_text(encoding="utf-8"))
        if self.name == READING:
            # "  hosts (3):" and a line for each.
            return len(output.read_text(encoding="utf-8").splitlines()) - 1
        return hosts(output)


@dataclass(frozen=True)
class Endpoints:
    """The URLs of the simulated Azure, see serve.py."""

    plain: str
    secure: str
    admin: str
    certificate: str


def make(endpoints: Endpoints, folder: Path, azure_rm: bool, in_yaml: bool) -> list[Contender]:
    """All contenders, with their files in the folder."""
    source = _source(folder / "live.azure_vmss.yml", endpoints)
    reading = str(OURS / "ansible"), "all", "--list-hosts", "-i", str(source)
    contenders = [
        _ansible(LIVE, source, folder),
        Contender(READING, reading, _environment(folder, REPOSITORY / ".collections")),
        _floor(FLOOR, endpoints),
        _floor(CONCURRENT, endpoints, "concurrent"),
        _ansible(CACHED, cached_source(endpoints, folder), folder, asks=False),
        _ansible(STATIC_JSON, static_files(folder)[0], folder, asks=False),
        _ansible(EMPTY, _write(folder / "empty.yaml", {"all": {}}), folder, asks=False),
    ]
    if in_yaml:
        contenders.append(_ansible(STATIC_YAML, static_files(folder)[1], folder, asks=False))
    if azure_rm:
        contenders.insert(1, _azure_rm(endpoints, folder))
    return contenders


def cached_source(endpoints: Endpoints, folder: Path) -> Path:
    """The inventory source that caches its answer."""
    options = {
        "cache": True,
        "cache_plugin": "ansible.builtin.jsonfile",
        "cache_connection": str(folder / "cache"),
        "cache_timeout": 86400,
    }
    return _source(folder / "cached.azure_vmss.yml", endpoints, options)


def static_files(folder: Path) -> tuple[Path, Path]:
    """The static inventories that benchmarks.static writes."""
    return folder / "static.json", folder / "static.yaml"


def _source(path: Path, endpoints: Endpoints, options: Mapping[str, object] | None = None) -> Path:
    source = {
        "plugin": "hpcai.azure.azure_vmss",
        "subscription_ids": [SUBSCRIPTION],
        "endpoint": endpoints.plain,
        "token": TOKEN,
        **(options or {}),
    }
    return _write(path, source)


def _write(path: Path, document: object) -> Path:
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def _ansible(name: str, source: Path, folder: Path, *, asks: bool = True) -> Contender:
    environment = _environment(folder, REPOSITORY / ".collections")
    return Contender(name, (str(OURS / "ansible-inventory"), "--list", "-i", str(source)), environment, asks=asks)


def _floor(name: str, endpoints: Endpoints, *how: str) -> Contender:
    script = str(Path(__file__).with_name("floor.py"))
    environment = {**_inherited(), "PYTHONPATH": str(REPOSITORY / "tests")}
    return Contender(name, (sys.executable, script, endpoints.plain, *how), environment)


def _azure_rm(endpoints: Endpoints, folder: Path) -> Contender:
    """The unchanged plugin. It reads the list of clouds, gets a managed identity's token, and trusts our CA."""
    source = {
        "plugin": "azure.azcollection.azure_rm",
        "auth_source": "msi",
        "cloud_environment": endpoints.secure,
        "subscription_id": SUBSCRIPTION,
        "include_vm_resource_groups": ["*"],
        "include_vmss_resource_groups": ["*"],
    }
    path = _write(folder / "azure_rm.yml", source)
    settings = folder / "azure"
    settings.mkdir(exist_ok=True)
    environment = {
        **_environment(folder, THEIRS / "collections"),
        "ARM_CLOUD_METADATA_URL": f"{endpoints.plain}{azure_rm_batch.CLOUDS}",
        "AZURE_CONFIG_DIR": str(settings),
        "IDENTITY_ENDPOINT": f"{endpoints.plain}{azure_rm_batch.TOKENS}",
        "IDENTITY_HEADER": "simulated",
        "REQUESTS_CA_BUNDLE": endpoints.certificate,
    }
    command = str(THEIRS / "bin" / "ansible-inventory"), "--list", "-i", str(path)
    return Contender(AZURE_RM, command, environment)


def _environment(folder: Path, collections: Path) -> dict[str, str]:
    """An environment with only one setting of Ansible: a failed source fails the run."""
    configuration = folder / "ansible.cfg"
    configuration.write_text("[inventory]\nany_unparsed_is_failed = true\n", encoding="utf-8")
    return {
        **_inherited(),
        "ANSIBLE_COLLECTIONS_PATH": str(collections),
        "ANSIBLE_CONFIG": str(configuration),
        "ANSIBLE_HOME": str(folder / "ansible"),
    }


def _inherited() -> dict[str, str]:
    """The caller's environment without variables that could change a contender's behaviour."""
    removed = ("ANSIBLE_", "AZURE_", "HPCAI_", "IDENTITY_", "MSI_", "PYTHON", "http_", "https_", "HTTP_", "HTTPS_")
    return {name: value for name, value in os.environ.items() if not name.startswith(removed)}
