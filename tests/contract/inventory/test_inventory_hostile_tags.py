# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Many people can set tags of a machine, so text in tags is never executed and never treated as a template."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleError
from ansible.inventory.data import InventoryData
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from .reading import Source, ansible, facts, members

TEMPLATE = "{{ 7*6 }}"
HOSTILE = [
    TEMPLATE,
    "{% for i in range(9) %}x{% endfor %}",
    "{{ lookup('ansible.builtin.pipe', 'touch /tmp/hpcai-owned') }}",
    "line one\nline two",
    "x" * 256,
    "ключ: [значение]",
    "!unsafe x",
]


@pytest.mark.parametrize("value", HOSTILE)
def test_a_tag_is_not_changed_or_templated(source: Source, value: str) -> None:
    source.simulator.edit("compute_3", tags={"note": value})

    inventory = source.read()

    variables = facts(inventory, "compute000003")
    assert variables["azure_tags"]["note"] == value
    templar = Templar(DataLoader(), variables=variables)
    assert templar.template(variables["azure_tags"]["note"]) == value
    assert templar.template(trust_as_template("{{ azure_tags.note }}")) == value


@pytest.mark.parametrize(
    ("value", "group"),
    [
        (TEMPLATE, "tag____7_6___"),
        ("line one\nline two", "tag_line_one_line_two"),
        ("x" * 256, "tag_" + "x" * 256),
    ],
)
def test_a_tag_with_a_template_is_only_sanitized_as_a_group_name(source: Source, value: str, group: str) -> None:
    source.simulator.edit("compute_3", tags={"note": value})

    inventory = source.read(keyed_groups=[{"key": "azure_tags.note", "prefix": "tag"}])

    assert members(inventory, group) == {"compute000003"}


def test_a_role_with_a_template_is_only_sanitized_as_a_group_name(source: Source) -> None:
    source.simulator.edit("compute_3", tags={"hpcai_role": f"Login , {TEMPLATE},,a\nb,login"})

    inventory = source.read()

    assert facts(inventory, "compute000003")["azure_roles"] == ["login", TEMPLATE, "a\nb"]
    roles = {name for name in inventory.groups if name.startswith("hpcai_") and members(inventory, name)}
    assert roles == {"hpcai_compute", "hpcai_login", "hpcai____7_6___", "hpcai_a_b"}


def test_a_computer_name_that_is_an_ssh_option_is_not_used_as_address(source: Source) -> None:
    source.simulator.edit("compute_3", computer_name="-oProxyCommand=touch /tmp/hpcai-owned")

    inventory = source.read(connect_with="computer_name", hostnames=["name"])

    assert "ansible_host" not in facts(inventory, "compute_3")


def test_templates_in_the_source_are_evaluated(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAM_SUBSCRIPTION", source.simulator.subscription_id)

    inventory = source.read(
        subscription_ids="{{ lookup('ansible.builtin.env', 'TEAM_SUBSCRIPTION') }}",
        tags={"hpcai_cluster": "{{ 's' ~ 'im' }}"},
        compose={"answer": "7 * 6"},
        groups={"odd": "azure_instance_id in ['3', '17']"},
    )

    assert members(inventory, "odd") == {"compute000003", "compute00000H"}
    assert facts(inventory, "compute000000")["answer"] == 42


def test_a_failed_strict_template_leaves_the_inventory_empty(source: Source) -> None:
    # The template fails only on the last host.
    inventory = InventoryData()

    with pytest.raises(AnsibleError, match="number"):
        source.read(
            into=inventory,
            strict=True,
            scale_sets=["compute"],
            compose={"number": "{'0': 1, '3': 2}[azure_instance_id]"},
        )

    assert not inventory.hosts
    assert set(inventory.groups) == {"all", "ungrouped"}
    assert "azure_inventory" not in inventory.groups["all"].vars


def test_without_strict_failed_templates_are_skipped(source: Source) -> None:
    inventory = source.read(scale_sets=["compute"], compose={"number": "{'0': 1, '3': 2}[azure_instance_id]"})

    assert [facts(inventory, name).get("number") for name in inventory.hosts] == [1, 2, None]


def test_a_playbook_gets_a_hostile_tag_unchanged(source: Source) -> None:
    # A complete Ansible run in a separate process: nothing between the plugin and a task may trust the tag.
    source.simulator.edit("compute_3", tags={"note": TEMPLATE})
    source.write()

    finished = ansible(
        "ansible",
        "compute000003",
        *("-i", source.path, "-c", "local", "-m", "ansible.builtin.debug"),
        *("-a", '{"msg": "{{ azure_tags.note }} {{ azure_tags.note | length }}"}'),
        cwd=source.path.parent,
    )

    assert finished.returncode == 0, finished.stderr
    assert '"msg": "{{ 7*6 }} 9"' in finished.stdout
