# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module container_node: its result, check mode and a second run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.modules import container_node

from ..module_utils._node.setup.containers.conftest import SOURCE, Node
from .conftest import RunModule

PYXIS = {"source": SOURCE, "version": "0.24.0"}
ENROOT = {"settings": {"ENROOT_DATA_PATH": "/scratch/enroot/data/user-$(id -u)"}, "hooks": ["50-slurm-pmi.sh"]}


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node that the module treats as the running machine."""
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    played = Node(tmp_path / "node")
    monkeypatch.setattr(container_node, "Root", lambda _path: Root(str(played.folder)))
    monkeypatch.setattr(container_node, "run", played.run)
    return played


def image(node: Node, run_module: RunModule, check_mode: bool = False, **given: Any) -> dict[str, Any]:
    """Run container_node as for an image."""
    options: dict[str, Any] = {
        "enroot": {**ENROOT, "apply": False},
        "pyxis": PYXIS,
        "folders": [{"path": "enroot/data", "mode": "1777"}],
        "make_folders": False,
    }
    return run_module(container_node.main, check_mode=check_mode, **{**options, **given})


def test_configures_enroot_pyxis_and_folders_once(node: Node, run_module: RunModule) -> None:
    before = node.files()
    foreseen = image(node, run_module, check_mode=True)
    assert node.files() == before
    answer = image(node, run_module)
    assert answer["actions"] == foreseen["actions"]
    assert answer["actions"][-1] == "build /usr/lib/hpcai/pyxis/spank_pyxis.so: no plugin was built yet"
    assert '"enroot/data"' in (node.text("/etc/hpcai/directories.json") or "")
    assert node.record()["slurm"] == "22.05.8"
    assert image(node, run_module)["changed"] is False
    node.slurm("23.11.4")
    assert image(node, run_module)["actions"] == [
        "build /usr/lib/hpcai/pyxis/spank_pyxis.so: it was built for Slurm 22.05.8, not 23.11.4"
    ]


def test_container_node_removes_all_that_it_made(node: Node, run_module: RunModule) -> None:
    node.write("/etc/apparmor.d/enroot", "profile\n")
    before = node.files()
    image(node, run_module, enroot={**ENROOT, "apply": False, "apparmor": "off", "sysctl": {"user.x": "1"}})
    made = node.files()
    assert str(node.folder / "etc/apparmor.d/disable/enroot") in made
    foreseen = run_module(container_node.main, check_mode=True, state="absent")
    assert node.files() == made
    done = run_module(container_node.main, state="absent")
    assert (done["changed"], done["actions"]) == (True, foreseen["actions"])
    # The set of directories is gone, the file of all sets stays.
    assert node.files().keys() - before.keys() == {str(node.folder / "etc/hpcai/directories.json")}
    assert "enroot/data" not in (node.text("/etc/hpcai/directories.json") or "enroot/data")
    assert run_module(container_node.main, state="absent")["changed"] is False


def test_container_node_leaves_a_profile_that_somebody_else_disabled(node: Node, run_module: RunModule) -> None:
    node.write("/etc/apparmor.d/enroot", "profile\n")
    disabled = node.folder / "etc/apparmor.d/disable/enroot"
    disabled.parent.mkdir()
    disabled.symlink_to("/etc/apparmor.d/enroot")
    image(node, run_module)
    run_module(container_node.main, state="absent")
    assert disabled.is_symlink()


def test_container_node_needs_enroots_settings_unless_it_removes(node: Node, run_module: RunModule) -> None:
    assert "enroot" in run_module(container_node.main)["msg"]


def test_check_mode_warns_if_slurm_is_not_installed_yet(
    node: Node, run_module: RunModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.version = ""
    warned: list[str] = []
    monkeypatch.setattr(container_node.AnsibleModule, "warn", lambda _module, text: warned.append(text))
    answer = image(node, run_module, check_mode=True)
    assert (answer["_exit"], answer["changed"]) == (0, True)
    assert "Check mode cannot tell" in warned[0]
    assert image(node, run_module)["_exit"] == 1
    assert node.text("/etc/hpcai/directories.json") is None


def test_refuses_unknown_options(node: Node, run_module: RunModule) -> None:
    assert "pyxis.sources" in image(node, run_module, pyxis={"sources": "x"})["msg"]
    assert "needs source and version" in image(node, run_module, pyxis={"source": "x"})["msg"]
    assert "enroot.hook" in image(node, run_module, enroot={"hook": []})["msg"]
    misspelt = image(node, run_module, enroot={"settings": {"ENROOT_DATAPATH": "/x"}})
    assert "settings has unknown keys ENROOT_DATAPATH" in misspelt["msg"]
