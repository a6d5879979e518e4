# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module on a node, packed by AnsiballZ: a check that was not packed would be missing."""

from __future__ import annotations

import json
import pathlib
import sys

from stand_ins.played_node import REPOSITORY, PlayedNode

from ansible_collections.hpcai.azure.plugins.module_utils._node.health import catalog


def test_every_check_of_every_short_tier_is_packed_and_run(node: PlayedNode, tmp_path: pathlib.Path) -> None:
    tiers = ("prolog", "periodic", "epilog", "boot")
    results = {tier: tmp_path / f"{tier}.json" for tier in tiers}
    tasks = []
    for tier, file in results.items():
        tasks += [
            {"hpcai.azure.node_health_info": {"tier": tier}, "register": "checked"},
            {"ansible.builtin.copy": {"content": "{{ checked.health | to_json }}", "dest": str(file), "mode": "0600"}},
        ]
    play = [{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]
    (node.folder / "health.yml").write_text(json.dumps(play), encoding="utf-8")
    (node.folder / "ansible.cfg").touch()
    done = node.run(
        str(pathlib.Path(sys.executable).with_name("ansible-playbook")),
        *("-i", "localhost,", "-c", "local", "-e", f"ansible_python_interpreter={sys.executable}", "health.yml"),
        check=False,
        ANSIBLE_CONFIG=str(node.folder / "ansible.cfg"),
        ANSIBLE_COLLECTIONS_PATH=str(REPOSITORY / ".collections"),
        ANSIBLE_HOME=str(node.folder / ".ansible"),
        ANSIBLE_NOCOLOR="1",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for tier, file in results.items():
        health = json.loads(file.read_text(encoding="utf-8"))
        chosen = {check.name: check for check in catalog.select_checks(tier)}
        assert [check["name"] for check in health["checks"]] == list(chosen)
        defects = [check["summary"] for check in health["checks"] if "defect" in check["summary"]]
        assert defects == []
