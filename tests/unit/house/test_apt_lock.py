# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""apt waits for its lock: at a machine's first boot, another process may have it for minutes."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

APT, INSTALLERS = "ansible.builtin.apt", {"ansible.builtin.import_role", "ansible.builtin.include_role"}
LEAST_S = 300
"""The time that Azure waits in its own builds (packer/scripts/prerequisites.sh of github.com/Azure/azhpc-images)."""


def mappings(node: Any) -> Iterator[dict[str, Any]]:
    """All mappings in a YAML file."""
    if isinstance(node, dict):
        yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else []:
        yield from mappings(child)


def installs(task: dict[str, Any]) -> bool:
    """Whether a task runs a role's tasks that install packages."""
    roles = [task[name] for name in INSTALLERS if name in task]
    return any(role.get("tasks_from", "main") in ("main", "install", "prepare") for role in roles)


@pytest.mark.parametrize("playbook", ["site", "image"])
def test_each_play_that_installs_packages_waits_for_the_lock(repository: pathlib.Path, playbook: str) -> None:
    plays = yaml.safe_load((repository / f"playbooks/{playbook}.yml").read_text(encoding="utf-8"))
    installing = [play for play in plays if any(map(installs, mappings(play.get("tasks") or [])))]
    assert installing
    hasty = [play["name"] for play in installing if APT not in play.get("module_defaults", {})]
    assert not hasty


def test_defaults_of_apt_contain_the_wait(repository: pathlib.Path) -> None:
    """Those of a task replace those of its play."""
    files = [*repository.glob("playbooks/**/*.yml"), *repository.glob("roles/*/tasks/*.yml")]
    found = {
        str(file): defaults[APT]
        for file in files
        for node in mappings(yaml.safe_load(file.read_text(encoding="utf-8")))
        if APT in (defaults := node.get("module_defaults") or {})
    }
    assert len(found) > 3
    assert not [file for file, defaults in found.items() if defaults.get("lock_timeout", 0) < LEAST_S]
