# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NCCL's configuration, the files of containers, lines of others, and the options that are saved for a boot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stand_ins import topology_files
from stand_ins.nccl_node import Node

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl import ensure, facts, plan
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl.options import options_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl.plan import Refused

BEGIN, END = "# BEGIN hpcai.azure nccl_topology\n", "# END hpcai.azure nccl_topology\n"
OURS: dict[str, Any] = {"settings": {"NCCL_DEBUG": "WARN", "NCCL_IGNORE_CPU_AFFINITY": None}}


def test_lines_of_the_hpc_images_are_kept_overridden_and_reported(node: Node) -> None:
    label = "ndv4, before 2025-02: affinity masks wrong"
    node.tree.write("opt/microsoft/ndv4/topo.xml", topology_files.broken()[label][1])
    foreign = b"NCCL_IB_PCI_RELAXED_ORDERING=1\r\nNCCL_TOPO_FILE=/opt/microsoft/ndv4/topo.xml\nNCCL_X=\xe9"
    node.conf.write_bytes(foreign)
    answer = node.ensure()
    assert node.conf.read_bytes().endswith(END.encode() + foreign)
    assert answer["environment"]["NCCL_TOPO_FILE"] == str(node.topology)
    assert answer["overridden"] == ["NCCL_TOPO_FILE=/opt/microsoft/ndv4/topo.xml"]
    assert answer["foreign_topologies"] == [
        {
            "path": "/opt/microsoft/ndv4/topo.xml",
            "named_by": str(node.conf),
            "known": label,
            "broken": True,
            "wins": False,
        }
    ]
    assert "the line has no effect" in answer["warnings"][0]
    assert (node.tree.path / "opt/microsoft/ndv4/topo.xml").exists()


def test_lines_that_are_not_utf_8_are_kept_and_can_be_returned(node: Node) -> None:
    node.conf.write_bytes(b"NCCL_SOCKET_IFNAME=\xe9\nNCCL_TOPO_FILE=/\xe9.xml\nNCCL_\xe9=1\n")
    answer = node.ensure()
    # Ansible refuses a result that is not UTF-8.
    assert json.dumps(answer, ensure_ascii=False).encode()
    assert answer["overridden"] == ["NCCL_SOCKET_IFNAME=\ufffd", "NCCL_TOPO_FILE=/\ufffd.xml"]
    assert answer["environment"]["NCCL_\ufffd"] == "1"
    assert b"NCCL_SOCKET_IFNAME=\xe9\n" in node.conf.read_bytes()


def test_settings_that_override_the_block_are_warned_of(node: Node) -> None:
    node.tree.write("etc/environment", 'PATH=/bin\nNCCL_TOPO_FILE="/opt/microsoft/ndv5-topo.xml"')
    (node.enroot / "environ.d").mkdir(parents=True)
    # Enroot reads only the first of these.
    for name in ("90-site.env", "90-site.env.bak"):
        (node.enroot / "environ.d" / name).write_text("NCCL_TOPO_FILE=/site.xml\n")
    answer = node.ensure()
    assert [(one["named_by"], one["path"]) for one in answer["foreign_topologies"]] == [
        ("/etc/environment", "/opt/microsoft/ndv5-topo.xml"),
        (str(node.enroot / "environ.d/90-site.env"), "/site.xml"),
    ]
    assert ["which overrides nccl.conf" in warning for warning in answer["warnings"]] == [True, True]
    assert node.ensure()["changed"] is False


def test_existing_lines_that_nccl_ignores_are_warned_of(node: Node) -> None:
    node.conf.write_text("NCCL_DEBUG=WARNING\nnccl_ib_disable=1\n")
    first, second = node.ensure()["warnings"]
    assert "NCCL_DEBUG is 'WARNING', which NCCL ignores. Valid values are VERSION, WARN" in first
    assert "nccl_ib_disable has no effect, because names are case-sensitive. Write NCCL_IB_DISABLE." in second


