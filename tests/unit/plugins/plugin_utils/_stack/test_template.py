# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The templates that Azure gets and that teams export, and the files for the next step."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.cluster_settings import (
    FROM_USER_DATA,
    settings_from,
)
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import resource as kinds
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import site
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.desired import TenantIds, desired
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.machines import user_data
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.ownership import Record, record_from
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.template import export, record_template, template

from .azure import NODES, TENANT, resources_of
from .stacks import sets, stack

FULL: dict[str, Any] = {
    "network": {"ssh_from": ["192.0.2.0/24"]},
    "shared_home": {"source": "azure_files", "size_gib": 512},
    "scale_sets": sets(2, health_extension=True),
}


def texts(value: Any) -> Iterator[str]:
    """Every text in a template."""
    if isinstance(value, dict):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    elif isinstance(value, str):
        yield value


def test_template_is_literal_and_names_its_dependencies() -> None:
    entries = [(one, one.body) for one in resources_of(stack(**FULL)) if one.kind not in (kinds.SECRET, *kinds.DIRECT)]
    made = template(entries)

    assert not [text for text in texts(made) if text.startswith("[")]
    ids = {one.id for one, _body in entries}
    for one, entry in zip((one for one, _body in entries), made["resources"], strict=True):
        # What is not in the template exists already.
        assert set(entry.get("dependsOn", ())) == set(one.needs) & ids
        assert len(entry["name"].split("/")) == len(entry["type"].split("/")) - 1
        assert ("scope" in entry) == (one.kind == kinds.ROLE_ASSIGNMENT)


def test_every_type_has_a_version() -> None:
    assert {one.kind for one in resources_of(stack(**FULL))} <= kinds.API_VERSIONS.keys()
    assert all(kinds.kind_of(one.id) == one.kind for one in resources_of(stack(**FULL)))


def test_export_is_complete_and_contains_no_secret() -> None:
    wanted = stack(**FULL)
    made = export(wanted, TENANT)

    expected = {one.kind for one in resources_of(wanted)} - {kinds.GROUP}
    assert {entry["type"] for entry in made["resources"]} == expected
    expressions = {text.split("(")[0] for text in texts(made) if text.startswith("[")}
    assert expressions == {"[reference", "[parameters", "[base64"}
    assert made["parameters"]["mungeKey"]["type"] == "securestring"
    # Whoever has only the file must learn that its capacity of 0 deletes all instances the second time.
    assert "Deploy this once" in made["metadata"]["description"]
    assert {one["sku"]["capacity"] for one in made["resources"] if one["type"] == kinds.SCALE_SET} == {0}
    # The names of role assignments are those of a run of the module, so that it finds them later.
    names = {entry["name"] for entry in made["resources"] if entry["type"] == kinds.ROLE_ASSIGNMENT}
    assert names == {one.name for one in resources_of(wanted) if one.kind == kinds.ROLE_ASSIGNMENT}
    json.dumps(made)


def test_export_with_an_adopted_vault_has_no_parameter() -> None:
    vault = f"{stack().group_id}/providers/Microsoft.KeyVault/vaults/central"
    made = export(stack(key_vault={"adopt": vault}), TENANT)

    assert "parameters" not in made
    assert vault not in [entry["name"] for entry in made["resources"]]


def test_record_survives_its_deployment() -> None:
    record = Record("hpcai/x", {"/subscriptions/s/resourceGroups/g": "", "/a/VM": "vm-id"})
    outputs = record_template(record)["outputs"]

    assert record_from({"properties": {"outputs": outputs}}, "hpcai/x") == record
    assert record_from({"properties": {"outputs": outputs}}, "hpcai/another") is None
    assert record_from(None, "hpcai/x") is None
    outputs["record"]["value"]["schema"] = 2
    with pytest.raises(ValueError, match="upgrade the collection"):
        record_from({"properties": {"outputs": outputs}}, "hpcai/x")


def test_user_data_is_what_the_boot_phase_reads() -> None:
    key = {"source": "key_vault", "vault": "https://keys.vault.azure.net", "secret": "munge", "client_id": NODES}
    text = decoded(user_data(stack(), ["compute"], key))
    content = json.loads(text)["hpcai"]

    assert content.pop("schema") == 1
    settings = settings_from(content, FROM_USER_DATA, "the user data")
    assert (settings.name, settings.functions, settings.controllers) == ("hpcai", ("compute",), ("10.42.0.4",))
    assert (settings.key.vault, settings.key.client_id) == ("https://keys.vault.azure.net", NODES)


def test_home_of_the_controller_is_in_its_user_data() -> None:
    assert set(controllers_user_data()) == {"hpcai", "bootcmd", "mounts"}


