# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module nccl_topology on the running machine: the settings that it saves for the next boot."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from stand_ins.nccl_node import Node, RunModule

from ansible_collections.hpcai.azure.plugins.modules import nccl_topology


@pytest.fixture
def node(tmp_path: Path, run_module: RunModule, monkeypatch: pytest.MonkeyPatch) -> Node:
    """An ND A100 v4 without any of the module's files."""
    return Node(tmp_path, run_module, monkeypatch)


class Live:
    """The module as on a running machine: root is /. Only the settings file is in a folder of the test."""

    def __init__(self, node: Node, config: Path) -> None:
        self.node, self.config = node, config

    def run(self, **options: Any) -> dict[str, Any]:
        """Run the module without reading the hardware of the machine that runs the tests."""
        return self.node.run(root="/", **{"verify": "ignore", **options})


@pytest.fixture
def live(node: Node, monkeypatch: pytest.MonkeyPatch) -> Live:
    """The module with its settings file in a folder of the test."""
    config = node.conf.parent / "hpcai" / "nccl.json"
    for module in (nccl_topology.ensure, nccl_topology.ensure.read_facts, nccl_topology.ensure.plan):
        monkeypatch.setitem(getattr(module, "__globals__", vars(module)), "CONFIG_PATH", str(config))
    return Live(node, config)


def test_saves_its_options_for_the_next_boot(live: Live) -> None:
    answer = live.run(settings={"NCCL_DEBUG": "WARN", "NCCL_IGNORE_CPU_AFFINITY": None})
    assert str(live.config) in answer["files"]
    assert json.loads(live.config.read_text()) == {
        "schema": 1,
        "vm_size": "nd96asr_v4",
        "vm_sizes": {},
        "topology_path": str(live.node.topology),
        "conf_path": str(live.node.conf),
        "settings": {"NCCL_DEBUG": "WARN", "NCCL_IGNORE_CPU_AFFINITY": None},
        "enroot_dir": str(live.node.enroot),
        "verify": "ignore",
        "force": False,
    }
    assert live.config.stat().st_mode & 0o7777 == 0o644
    assert live.run(settings={"NCCL_DEBUG": "WARN", "NCCL_IGNORE_CPU_AFFINITY": None})["changed"] is False


@pytest.mark.parametrize("options", [{"persistent": False}, {"persistent": False, "state": "absent"}])
def test_persistent_false_removes_the_saved_options(live: Live, options: dict[str, Any]) -> None:
    live.run()
    assert live.config.exists()
    assert live.run(**options)["changed"] is True
    assert not live.config.exists()
    assert live.run(**options)["changed"] is False


def test_a_run_for_another_root_keeps_the_saved_options(live: Live) -> None:
    live.run()
    live.node.run()
    live.node.run(state="absent")
    assert live.config.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write to every file")
def test_names_the_folder_that_a_user_cannot_write_to(node: Node) -> None:
    node.conf.parent.chmod(0o500)
    assert str(node.conf.parent) in node.run()["msg"]


def test_saves_only_the_options_in_an_image(live: Live) -> None:
    answer = live.run(apply=False, vm_size=None)
    assert (answer["files"], answer["vm_size"], answer["topology"]) == ([str(live.config)], None, None)
    assert set(live.node.files()) == {"hpcai/nccl.json"}
    assert live.run(apply=False, vm_size=None)["changed"] is False
    assert live.run(apply=False, persistent=False)["changed"] is True
    assert not live.config.exists()


@pytest.mark.parametrize("apply", [True, False])
def test_absent_is_saved_for_the_next_boot(live: Live, apply: bool) -> None:
    live.run()
    assert live.run(apply=apply, state="absent")["changed"] is True
    assert json.loads(live.config.read_text()) == {"schema": 1, "state": "absent"}
    assert live.run(apply=apply, state="absent")["changed"] is False


def test_an_image_and_a_node_save_the_same_bytes(live: Live) -> None:
    options: dict[str, Any] = {"settings": {"NCCL_DEBUG": "WARN", "NCCL_IGNORE_CPU_AFFINITY": None}}
    live.run(apply=False, **options)
    baked = live.config.read_bytes()
    live.run(**options)
    assert live.config.read_bytes() == baked


def test_check_mode_saves_nothing(live: Live) -> None:
    assert live.run(apply=False, check_mode=True)["changed"] is True
    assert live.node.files() == {}
