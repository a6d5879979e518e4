# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role node_tools on real nodes: it restores missing and changed files, and sends nothing to unchanged nodes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from simulated.cluster import REPOSITORY, Cluster

COMPUTES = {"compute000000": "10.78.0.5", "compute000003": "10.78.0.6"}
SECOND = "10.78.0.6"


class Role:
    """Runs only this role, on both compute nodes."""

    def __init__(self, cluster: Cluster, inventory: Path, folder: Path) -> None:
        self.cluster, self.inventory, self.folder = cluster, inventory, folder
        play = {"hosts": "hpcai_compute", "gather_subset": ["min"], "become": True, "roles": ["hpcai.azure.node_tools"]}
        (folder / "play.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")

    def changed(self, *arguments: str) -> dict[str, int]:
        """Run the role, which must succeed; returns the number of changes by host."""
        run = self.cluster.playbook(self.folder / "play.yml", self.inventory, *arguments, cwd=REPOSITORY)
        assert run.rc == 0, run.output
        return {name: run.hosts[name]["changed"] for name in COMPUTES}


@pytest.fixture
def role(azure: Cluster, inventory_source: Path, tmp_path: Path) -> Role:
    return Role(azure, inventory_source, tmp_path)


@pytest.mark.thorough
def test_an_edited_file_is_restored_on_that_node_only(role: Role) -> None:
    role.cluster.ssh(SECOND, "echo 'raise SystemExit(9)' | sudo tee -a /usr/lib/hpcai/lib/hpcai_node/cli/main.py")
    assert role.changed("--check") == {"compute000000": 0, "compute000003": 1}
    assert role.changed() == {"compute000000": 0, "compute000003": 1}
    assert role.cluster.ssh(SECOND, "hpcnode --version").startswith("hpcnode ")


def test_hpcnode_replaces_the_module_only_while_its_code_is_identical(role: Role) -> None:
    """The launcher is not part of the compared code. The edited one creates a file for this call only: slurmd calls
    hpcnode too."""
    task = {"hpcai.azure.node_health_info": {"tier": "periodic", "only": ["vm_size"]}}
    play = [{"hosts": "compute000003", "gather_facts": False, "become": True, "tasks": [task]}]
    file = role.folder / "health.yml"
    file.write_text(yaml.safe_dump(play), encoding="utf-8")
    trace = 'import sys; "--only=vm_size" in sys.argv and open("/run/called", "w").close()'
    role.cluster.ssh(SECOND, f"sudo sed -i '2i {trace}' /usr/bin/hpcnode")
    assert role.cluster.playbook(file, role.inventory).rc == 0
    assert role.cluster.ssh(SECOND, "sudo rm /run/called && echo called").strip() == "called"
    role.cluster.ssh(SECOND, "echo | sudo tee -a /usr/lib/hpcai/lib/hpcai_node/health/engine.py")
    assert role.cluster.playbook(file, role.inventory).rc == 0
    assert role.cluster.ssh(SECOND, "test -e /run/called || echo not called").strip() == "not called"
    assert role.changed() == {"compute000000": 0, "compute000003": 1}


@pytest.mark.thorough
def test_a_disabled_boot_step_is_enabled_on_that_node_only(role: Role) -> None:
    """The code on the node is unchanged, so its own hpcnode detects the missing link."""
    link = "/etc/systemd/system/hpcai-boot.target.wants/hpcai-scratch.service"
    role.cluster.ssh(SECOND, f"sudo rm {link}")
    assert role.changed() == {"compute000000": 0, "compute000003": 1}
    assert role.cluster.ssh(SECOND, f"readlink {link}").strip() == "/usr/lib/systemd/system/hpcai-scratch.service"
    assert role.changed() == {"compute000000": 0, "compute000003": 0}
