# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The inventory in Ansible's programs, in a user's repository with an empty ansible.cfg."""

from __future__ import annotations

from pathlib import Path

from .lists import SCALE_SETS
from .reading import Finished, Source, ansible

UNPARSED_IS_FAILED = {"ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true"}


def listed(source: Source, *arguments: str, env: dict[str, str] | None = None) -> Finished:
    return ansible("ansible-inventory", "-i", source.path.name, "--list", *arguments, cwd=source.path.parent, env=env)


def write(source: Source, text: str) -> None:
    source.path.write_text(f"plugin: hpcai.azure.azure_vmss\n{text}", encoding="utf-8")


def test_a_source_of_five_lines_works_with_environment_variables(source: Source) -> None:
    write(source, "include_vms: tagged\ntags:\n  hpcai_cluster: sim\n")

    finished = listed(
        source,
        env={
            "HPCAI_AZURE_ENDPOINT": source.simulator.endpoint,
            "HPCAI_AZURE_TOKEN": source.simulator.token,
            "HPCAI_AZURE_SUBSCRIPTION_IDS": source.simulator.subscription_id,
        },
    )

    assert finished.returncode == 0, finished.stderr
    assert {"ctl", "compute000000", "compute000003", "compute00000H"} < finished.hosts
    assert finished.json["hpcai_login"]["hosts"] == ["ctl"]
    assert "6 hosts, 6 ready" in " ".join(finished.stderr.split())
    assert "WARNING" not in finished.stderr


def test_the_subscription_of_azures_environment_variable_is_used(source: Source) -> None:
    write(source, "")

    finished = listed(
        source,
        env={
            "HPCAI_AZURE_ENDPOINT": source.simulator.endpoint,
            "HPCAI_AZURE_TOKEN": source.simulator.token,
            "AZURE_SUBSCRIPTION_ID": source.simulator.subscription_id,
        },
    )

    assert len(finished.hosts) == 5


def test_a_failed_source_is_an_error_only_with_the_advised_setting(
    source: Source,
) -> None:
    source.write()
    source.simulator.add_fault(SCALE_SETS, status=403, code="AuthorizationFailed")

    finished = listed(source)
    strict = listed(source, env=UNPARSED_IS_FAILED)

    # By default, Ansible only warns; the guard play of hpcai.azure.site detects this.
    assert finished.hosts == set()
    assert "azure_inventory" not in finished.stdout
    assert "403 AuthorizationFailed" in finished.stderr
    assert "Give the identity the action Microsoft.Compute/virtualMachineScaleSets/read" in " ".join(
        finished.stderr.split()
    )
    assert strict.returncode == 1
    assert source.simulator.token not in finished.stderr + strict.stderr


def test_a_failed_source_ends_ansible_with_one_message(source: Source) -> None:
    source.write(resource_groups=["no-such-group"])

    lenient = listed(source)
    strict = listed(source, env=UNPARSED_IS_FAILED)

    # Ansible also tries its own plugins, whose messages hide the cause.
    assert "'yaml' plugin" in lenient.stderr
    assert "'ini' plugin" in lenient.stderr
    lines = [line for line in strict.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, strict.stderr
    assert lines[0].startswith(f"[ERROR]: {source.path}: ")
    assert "no-such-group" in lines[0]
    assert strict.returncode == 1


def test_an_ini_inventory_still_works_beside_it(source: Source) -> None:
    source.write()
    (source.path.parent / "hosts.ini").write_text("[extra]\nbastion ansible_host=192.0.2.1\n", encoding="utf-8")

    finished = listed(source, "-i", "hosts.ini", env=UNPARSED_IS_FAILED)

    assert finished.returncode == 0, finished.stderr
    assert "bastion" in finished.hosts
    assert len(finished.hosts) == 6


def test_a_cached_answer_needs_neither_network_nor_sdk(source: Source, tmp_path: Path) -> None:
    source.write(
        cache=True,
        cache_plugin="ansible.builtin.jsonfile",
        cache_connection=str(tmp_path / "cache"),
        query="azure_vmss",
    )
    first = listed(source)
    source.simulator._server.stop()
    # Any import of the SDK fails with this package.
    poison = tmp_path / "poison" / "azure"
    poison.mkdir(parents=True)
    (poison / "__init__.py").write_text("raise AssertionError('the SDK was imported')\n", encoding="utf-8")
    env = {"PYTHONPATH": str(poison.parent)}

    second = listed(source, env=env)
    third = listed(source, "--flush-cache", env={**env, **UNPARSED_IS_FAILED})

    assert len(first.hosts) == 5
    assert second.hosts == first.hosts
    assert "from the cache" in second.stderr
    assert third.returncode != 0
    assert "the SDK was imported" in third.stderr


def test_templates_in_the_source_can_use_extra_variables(source: Source) -> None:
    write(
        source,
        "subscription_ids: ['{{ subscription }}']\n"
        f"endpoint: '{source.simulator.endpoint}'\n"
        f"token: '{source.simulator.token}'\n",
    )

    finished = listed(source, "-e", f"subscription={source.simulator.subscription_id}")

    assert len(finished.hosts) == 5, finished.stderr


def test_a_file_with_another_name_is_not_read(source: Source) -> None:
    source.write()
    source.path = source.path.rename(source.path.with_name("azure.yml"))

    finished = listed(source, env=UNPARSED_IS_FAILED)

    assert finished.returncode != 0
    assert source.simulator.requests() == []


def test_ansible_doc_shows_the_options(tmp_path: Path) -> None:
    finished = ansible("ansible-doc", "-t", "inventory", "-j", "hpcai.azure.azure_vmss", cwd=tmp_path)

    # ansible-doc exits with 0 even for a plugin that does not exist.
    doc = finished.json["hpcai.azure.azure_vmss"]["doc"]
    assert {"tags", "auth_source", "endpoint", "cache_timeout", "keyed_groups"} < set(doc["options"])