def test_a_missing_interface_is_warned_of(node: Node) -> None:
    (warning,) = node.ensure(settings={"NCCL_SOCKET_IFNAME": "=eth"})["warnings"]
    assert "matches none of this machine's interfaces (eth0, lo)" in warning
    for fine in ("eth", "=eth0", "ib,eth0", "^docker,lo"):
        assert node.ensure(settings={"NCCL_SOCKET_IFNAME": fine})["warnings"] == [], fine


def test_containers_get_a_users_topology_file(node: Node) -> None:
    node.ensure(settings={"NCCL_TOPO_FILE": "/site/topo.xml"})
    assert "NCCL_TOPO_FILE=/site/topo.xml\n" in node.conf.read_text()
    assert "/site/topo.xml /site/topo.xml none" in node.mounts.read_text()
    assert node.environment.read_text().endswith("\nNCCL_TOPO_FILE=/site/topo.xml\n")


def test_a_topology_file_that_cannot_be_mounted_is_refused(node: Node) -> None:
    with pytest.raises(Refused, match=r"settings\.NCCL_TOPO_FILE must be an absolute path"):
        node.ensure(settings={"NCCL_TOPO_FILE": "/a b"})
    assert node.files() == {}


@pytest.mark.parametrize("nothing", ["", None])
def test_without_a_topology_file_containers_get_only_the_variables(node: Node, nothing: str | None) -> None:
    node.ensure()
    answer = node.ensure(settings={"NCCL_TOPO_FILE": nothing})
    assert answer["environment"].get("NCCL_TOPO_FILE") == nothing
    assert len(node.mounts.read_text().splitlines()) == 2
    assert not node.environment.exists()


@pytest.mark.parametrize("none", ["", "none", None])
def test_without_enroot_dir_no_drop_ins_are_written(node: Node, none: str | None) -> None:
    node.ensure(enroot_dir=none)
    assert set(node.files()) == {"topo.xml", "nccl.conf"}


@pytest.mark.parametrize("state", ["present", "absent"])
def test_a_file_whose_block_is_broken_is_refused(node: Node, state: str) -> None:
    node.conf.write_text(f"NCCL_DEBUG=INFO\n{BEGIN}NCCL_X=1\n")
    before = node.files()
    with pytest.raises(
        Refused, match=f"^{node.conf}: line 2 begins the block.*Remove the lines of that block manually"
    ):
        node.ensure(state=state)
    assert node.files() == before


@pytest.mark.parametrize("option", ["topology_path", "conf_path"])
@pytest.mark.parametrize("path", ["", "/new/"])
def test_a_folder_is_refused_as_a_file(node: Node, option: str, path: str) -> None:
    folder = f"{node.conf.parent}{path}"
    options: dict[str, Any] = {option: folder}
    with pytest.raises(ConfigError, match=f"^{option} must be a file, but {folder} is a folder. Set a file in it.$"):
        node.ensure(**options)


def test_absent_removes_everything_but_lines_of_others(node: Node) -> None:
    foreign = b"NCCL_DEBUG=INFO\r\nno end"
    node.conf.write_bytes(foreign)
    node.ensure()
    foretold = node.ensure(check_mode=True, state="absent", vm_size=None)
    answer = node.ensure(state="absent", vm_size=None)
    assert foretold == answer
    assert (answer["changed"], answer["vm_size"], answer["warnings"]) == (True, None, [])
    assert answer["files"] == [str(node.mounts), str(node.environment), str(node.conf), str(node.topology)]
    assert node.files() == {"nccl.conf": foreign}
    assert node.ensure(state="absent")["changed"] is False


def test_absent_removes_a_configuration_that_becomes_empty(node: Node) -> None:
    node.ensure()
    node.ensure(state="absent")
    assert node.files() == {}


