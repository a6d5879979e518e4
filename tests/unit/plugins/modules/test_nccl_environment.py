# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module nccl_environment on a machine's files: its arguments and result, check mode and a second run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl_environment.options import EnvironmentOptions
from ansible_collections.hpcai.azure.plugins.modules import nccl_environment

RunModule = Callable[..., dict[str, Any]]

NCCL = "/usr/lib/x86_64-linux-gnu/libnccl.so.2"
PLUGIN = "/usr/local/nccl-rdma-sharp-plugins/lib"
PROFILE = "etc/profile.d/hpcai-nccl.sh"
CONFIG = "etc/hpcai/nccl_environment.json"


class Node:
    """The files of a machine that the module treats as the running one."""

    def __init__(self, path: Path, run_module: RunModule, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self.run_module = path, run_module
        self.warned: list[str] = []
        for file in (f"{NCCL}.18.5".lstrip("/"), f"{PLUGIN}/libnccl-net.so".lstrip("/")):
            (path / file).parent.mkdir(parents=True)
            (path / file).touch()
        (path / NCCL.lstrip("/")).symlink_to("libnccl.so.2.18.5")
        (path / "etc/openmpi").mkdir(parents=True)
        (path / "etc/openmpi/openmpi-mca-params.conf").write_text("# theirs\n")
        monkeypatch.setattr(nccl_environment, "Root", lambda: Root(str(path)))
        monkeypatch.setattr(nccl_environment, "run", self._answer)
        monkeypatch.setattr(nccl_environment.AnsibleModule, "warn", lambda _module, text: self.warned.append(text))

    def _answer(self, command: Sequence[str]) -> Result:
        return Result(tuple(command), 0, f"\tlibnccl.so.2 (libc6,x86-64) => {NCCL}\n", "")

    def run(self, check_mode: bool = False, **options: Any) -> dict[str, Any]:
        """Run the module."""
        self.warned.clear()
        return self.run_module(nccl_environment.main, check_mode=check_mode, **{"vm_size": "nd96asr_v4", **options})

    def files(self) -> dict[str, bytes]:
        """All files, with their contents."""
        return {str(file.relative_to(self.path)): file.read_bytes() for file in self.path.rglob("*") if file.is_file()}

    def text(self, path: str) -> str:
        """The text of a file."""
        return (self.path / path).read_text()


@pytest.fixture
def node(tmp_path: Path, run_module: RunModule, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node with NCCL, the plugin and Open MPI."""
    return Node(tmp_path, run_module, monkeypatch)


def test_the_modules_defaults_are_those_of_the_boot_phase(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[EnvironmentOptions] = []

    def configure(_root: Root, _run: Any, options: EnvironmentOptions, check_mode: bool) -> dict[str, Any]:
        received.append(options)
        return {"changed": check_mode, "warnings": []}

    monkeypatch.setattr(nccl_environment.ensure, "ensure", configure)
    node.run(vm_size=None)
    assert received[0].remembered() == EnvironmentOptions().remembered()


def test_writes_the_profile_and_the_blocks_and_returns_what_it_found(node: Node) -> None:
    answer = node.run()
    assert (answer["_exit"], answer["changed"], node.warned) == (0, True, [])
    assert (answer["vm_size"], answer["vm_size_from"]) == ("Standard_ND96asr_v4", "given")
    assert (answer["nccl"]["verdict"], answer["nccl"]["version"]) == ("pass", "2.18.5")
    assert answer["environment"] == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "OMPI_MCA_coll_hcoll_enable": "0",
        "UCX_IB_PCI_RELAXED_ORDERING": "on",
    }
    for name, value in answer["environment"].items():
        assert f"export {name}='{value}'\n" in node.text(PROFILE)
    assert answer["library_paths"] == [PLUGIN]
    assert answer["sharp_plugin"] == {"found": [PLUGIN], "reason": "", "sharp": False}
    assert f"'{PLUGIN}'" in node.text(PROFILE)
    assert (node.path / PROFILE).stat().st_mode & 0o7777 == 0o644
    assert "\ncoll_hcoll_enable = 0\n" in node.text("etc/openmpi/openmpi-mca-params.conf")
    assert answer["files"] == [
        str(node.path / path) for path in (PROFILE, "etc/openmpi/openmpi-mca-params.conf", CONFIG)
    ]


def test_check_mode_returns_the_same_result_and_writes_nothing(node: Node) -> None:
    before = node.files()
    foretold = node.run(check_mode=True)
    assert node.files() == before
    done = node.run()
    assert foretold == done
    after = {entry["after_header"].split()[0]: entry["after"] for entry in foretold["diff"]}
    assert after == {path: Path(path).read_text() for path in done["files"]}


def test_a_second_run_changes_nothing(node: Node) -> None:
    node.run()
    before = node.files()
    answer = node.run()
    assert (answer["changed"], answer["diff"], answer["files"]) == (False, [], [])
    assert node.files() == before


def test_an_old_nccl_is_a_warning(node: Node) -> None:
    answer = node.run(min_version="2.20")
    assert (answer["_exit"], answer["nccl"]["verdict"]) == (0, "warn")
    assert node.warned == [f"{NCCL}.18.5 is NCCL 2.18.5; 2.20 or newer is needed."]


def test_when_old_fail_fails_for_an_old_nccl_before_writing(node: Node) -> None:
    before = node.files()
    answer = node.run(min_version="2.20", when_old="fail")
    assert (answer["_exit"], answer["nccl"]["verdict"]) == (1, "fail")
    assert "2.20 or newer is needed. Nothing was written." in answer["msg"]
    assert node.files() == before


@pytest.mark.parametrize("options", [{"min_version": "new"}, {"library_paths": ["lib"]}, {"settings": {"A B": 1}}])
def test_refuses_invalid_options(node: Node, options: dict[str, Any]) -> None:
    before = node.files()
    answer = node.run(**options)
    assert answer["_exit"] == 1
    assert next(iter(options)) in answer["msg"]
    assert node.files() == before
