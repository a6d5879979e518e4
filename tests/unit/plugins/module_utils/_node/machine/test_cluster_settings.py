# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which cluster a machine belongs to: which settings are valid, which take precedence, and what is remembered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.cluster_settings import (
    FROM_FILE,
    FROM_USER_DATA,
    MEMORY_FILE,
    ClusterSettings,
    Joining,
    KeySource,
    as_stated,
    cluster_of,
    remember_joining,
    remembered,
    settings_from,
    vault_of,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

VAULT = "https://hpcai-sim.vault.azure.net"
STATED: dict[str, Any] = {
    "cluster": "training",
    "functions": ["compute"],
    "controllers": ["10.0.0.4", "ctl-2.example.org"],
    "key": {"source": "key_vault", "vault": VAULT, "secret": "munge-key", "client_id": None},
}
JOINING = Joining("compute-17", settings_from(STATED, FROM_USER_DATA, "here"))


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """An empty machine."""
    return Root(str(tmp_path))


def write(root: Root, path: str, document: Any) -> None:
    """Write a file of the machine."""
    file = Path(root.at(path))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")


def test_a_machine_without_settings_belongs_to_no_cluster(root: Root) -> None:
    assert cluster_of(root) is None


def test_the_playbooks_settings_are_read(root: Root) -> None:
    write(root, "/etc/hpcai/cluster.json", {"schema": 1, **STATED})
    assert cluster_of(root) == ClusterSettings(
        name="training",
        functions=("compute",),
        controllers=("10.0.0.4", "ctl-2.example.org"),
        key=KeySource("key_vault", VAULT, "munge-key", None),
        origin=FROM_FILE,
    )


def test_written_settings_are_read_back_unchanged() -> None:
    assert JOINING.settings is not None
    assert settings_from(as_stated(JOINING.settings), FROM_USER_DATA, "there") == JOINING.settings


def test_the_key_is_pushed_by_default() -> None:
    settings = settings_from({**STATED, "key": None}, FROM_FILE, "here")
    assert settings.key == KeySource("push", None, "munge-key", None)


def test_the_vault_is_ignored_if_the_key_is_pushed() -> None:
    settings = settings_from({**STATED, "key": {"source": "push", "vault": ""}}, FROM_FILE, "here")
    assert settings.key.source == "push"


def test_the_playbooks_settings_override_the_user_data(root: Root) -> None:
    remember_joining(root, "1-2-3", JOINING)
    write(root, "/etc/hpcai/cluster.json", {"schema": 1, **STATED, "cluster": "other"})
    cluster = cluster_of(root)
    assert cluster is not None
    assert (cluster.name, cluster.origin) == ("other", FROM_FILE)


def test_settings_from_the_user_data_are_remembered(root: Root) -> None:
    remember_joining(root, "1-2-3", JOINING)
    assert remembered(root) == JOINING
    assert cluster_of(root) == JOINING.settings
    assert Path(root.at(MEMORY_FILE)).stat().st_mode & 0o777 == 0o644


def test_remembered_settings_of_another_machine_are_ignored(root: Root) -> None:
    write(root, "/sys/class/dmi/id/product_uuid", "AAAA")
    remember_joining(root, "1-2-3", JOINING)
    write(root, "/sys/class/dmi/id/product_uuid", "aaaa")
    assert remembered(root) == JOINING
    write(root, "/sys/class/dmi/id/product_uuid", "bbbb")
    assert remembered(root) is None
    assert cluster_of(root) is None


def test_without_a_firmware_id_the_machine_id_identifies_the_machine(root: Root) -> None:
    write(root, "/etc/machine-id", "a" * 32)
    remember_joining(root, "1-2-3", JOINING)
    assert remembered(root) == JOINING
    write(root, "/etc/machine-id", "b" * 32)
    assert remembered(root) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"node_name": 4}', "[" * 100000])
def test_remembered_settings_that_cannot_be_read_are_ignored(root: Root, text: str) -> None:
    write(root, MEMORY_FILE, text)
    assert remembered(root) is None


