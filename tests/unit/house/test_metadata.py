# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts that several files repeat must agree: versions, minimum versions, lists of modules."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest
import yaml


def pins(path: pathlib.Path, operator: str) -> dict[str, str]:
    """Name and version of each line 'name OPERATOR version' of a requirements file."""
    found = re.findall(
        rf"^([A-Za-z][\w.-]*){re.escape(operator)}([\w.]+)", path.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert found
    return dict(found)


@pytest.fixture(scope="module")
def runtime(repository: pathlib.Path) -> Any:
    """meta/runtime.yml."""
    return yaml.safe_load((repository / "meta/runtime.yml").read_text(encoding="utf-8"))


def test_the_action_group_lists_every_module(repository: pathlib.Path, runtime: Any) -> None:
    # Modules that do not use this fragment run on the controller.
    modules = {
        path.stem
        for path in (repository / "plugins/modules").glob("*.py")
        if "\n  - hpcai.azure.node\n" in path.read_text(encoding="utf-8")
    }
    assert modules
    assert set(runtime["action_groups"]["node"]) == modules


def test_the_guide_lists_every_module_as_public_or_internal(repository: pathlib.Path) -> None:
    guide = (repository / "docs/docsite/rst/guide_modules.rst").read_text(encoding="utf-8")
    public, internal = (
        re.findall(r"^(?:- )?:ansplugin:`hpcai\.azure\.(\w+)#module`", part, re.MULTILINE)
        for part in guide.split("\nInternal modules\n")
    )
    documented = {
        path.stem: "  - hpcai.azure.internal\n" in path.read_text(encoding="utf-8")
        for path in (repository / "plugins/modules").glob("*.py")
    }
    assert sorted(public) == sorted(name for name, is_internal in documented.items() if not is_internal)
    assert sorted(internal) == sorted(name for name, is_internal in documented.items() if is_internal)


def plugins_of(repository: pathlib.Path, kind: str) -> set[str]:
    """The modules or the plugins of a kind that users can name. Files of filters contain several filters."""
    pattern = "plugins/filter/*.yml" if kind == "filter" else f"plugins/{kind}/*.py"
    return {path.stem for path in repository.glob(pattern)}


def test_each_released_plugin_exists_or_has_a_tombstone(repository: pathlib.Path, runtime: Any) -> None:
    changes = yaml.safe_load((repository / "changelogs/changelog.yaml").read_text(encoding="utf-8"))
    released: set[tuple[str, str]] = set()
    for release in changes["releases"].values():
        for kind, listed in {"modules": release.get("modules", ()), **release.get("plugins", {})}.items():
            released |= {(kind, item["name"]) for item in listed}
    assert len(released) > 40
    gone = {(kind, name) for kind, name in released if name not in plugins_of(repository, kind)}
    tombstones = {
        (kind, name)
        for kind, plugins in runtime["plugin_routing"].items()
        for name, routing in plugins.items()
        if "tombstone" in routing
    }
    assert tombstones == gone


def test_each_tombstone_names_an_existing_replacement_and_a_release(repository: pathlib.Path, runtime: Any) -> None:
    tombstones = [
        routing["tombstone"] for plugins in runtime["plugin_routing"].values() for routing in plugins.values()
    ]
    existing = plugins_of(repository, "modules") | plugins_of(repository, "filter")
    for tombstone in tombstones:
        named = re.findall(r"hpcai\.azure\.(\w+)", tombstone["warning_text"])
        assert named, tombstone
        assert set(named) <= existing, tombstone
    galaxy = yaml.safe_load((repository / "galaxy.yml").read_text(encoding="utf-8"))
    versions = {tuple(map(int, tombstone["removal_version"].split("."))) for tombstone in tombstones}
    assert max(versions) <= tuple(map(int, galaxy["version"].split(".")))


def test_no_module_and_filter_share_a_name(repository: pathlib.Path) -> None:
    modules, filters = plugins_of(repository, "modules"), plugins_of(repository, "filter")
    assert len(filters) > 15
    assert modules & filters == set()


def test_minimum_versions_are_those_tested_as_oldest(repository: pathlib.Path) -> None:
    minimum = pins(repository / "requirements.txt", ">=")
    oldest = pins(repository / "tests/setup/constraints-oldest.txt", "==")
    assert {name: oldest.get(name) for name in minimum} == minimum


def test_the_plugins_document_the_sdks_minimum_versions(repository: pathlib.Path) -> None:
    source = (repository / "plugins/inventory/azure_vmss.py").read_text(encoding="utf-8")
    documented = dict(re.findall(r"^  - (azure-[\w-]+) >= ([\d.]+)$", source, re.MULTILINE))
    minimum = pins(repository / "requirements.txt", ">=")
    needed = {name: version for name, version in minimum.items() if name.startswith("azure-")}
    deployments = {"azure-mgmt-resource-deployments": needed.pop("azure-mgmt-resource-deployments")}
    assert documented == needed
    stack = (repository / "plugins/modules/azure_stack.py").read_text(encoding="utf-8")
    documented = dict(re.findall(r"^  - (azure-[\w-]+) >= ([\d.]+)$", stack, re.MULTILINE))
    assert documented == deployments | {"azure-identity": needed["azure-identity"]}


def test_the_required_ansible_core_is_the_oldest_tested_one(repository: pathlib.Path, runtime: Any) -> None:
    oldest = pins(repository / "tests/setup/constraints-oldest.txt", "==")
    assert runtime["requires_ansible"] == f">={oldest['ansible-core']}"


def test_the_next_version_is_newer_than_the_changelogs_last_release(repository: pathlib.Path) -> None:
    galaxy = yaml.safe_load((repository / "galaxy.yml").read_text(encoding="utf-8"))
    changes = yaml.safe_load((repository / "changelogs/changelog.yaml").read_text(encoding="utf-8"))
    released = [tuple(map(int, version.split("."))) for version in changes["releases"]]
    fragments = list((repository / "changelogs/fragments").glob("*.yml"))
    # A release turns the fragments into the changelog's last version. While there are fragments, galaxy.yml has the
    # next version.
    to_be_built = tuple(map(int, galaxy["version"].split(".")))
    assert to_be_built > max(released) if fragments else to_be_built == max(released)


def test_files_named_by_the_execution_environment_exist(repository: pathlib.Path) -> None:
    environment = yaml.safe_load((repository / "meta/execution-environment.yml").read_text(encoding="utf-8"))
    named = list(environment["dependencies"].values())
    assert named
    assert not [name for name in named if not (repository / name).is_file()]


def test_the_node_tool_has_the_collections_version(repository: pathlib.Path) -> None:
    galaxy = yaml.safe_load((repository / "galaxy.yml").read_text(encoding="utf-8"))
    source = (repository / "plugins/module_utils/_node/version.py").read_text(encoding="utf-8")
    assert re.findall(r'^VERSION = "(.+)"$', source, re.MULTILINE) == [galaxy["version"]]
