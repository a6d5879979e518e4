# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The modules shared_mounts and nfs_exports: Ansible's side of them."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.modules import nfs_exports, shared_mounts

from ..module_utils._node.setup.shared_fs.test_exports import ME
from ..module_utils._node.setup.shared_fs.test_mounting import SHARED, Systemd
from ..module_utils._node.setup.users.machine import Machine

RunModule = Callable[..., dict[str, Any]]


@pytest.fixture
def systemd(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    """A machine's systemd."""
    machine = Machine(tmp_path)
    played = Systemd(machine)
    for module in (shared_mounts, nfs_exports):
        monkeypatch.setattr(module, "Root", lambda _path: machine.root)
    monkeypatch.setattr(shared_mounts, "run", played)
    return played


def test_mounts_once_and_check_mode_predicts_it(systemd: Systemd, run_module: RunModule) -> None:
    foreseen = run_module(shared_mounts.main, check_mode=True, mounts=[SHARED])
    assert systemd.commands == []
    done = run_module(shared_mounts.main, mounts=[SHARED])
    assert (done["changed"], done["actions"]) == (True, foreseen["actions"])
    assert done["diff"] == foreseen["diff"]
    assert "shared.mount" in systemd.on
    again = run_module(shared_mounts.main, mounts=[SHARED])
    assert (again["changed"], again["actions"], again["diff"]) == (False, [], [])


def test_an_unreachable_server_fails_the_run_and_keeps_the_units(
    systemd: Systemd, run_module: RunModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(shared_mounts.AnsibleModule, "warn", lambda _module, warning: warnings.append(warning))
    systemd.refuses.add("systemctl start shared.mount")
    failed = run_module(shared_mounts.main, mounts=[SHARED])
    assert failed["failed"] is True
    assert failed["msg"] == "10.0.0.4:/shared cannot be mounted at /shared: mount.nfs4: Connection refused"
    assert systemd.machine.text("etc/systemd/system/shared.automount")
    warned = run_module(shared_mounts.main, mounts=[SHARED], when_unreachable="warn")
    assert warned["changed"] is False
    assert warnings == [failed["msg"]]


def test_exports_once_and_reloads_a_running_server(
    systemd: Systemd, run_module: RunModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[str] = []

    def running(command: Any) -> Result:
        commands.append(" ".join(command))
        if command[0] == "exportfs":
            systemd.machine.file("var/lib/nfs/etab", "/shared\t10.0.0.0/24(rw)\n")
        return Result(tuple(command), 0, "", "")

    monkeypatch.setattr(nfs_exports, "run", running)
    options: dict[str, Any] = {"exports": [{"path": "/shared", **ME}], "networks": ["10.0.0.0/24"]}
    foreseen = run_module(nfs_exports.main, check_mode=True, **options)
    assert "exportfs -ra" not in commands
    done = run_module(nfs_exports.main, **options)
    assert (done["changed"], done["actions"]) == (True, foreseen["actions"])
    assert done["actions"][-1] == "exportfs -ra"
    assert "exportfs -ra" in commands
    assert run_module(nfs_exports.main, **options)["changed"] is False


def test_refuses_to_export_to_everybody_in_one_line(systemd: Systemd, run_module: RunModule) -> None:
    failed = run_module(nfs_exports.main, exports=[{"path": "/shared", **ME}], networks=["0.0.0.0/0"])
    assert failed["failed"] is True
    assert failed["msg"].startswith("0.0.0.0/0 includes everybody")
    assert not (systemd.machine.folder / "shared").exists()