def test_a_file_of_a_newer_schema_is_an_error(root: Root) -> None:
    write(root, "/etc/hpcai/cluster.json", {"schema": 2, **STATED})
    with pytest.raises(ConfigError, match="has schema 2"):
        cluster_of(root)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"cluster": ""}, "here: cluster must be a text of letters, digits, .*, not ''"),
        ({"cluster": None}, "cluster must be .*, not None"),
        ({"cluster": "a b"}, "cluster must be"),
        ({"functions": "compute"}, "functions must be a list, not 'compute'"),
        ({"functions": [1]}, r"functions\[0\] must be controller, login or compute, not 1"),
        ({"functions": ["gpu"]}, r"functions\[0\] must be controller, login or compute, not 'gpu'"),
        ({"controllers": []}, "here: controllers is empty"),
        ({"controllers": None}, "controllers must be a list"),
        # It is written to a file that systemd reads, and to slurmd's command line.
        ({"controllers": ['10.0.0.4" --evil']}, r"controllers\[0\] must be an address or a name"),
        ({"controllers": ["-N evil"]}, r"controllers\[0\] must be an address or a name"),
        ({"controllers": ["10.0.0.4\nLD_PRELOAD=/tmp/x"]}, r"controllers\[0\] must be an address or a name"),
        ({"controllers": ["a,b"]}, r"controllers\[0\] must be an address or a name"),
        ({"extra": 1}, "here: has unknown keys extra"),
        ({"key": "push"}, "key must be a mapping with keys of source, "),
        ({"key": {}}, "key lacks source"),
        ({"key": {"source": "file"}}, "key.source must be push or key_vault, not 'file'"),
        ({"key": {"source": "key_vault"}}, "key lacks vault: key_vault requires the vault's URL"),
        (
            {"key": {"source": "key_vault", "vault": "http://a.vault.azure.net"}},
            "here: key.vault: .* is not the URL of a key vault",
        ),
        ({"key": {"source": "push", "secret": "../other"}}, "key.secret must be"),
        ({"key": {"source": "push", "client_id": "me"}}, "key.client_id must be a GUID, not 'me'"),
        ({"key": {"source": "push", "key": "abc"}}, "key has unknown keys key;"),
    ],
)
def test_invalid_settings_are_one_error_that_names_the_key(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        settings_from({**STATED, **changed}, FROM_FILE, "here")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "name", "resource"),
    [
        (VAULT, "hpcai-sim", "https://vault.azure.net"),
        (f"{VAULT}/", "hpcai-sim", "https://vault.azure.net"),
        ("https://HPCAI-Sim.Vault.Azure.Net:8443", "hpcai-sim", "https://vault.azure.net"),
        ("https://abc.vault.azure.cn", "abc", "https://vault.azure.cn"),
        ("https://abc.vault.usgovcloudapi.net", "abc", "https://vault.usgovcloudapi.net"),
    ],
)
def test_a_vaults_url_gives_its_name_and_the_resource_for_a_token(url: str, name: str, resource: str) -> None:
    vault = vault_of(url)
    assert (vault.name, vault.resource) == (name, resource)
    assert not vault.url.endswith("/")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hpcai-sim",
        "http://hpcai-sim.vault.azure.net",
        "https://vault.azure.net",
        "https://evil.example/.vault.azure.net",
        "https://evil.example#.vault.azure.net",
        "https://user@hpcai-sim.vault.azure.net",
        "https://a.b.vault.azure.net",
        "https://hpcai-sim.vault.azure.net.evil.example",
        "https://hpcai-sim.vault.azure.net/secrets/munge-key",
        "https://hpcai-sim.vault.azure.net\n",
        "https://hpcai-sim.vault-azure.net",
        "https://-sim.vault.azure.net",
    ],
)
def test_urls_that_are_not_key_vaults_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="is not the URL of a key vault"):
        vault_of(url)
