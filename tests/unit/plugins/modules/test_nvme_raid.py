# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module nvme_raid and the settings for the boot, on a fake node; Ansible's side of it."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.lock import only_one
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.scratch import ensure as core
from ansible_collections.hpcai.azure.plugins.modules import nvme_raid

from ..module_utils._node.setup.scratch.node import Node

RunModule = Callable[..., dict[str, Any]]
SETTINGS = "/etc/hpcai/scratch.json"


@pytest.fixture
def node(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """Eight blank disks. The boot's service is installed."""
    played = Node(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", lambda *_arguments: None)
    monkeypatch.setattr(nvme_raid, "existing_root", lambda _path: played.root)
    monkeypatch.setattr(nvme_raid, "run", played.run)
    unit = tmp_path / "usr/lib/systemd/system/hpcai-scratch.service"
    unit.parent.mkdir(parents=True)
    unit.touch()
    return played


ME = {"owner": str(os.getuid()), "group": str(os.getgid())}


def test_builds_once_and_returns_the_scratch_each_time(node: Node, run_module: RunModule) -> None:
    foreseen = run_module(nvme_raid.main, check_mode=True, **ME)
    assert node.commands == []
    assert node.root.text(SETTINGS) is None
    built = run_module(nvme_raid.main, **ME)
    assert (built["_exit"], built["changed"], built["actions"]) == (0, True, foreseen["actions"])
    assert built["actions"][-1] == "write /etc/hpcai/scratch.json"
    assert built["array"] == "/dev/md125"
    assert built["diff"]["after"]["mountpoint"] == "/scratch"
    again = run_module(nvme_raid.main, **ME)
    assert (again["changed"], again["actions"]) == (False, [])
    assert again["diff"]["before"] == again["diff"]["after"]
    for key in ("array", "devices", "filesystem", "mountpoint", "size_bytes", "adopted"):
        assert again[key] == built[key]


def test_saves_the_settings_for_the_boot_without_force_devices(node: Node, run_module: RunModule) -> None:
    options = {"expected_count": 8, "chunk": "256K", "force_devices": ["/dev/nvme0n1"], **ME}
    run_module(nvme_raid.main, **options)
    kept = json.loads(node.root.text(SETTINGS) or "")
    assert kept.pop("schema") == 1
    assert (kept["expected_count"], kept["chunk"]) == (8, "256K")
    assert "force_devices" not in kept
    node.commands.clear()
    changed = run_module(nvme_raid.main, **{**options, "on_count_mismatch": "warn"})
    assert (changed["actions"], node.commands) == (["write /etc/hpcai/scratch.json"], [])
    assert '"on_count_mismatch": "fail"' in changed["diff"]["before"]["settings"]
    assert '"on_count_mismatch": "warn"' in changed["diff"]["after"]["settings"]


def test_an_image_saves_the_settings_and_reads_no_disk(node: Node, run_module: RunModule) -> None:
    foreseen = run_module(nvme_raid.main, check_mode=True, state="configured", chunk="1M", **ME)
    assert (foreseen["changed"], node.root.text(SETTINGS)) == (True, None)
    kept = run_module(nvme_raid.main, state="configured", chunk="1M", **ME)
    assert (kept["changed"], kept["actions"], kept["devices"]) == (True, ["write /etc/hpcai/scratch.json"], [])
    assert node.commands == node.looked == []
    assert run_module(nvme_raid.main, state="configured", chunk="1M", **ME)["changed"] is False
    assert "chunk" in run_module(nvme_raid.main, state="configured", chunk="5M", **ME)["msg"]


def test_nvme_count_applies_to_this_run_and_is_not_saved(node: Node, run_module: RunModule) -> None:
    run_module(nvme_raid.main, state="configured", **ME)
    before = (node.folder / SETTINGS.lstrip("/")).read_bytes()
    refused = run_module(nvme_raid.main, nvme_count=9, **ME)
    assert "there are 8 local NVMe disks where 9 are expected (found: nvme0n1 SN0, " in refused["msg"]
    built = run_module(nvme_raid.main, nvme_count=8, **ME)
    assert built["actions"][0].startswith("create a RAID 0")
    assert (node.folder / SETTINGS.lstrip("/")).read_bytes() == before
    assert run_module(nvme_raid.main, nvme_count=8, expected_count=7, **ME)["failed"]
    assert not run_module(nvme_raid.main, nvme_count=8, expected_count=8, **ME).get("failed")


def test_listed_devices_override_nvme_count(node: Node, run_module: RunModule) -> None:
    built = run_module(nvme_raid.main, nvme_count=8, devices=["/dev/nvme1n1", "/dev/nvme2n1"], **ME)
    assert built["devices"] == ["/dev/nvme1n1", "/dev/nvme2n1"]


@pytest.mark.parametrize("goal", [{"persistent": False}, {"state": "absent"}])
def test_removes_the_saved_settings(node: Node, run_module: RunModule, goal: dict[str, Any]) -> None:
    run_module(nvme_raid.main, **ME)
    gone = run_module(nvme_raid.main, **{**ME, **goal})
    assert "remove /etc/hpcai/scratch.json" in gone["actions"]
    assert not node.root.exists(SETTINGS)
    assert run_module(nvme_raid.main, **{**ME, **goal})["changed"] is False


def test_warns_if_no_service_mounts_the_scratch_at_boot(
    node: Node, run_module: RunModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(nvme_raid.AnsibleModule, "warn", lambda _module, warning: warnings.append(warning))
    run_module(nvme_raid.main, **ME)
    assert warnings == []
    (node.folder / "usr/lib/systemd/system/hpcai-scratch.service").unlink()
    assert run_module(nvme_raid.main, **ME)["changed"] is False
    assert len(warnings) == 1
    assert "hpcai-scratch.service is not installed" in warnings[0]
    run_module(nvme_raid.main, persistent=False, **ME)
    assert len(warnings) == 1


def test_a_wrong_disk_count_fails_in_one_line_and_keeps_the_settings(node: Node, run_module: RunModule) -> None:
    run_module(nvme_raid.main, **ME)
    before = node.root.text(SETTINGS)
    node.commands.clear()
    answer = run_module(nvme_raid.main, expected_count=7, **ME)
    assert answer["failed"] is True
    assert "8 local NVMe disks where 7 are expected" in answer["msg"]
    assert (node.root.text(SETTINGS), node.commands) == (before, [])


def test_an_invalid_option_fails(node: Node, run_module: RunModule) -> None:
    answer = run_module(nvme_raid.main, label="hpcai-scratch")
    assert answer["failed"] is True
    assert "label must be 1 to 12 letters" in answer["msg"]


@pytest.mark.parametrize("state", ["present", "configured"])
@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"owner": "no-such-user"}, "owner: there is no user 'no-such-user' on this machine."),
        ({"group": "no-such-group"}, "group: there is no group 'no-such-group' on this machine."),
        ({"owner": "4294967295"}, "owner: 4294967295 is above the highest id"),
        ({"mount_options": ["rw ; x"]}, r"mount_options[0] must be an option"),
        ({"mountpoint": "/scratch\nb"}, "mountpoint must be one line"),
        ({"models": []}, "models and devices are both empty"),
        # What YAML makes of 01777 without quotes.
        ({"mode": 1023}, "mode must be octal digits in quotes, such as '1777', not 1023"),
        ({"expected_count": -1}, "expected_count must be a whole number of 0 or more, not -1"),
        ({"nvme_count": -3}, "nvme_count must be a whole number of 0 or more, not -3"),
        ({"nvme_count": -3, "expected_count": 8}, "nvme_count must be a whole number of 0 or more, not -3"),
        *(
            ({"lock_timeout": seconds}, "lock_timeout must be seconds from 0")
            for seconds in (-1, float("nan"), float("inf"), 1e300)
        ),
    ],
)
def test_refuses_settings_that_the_boot_would_refuse(
    node: Node, run_module: RunModule, state: str, option: dict[str, Any], words: str
) -> None:
    answer = run_module(nvme_raid.main, state=state, **{**ME, **option})
    assert answer["failed"] is True
    assert answer["msg"].startswith(words)
    assert "\n" not in answer["msg"]
    assert node.commands == []
    assert node.root.text(SETTINGS) is None


def test_a_second_run_at_the_same_time_fails_after_lock_timeout(node: Node, run_module: RunModule) -> None:
    with only_one(node.root.at(core.LOCK), 0):
        answer = run_module(nvme_raid.main, lock_timeout=0, **ME)
    assert answer["failed"] is True
    assert f"another run is changing the scratch: process {os.getpid()} holds" in answer["msg"]
    assert node.commands == []
    assert run_module(nvme_raid.main, lock_timeout=0, **ME)["changed"]


def test_a_missing_root_is_refused(run_module: RunModule) -> None:
    answer = run_module(nvme_raid.main, root="/there/is/none", **ME)
    assert answer["msg"] == "root /there/is/none: there is no such folder"


def test_needs_root(node: Node, run_module: RunModule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "needs root. Run with become" in run_module(nvme_raid.main, **ME)["msg"]