def test_absent_keeps_files_of_others(node: Node) -> None:
    node.topology.write_text(topology_files.right()["Standard_ND96asr_v4"])
    node.conf.write_text("")
    answer = node.ensure(state="absent")
    assert (answer["changed"], set(node.files())) == (False, {"topo.xml", "nccl.conf"})
    assert "nccl_topology did not write it" in answer["warnings"][0]


@pytest.mark.parametrize("option", ["topology_path", "conf_path", "enroot_dir"])
def test_for_another_root_all_paths_must_be_set(node: Node, option: str) -> None:
    given = {name: value for name, value in node.given.items() if name != option}
    with pytest.raises(Refused, match=f"{option} would be files of this machine"):
        ensure.ensure(options_of(given))
    assert node.files() == {}
    assert ensure.ensure(options_of(given), check_mode=True)["changed"] is True


def test_for_another_root_the_options_cannot_be_saved(node: Node) -> None:
    with pytest.raises(Refused, match="persistent is for the running machine only"):
        node.ensure(persistent=True)
    assert node.files() == {}


@pytest.fixture
def config(node: Node, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the saved options, in the test's folder."""
    path = node.conf.parent / "hpcai" / "nccl.json"
    for module in (ensure, facts, plan):
        monkeypatch.setattr(module, "CONFIG_PATH", str(path))
    return path


def live(node: Node, check_mode: bool = False, **options: Any) -> dict[str, Any]:
    """Bring the files of the running machine to the state in the options, without reading its hardware."""
    return node.ensure(check_mode, root="/", **{"verify": "ignore", **options})


def test_the_options_are_saved_for_the_next_boot(node: Node, config: Path) -> None:
    answer = live(node, **OURS)
    assert str(config) in answer["files"]
    assert json.loads(config.read_text()) == {
        "schema": 1,
        "vm_size": "nd96asr_v4",
        "vm_sizes": {},
        "topology_path": str(node.topology),
        "conf_path": str(node.conf),
        "settings": {"NCCL_DEBUG": "WARN", "NCCL_IGNORE_CPU_AFFINITY": None},
        "enroot_dir": str(node.enroot),
        "verify": "ignore",
        "force": False,
    }
    assert config.stat().st_mode & 0o7777 == 0o644
    assert live(node, **OURS)["changed"] is False


def test_an_image_gets_only_the_options_with_the_same_bytes_as_a_node(node: Node, config: Path) -> None:
    assert live(node, check_mode=True, apply=False)["changed"] is True
    assert node.files() == {}
    answer = live(node, apply=False, vm_size=None)
    assert (answer["files"], answer["vm_size"], answer["topology"]) == ([str(config)], None, None)
    assert set(node.files()) == {"hpcai/nccl.json"}
    assert live(node, apply=False, vm_size=None)["changed"] is False
    live(node, apply=False, **OURS)
    baked = config.read_bytes()
    live(node, **OURS)
    assert config.read_bytes() == baked


@pytest.mark.parametrize("options", [{}, {"state": "absent"}, {"apply": False}])
def test_without_persistent_the_saved_options_are_removed(node: Node, config: Path, options: dict[str, Any]) -> None:
    live(node)
    assert config.exists()
    assert live(node, persistent=False, **options)["changed"] is True
    assert not config.exists()
    assert live(node, persistent=False, **options)["changed"] is False


def test_a_run_for_another_root_keeps_the_saved_options(node: Node, config: Path) -> None:
    live(node)
    node.ensure()
    node.ensure(state="absent")
    assert config.exists()


@pytest.mark.parametrize("apply", [True, False])
def test_absent_is_saved_for_the_next_boot(node: Node, config: Path, apply: bool) -> None:
    live(node)
    assert live(node, apply=apply, state="absent")["changed"] is True
    assert json.loads(config.read_text()) == {"schema": 1, "state": "absent"}
    assert live(node, apply=apply, state="absent")["changed"] is False
