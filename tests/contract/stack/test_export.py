# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stack that another team has deployed with the exported template."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import resource as kinds

from .cloud import Azure, smallest

MUNGE_KEY = "k" * 128


def deploy(azure: Azure, wanted: dict[str, Any], file: Path) -> dict[str, Any]:
    """Export a stack, and deploy it as a team does that has only the file. Returns the template."""
    group = wanted["group"]["adopt"]
    azure.put(group, {"location": wanted["location"]})
    azure.run(wanted, state="planned", export_to=str(file))
    template: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    given = {"mungeKey": {"value": MUNGE_KEY}} if "parameters" in template else {}
    body = {"properties": {"mode": "Incremental", "template": template, "parameters": given}}
    deployments = azure.simulator.deployments(retry_total=0).deployments
    deployments.begin_validate(group.rpartition("/")[2], "by-hand", body).result()
    deployments.begin_create_or_update(group.rpartition("/")[2], "by-hand", body).result()
    return template


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {
            "network": {"ssh_from": ["192.0.2.0/24"]},
            "shared_home": {"source": "azure_files", "size_gib": 512},
            "scale_sets": [{**smallest()["scale_sets"][0], "elastic": {}}],
        },
    ],
    ids=["smallest", "files and elastic"],
)
def test_the_exported_template_makes_the_stack(azure: Azure, tmp_path: Path, keys: dict[str, Any]) -> None:
    group = {"adopt": f"/subscriptions/{azure.simulator.subscription_id}/resourceGroups/theirs"}
    wanted = smallest(group=group, **keys)
    names = azure.names(wanted)
    template = deploy(azure, wanted, tmp_path / "stack.json")

    made = azure.simulator.model.deployments[names.of(kinds.DEPLOYMENT, "by-hand").lower()]
    assert [step.state for step in made.steps] == ["Succeeded"] * len(template["resources"])
    principals = {
        azure.get(one)["properties"]["principalId"] for one in (names.nodes_identity, names.controller_identity)
    }
    assert {
        one.properties["principalId"] for one in azure.simulator.model.documents.of(kinds.ROLE_ASSIGNMENT)
    } == principals
    secret = azure.simulator.model.vaults[names.vault.rpartition("/")[2].lower()].get("munge-key")
    assert secret is not None
    assert secret.value == MUNGE_KEY

    # From then on it is the stack's own: the first run only records that.
    azure.simulator.clear()
    first = azure.run(wanted)
    assert (first["changes"], first["notes"]) == ([], [])
    assert [path.rpartition("/")[2] for _method, path in azure.sent()] == ["hpcai-hpcai-record"]
    assert azure.run(wanted)["changed"] is False
    data = [one.rpartition("/")[2] for one in (names.account, names.home_disk, names.home_account)]
    azure.run(wanted, state="absent", data=data)
    assert [one.id for one in azure.simulator.model.documents if one.resource_group == "theirs"] == []
