# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Evaluates a role's variables on many hosts, without a run of ansible-playbook for each case."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play import Play
from ansible.template import Templar, trust_as_template
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager

Values = dict[str, dict[str, Any]]
Evaluate = Callable[..., Values]

LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
DEBIAN_13 = {
    "hostname": "ctl",
    "os_family": "Debian",
    "distribution": "Debian",
    "distribution_major_version": "13",
    "pkg_mgr": "apt",
}
"""Facts of a controller."""


@pytest.fixture(scope="session")
def evaluate(tmp_path_factory: pytest.TempPathFactory) -> Evaluate:
    """Evaluate expressions on each host; returns the values by host.

    Ansible combines and evaluates the variables as for a task in a play with the role, but in this process:
    ansible-playbook starts a process for each host, which loads all plugins again, and that takes most of the time.
    """

    def run(
        role: str,
        inventory: Mapping[str, Any],
        expressions: Mapping[str, str],
        hosts: str = "all",
        **variables: Any,
    ) -> Values:
        folder = tmp_path_factory.mktemp("show")
        (folder / "hosts.yml").write_text(yaml.safe_dump(dict(inventory), sort_keys=False), encoding="utf-8")
        content = {"name": "Show", "hosts": hosts, "gather_facts": False, "vars": variables, "roles": [role]}
        (folder / "play.yml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        loader = DataLoader()
        loader.set_basedir(str(folder))
        known = InventoryManager(loader=loader, sources=[str(folder / "hosts.yml")])
        manager = VariableManager(loader=loader, inventory=known)
        HostVars(known, manager, loader)  # The manager keeps it, as `hostvars`.
        written = loader.load_from_file(str(folder / "play.yml"), trusted_as_template=True)
        play = Play.load(written, variable_manager=manager, loader=loader)
        answers = {}
        for host in known.get_hosts(hosts):
            templar = Templar(loader=loader, variables=manager.get_vars(play=play, host=host))
            answers[host.name] = {
                name: templar.template(trust_as_template(expression)) for name, expression in expressions.items()
            }
        return answers

    return run
