# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Copied commands contain only harmless names, and links lead where they should."""

from __future__ import annotations

import importlib
import pathlib
import shlex
from typing import Any
from urllib.parse import unquote

import pytest
import yaml
from stand_ins.health_results import TIME, azure_id

from ansible_collections.hpcai.azure.plugins.module_utils._node.health import catalog
from ansible_collections.hpcai.azure.plugins.plugin_utils._report import commands

REPOSITORY = pathlib.Path(__file__).resolve().parents[5]


def node(host_name: str, slurm_name: str = "") -> dict[str, str]:
    """What a report holds of a node's names."""
    return {"host_name": host_name, "slurm_name": slurm_name or host_name}


def texts(*nodes: dict[str, str], tier: str = "periodic", time: str = TIME) -> dict[str, str]:
    """The commands about these nodes by their labels."""
    made = commands.commands_of({"tier": tier, "time": time})
    return {command.label: command.text(nodes) for command in made}


def test_the_commands_about_failing_nodes() -> None:
    assert texts(node("compute-482"), node("compute-379")) == {
        "Host list": "compute-[379,482]",
        "scontrol show": "scontrol show node 'compute-[379,482]'",
        "scontrol drain": (
            "sudo scontrol update 'NodeName=compute-[379,482]' State=DRAIN "
            "'Reason=health report of 2026-11-22T16:40:00Z'"
        ),
        "health_check --limit": "ansible-playbook hpcai.azure.health_check --limit compute-482,compute-379",
        "replace": "ansible-playbook hpcai.azure.replace -e 'hpcai_replace=compute-[379,482]'",
    }


def test_slurm_and_ansible_have_their_own_names() -> None:
    found = texts(node("vm-a", "compute-3"), node("vm-b", "compute-20"), node("vm-c", "compute-4"), tier="deep")
    assert found["Host list"] == "compute-[3-4,20]"
    assert found["replace"].endswith(" 'hpcai_replace=compute-[3-4,20]'")
    assert found["health_check --limit"].endswith(" -e hpcai_health_tier=deep --limit vm-a,vm-b,vm-c")


@pytest.mark.parametrize(
    "name",
    ["$(reboot)", "a;b", "a b", "a'b", "-x", "a[0-9]", "a,b", "a\nb", "*", "!all", "~.*", "&x", "{{ x }}", "a:b", ""],
)
def test_a_name_that_a_shell_or_a_pattern_could_interpret_is_in_no_command(name: str) -> None:
    for bad in ({"host_name": name, "slurm_name": "b-1"}, {"host_name": "b-1", "slurm_name": name}):
        assert not commands.is_usable(bad)
        assert texts(node("compute-1"), bad) == texts(node("compute-1"))
        assert set(texts(bad).values()) == {""}


def test_a_text_in_the_place_of_the_time_or_the_tier_is_one_word() -> None:
    found = texts(node("n-1"), tier="deep'; reboot", time="'; reboot; '")
    assert "reboot" not in found["scontrol drain"]
    words = shlex.split(found["health_check --limit"])
    assert words[3] == "hpcai_health_tier=deep'; reboot"
    assert shlex.split(found["scontrol drain"])[-1] == "Reason=health report"


def test_the_portal_opens_at_the_instance() -> None:
    link = commands.portal_link(azure_id("compute-3"))
    assert link.startswith("https://portal.azure.com/#resource/subscriptions/00000000-0000-0000-0000-000000000001/")
    assert link.endswith("/virtualMachineScaleSets/compute/virtualMachines/3")
    odd = azure_id('compute-3"><b> ü')
    assert not set(commands.portal_link(odd)) & set('"<> ü')
    assert unquote(commands.portal_link(odd)).endswith(odd)


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "compute-3",
        "javascript:alert(1)/subscriptions/s/resourceGroups/g/virtualMachines/v",
        "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/compute",
    ],
)
def test_without_the_id_of_an_instance_there_is_no_link(wrong: str) -> None:
    assert commands.portal_link(wrong) == ""


def test_the_documentation_is_where_the_collection_says() -> None:
    galaxy = yaml.safe_load((REPOSITORY / "galaxy.yml").read_text(encoding="utf-8"))
    assert galaxy["documentation"] == commands.DOCUMENTATION
    folder = commands.DOCUMENTATION.partition("/tree/main/")[2]
    assert (REPOSITORY / folder / commands.GUIDE).is_file()


@pytest.fixture(scope="module")
def anchors() -> set[str]:
    """The anchors of the guide's page."""
    guide = (REPOSITORY / "docs" / commands.GUIDE).read_text(encoding="utf-8")
    # It has no type hints. Sphinx's and Ansible's own roles are unknown to it.
    docutils: Any = importlib.import_module("docutils.core")
    quiet = {"report_level": 5, "halt_level": 5}
    return set(docutils.publish_doctree(guide, settings_overrides=quiet).ids)


def test_each_check_has_its_section_in_the_guide(anchors: set[str]) -> None:
    links = {name: commands.documentation_link(name) for name in catalog.NAMES}
    start = f"{commands.DOCUMENTATION}/{commands.GUIDE}#"
    assert all(link.startswith(start) for link in links.values())
    assert not {name for name, link in links.items() if link.removeprefix(start) not in anchors}


@pytest.mark.parametrize("name", ["", "gpu-count", "no_such_check", '"><script>'])
def test_an_unknown_check_has_no_link(name: str) -> None:
    assert commands.documentation_link(name) == ""