@pytest.mark.parametrize(
    ("content", "blkid", "formatted"),
    [
        (b"", 2, True),
        (b"", 0, False),
        # blkid knows nothing of it. It has the same status for a disk that cannot be read, as the folder here.
        (b"raw data", 2, False),
        (None, 2, False),
    ],
)
def test_data_disk_is_formatted_only_if_it_is_blank(
    content: bytes | None, blkid: int, formatted: bool, tmp_path: Path
) -> None:
    disk, done, programs = tmp_path / "lun0", tmp_path / "formatted", tmp_path / "bin"
    if content is None:
        disk.mkdir()
    else:
        disk.write_bytes(content.ljust(2 << 20, b"\0"))
    programs.mkdir()
    for name, text in (("blkid", f"exit {blkid}"), ("mkfs.ext4", f"echo $@ > {done}")):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    shell, option, script = controllers_user_data()["bootcmd"][0]
    script = script.replace("/dev/disk/azure/scsi1/lun0", str(disk)).replace("-b $disk", "-e $disk")
    subprocess.run([shell, option, script], check=True, env={"PATH": f"{programs}:{os.environ['PATH']}"})

    assert done.exists() is formatted
    if formatted:
        assert done.read_text(encoding="utf-8").split() == ["-q", "-L", "hpcai-home", str(disk)]


def controllers_user_data() -> dict[str, Any]:
    """The content of the controller's user data."""
    controller = next(
        one for one in desired(stack(), TenantIds(TENANT)) if one.name == "hpcai-controller" and one.kind == kinds.VM
    )
    text = decoded(controller.body["properties"]["userData"])
    assert text.startswith("#cloud-config\n")
    content: dict[str, Any] = yaml.safe_load(text)
    return content


def decoded(encoded: str) -> str:
    """The decoded user data."""
    return base64.b64decode(encoded).decode()


@pytest.mark.parametrize(
    ("home", "expected"),
    [
        ({}, {"shared_fs_exports": [{"path": "/shared"}], "shared_fs_networks": ["local", "10.42.128.0/17"]}),
        (
            {"source": "azure_files", "name": "homes1"},
            {
                "shared_fs_mounts": [
                    {
                        "path": "/shared",
                        "source": "homes1.file.core.windows.net:/homes1/home",
                        "options": ["vers=4", "minorversion=1", "sec=sys", "nconnect=4"],
                    }
                ]
            },
        ),
        ({"source": "none"}, {}),
    ],
)
def test_variables_for_the_site_follow_from_the_home(home: dict[str, Any], expected: dict[str, Any]) -> None:
    variables = site.variables_of(stack(shared_home=home), {})

    assert {key: value for key, value in variables.items() if key.startswith("shared_fs")} == expected
    assert ("slurm_user_home_base" in variables) == bool(expected)
    assert variables["hpcai_key_vault"].endswith(".vault.azure.net")


def test_lustre_file_system_is_mounted_from_its_own_address() -> None:
    lustre = f"{stack().group_id}/providers/Microsoft.StorageCache/amlFilesystems/fast"
    wanted = stack(shared_home={"source": "amlfs", "adopt": lustre})
    answer = {"properties": {"clientInfo": {"mgsAddress": "10.1.8.4", "lustreVersion": "2.15"}}}

    assert lustre not in [entry["name"] for entry in export(wanted, TENANT)["resources"]]
    assert site.variables_of(wanted, {lustre.lower(): answer})["shared_fs_mounts"] == [
        {"path": "/shared", "source": "10.1.8.4@tcp:/lustrefs", "type": "lustre"}
    ]


def test_single_address_has_the_form_that_each_service_accepts() -> None:
    wanted = stack(key_vault={"allow_from": ["192.0.2.8"]}, storage={"allow_from": ["192.0.2.8", "198.51.100.0/24"]})
    rules = {
        one.kind: [rule["value"] for rule in one.body["properties"]["networkAcls"]["ipRules"]]
        for one in resources_of(wanted)
        if one.kind in (kinds.VAULT, kinds.ACCOUNT)
    }

    assert rules == {kinds.VAULT: ["192.0.2.8/32"], kinds.ACCOUNT: ["192.0.2.8", "198.51.100.0/24"]}


def test_inventory_selects_the_stack_and_holds_no_secret() -> None:
    content = site.inventory_of(stack(network={"ssh_from": ["192.0.2.0/24"]}), {"auth_source": "cli", "endpoint": None})
    files = site.files_of(content, {"a": 1})

    loaded = yaml.safe_load(files["azure_vmss.yml"])
    assert loaded["resource_groups"] == ["hpcai"]
    assert loaded["tags"] == {"hpcai_cluster": "hpcai"}
    assert loaded["connect_with"] == ["public_ipv4", "private_ipv4"]
    assert "endpoint" not in loaded
