# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Step scratch: builds the scratch from the local disks, and reports what is wrong with them."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.step import Context, Outcome
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.steps.scratch import STEP
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, PASS, SKIP, WARN
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks import scratch as scratch_check
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import run
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import UnknownVmSize

from ...setup.scratch.node import Disk, Node

ME = {"owner": str(os.getuid()), "group": str(os.getgid())}
EIGHT = "Standard_ND96asr_v4"
NONE = "Standard_None"


@pytest.fixture
def node(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node of a size with eight blank disks, which has only the settings of its image."""
    played = Node(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", lambda *_arguments: None)
    monkeypatch.setattr(run.time, "sleep", lambda _seconds: None)
    size(played, EIGHT)
    settings(played)
    return played


def settings(node: Node, name: str = "scratch", **options: Any) -> None:
    """Write a settings file."""
    file = node.folder / f"etc/hpcai/{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"schema": 1, **(ME if name == "scratch" else {}), **options}), encoding="utf-8")


def size(node: Node, name: str) -> None:
    """Set the VM size of the node."""
    sizes = {NONE: {"vcpus": 4, "memory_mib": 16384, "nvme_count": 0}}
    settings(node, "node", vm_size=name, vm_sizes=sizes)


def boot(node: Node, check: bool = False, seconds: float = 0.003) -> Outcome:
    """Do the step."""
    return STEP.perform(Context(node.root, node.run, check, seconds))


def test_blank_disks_become_the_scratch(node: Node) -> None:
    foreseen = boot(node, check=True)
    assert node.commands == []
    done = boot(node)
    assert (done.verdict, done.changes) == (PASS, foreseen.changes)
    assert done.changes[0] == "create a RAID 0 of " + " ".join(f"nvme{n}n1" for n in range(8))
    assert done.summary == "/scratch: xfs on 8 local NVMe disks"
    assert (done.details["expected"], len(done.details["devices"])) == (8, 8)
    again = boot(node)
    assert (again.verdict, again.changes) == (PASS, ())
    json.dumps(done.details)


def test_after_a_redeploy_blank_disks_become_a_new_scratch(node: Node) -> None:
    boot(node)
    node.arrays.clear()
    node.mounts.pop()
    for name in list(node.disks):
        if name.startswith("nvme"):
            node.disks[name] = Disk(serial=f"NEW{name}")
    node.write()
    done = boot(node)
    assert done.verdict == PASS
    assert done.changes[0].startswith("create a RAID 0 of ")


def test_after_a_reboot_the_scratch_is_assembled_and_mounted(node: Node) -> None:
    node.ours(device="", mounted=False)
    done = boot(node)
    assert (done.verdict, [change.split()[0] for change in done.changes]) == (PASS, ["assemble", "mount", "make"])


def test_without_settings_the_defaults_apply(node: Node) -> None:
    (node.folder / "etc/hpcai/scratch.json").unlink()
    # In check mode only: the default owner is root, and this test may run as another user.
    assert boot(node, check=True).changes[-1] == "make /scratch root:root 1777"


def test_fewer_disks_than_expected_are_named_by_serial_number(node: Node) -> None:
    del node.disks["nvme3n1"]
    node.write()
    done = boot(node)
    assert done.verdict == FAIL
    assert (
        "there are 7 local NVMe disks where 8 are expected (found: nvme0n1 SN0, nvme1n1 SN1, nvme2n1 SN2, nvme4n1"
        in (done.summary)
    )
    assert {"path": "/dev/nvme4n1", "serial": "SN4"} in done.details["disks"]
    assert (done.details["expected"], len(done.details["disks"]), node.commands) == (8, 7, [])
    assert done.action


def test_without_any_disk_the_expected_number_is_reported(node: Node) -> None:
    node.disks = {name: disk for name, disk in node.disks.items() if name == "sda"}
    node.write()
    done = boot(node)
    assert done.verdict == FAIL
    assert "8 local NVMe disks are expected, and no disk has one of the models" in done.summary


def test_waits_for_disks_that_appear_late(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    late = node.disks.pop("nvme7n1")
    node.write()

    def sleep(_seconds: float) -> None:
        node.disks["nvme7n1"] = late
        node.write()

    monkeypatch.setattr(run.time, "sleep", sleep)
    assert boot(node, seconds=60).verdict == PASS
    assert node.looked[0].startswith("udevadm settle")


def test_a_disk_with_foreign_data_is_refused_and_named(node: Node) -> None:
    node.disks["nvme2n1"].signatures = [{"type": "ext4", "label": "precious"}]
    node.write()
    done = boot(node)
    assert (done.verdict, node.commands) == (FAIL, [])
    assert "/dev/nvme2n1 contains a file system or other data of type ext4 'precious'" in done.summary


def test_a_command_that_fails_fails_the_step(node: Node) -> None:
    node.failing = {"mkfs": (1, "mkfs.xfs: no such luck")}
    done = boot(node)
    assert done.verdict == FAIL
    assert "mkfs.xfs: no such luck" in done.summary
    assert "removed again" in done.summary


def test_a_mounted_scratch_that_cannot_be_written_fails_as_in_the_health_check(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    boot(node)
    monkeypatch.setattr(scratch_check, "why_not_writable", lambda _path: "Input/output error")
    done = boot(node)
    assert (done.verdict, done.summary) == (FAIL, "the scratch /scratch cannot be written: Input/output error")
    assert "journalctl -k -b" in done.action
    # Check mode writes nothing, so it cannot find this.
    assert boot(node, check=True).verdict == PASS


def test_a_failed_member_fails_as_in_the_health_check(node: Node) -> None:
    boot(node)
    (name,) = node.arrays
    (node.folder / f"sys/block/{name}/md/dev-nvme3n1/state").write_text("faulty\n", encoding="ascii")
    done = boot(node)
    assert (done.verdict, done.changes) == (FAIL, ())
    assert "nvme3n1 failed" in done.summary
    assert [one["verdict"] for one in done.details["findings"]] == [FAIL]


def test_warns_of_a_smaller_scratch_if_the_settings_allow_it(node: Node) -> None:
    settings(node, on_count_mismatch="warn")
    del node.disks["nvme3n1"]
    node.write()
    done = boot(node)
    assert done.verdict == WARN
    assert "there are 7 local NVMe disks where 8 are expected" in done.summary


def test_on_a_size_without_disks_existing_disks_are_not_used(node: Node) -> None:
    size(node, NONE)
    done = boot(node)
    assert (done.verdict, node.commands) == (SKIP, [])
    assert done.summary == (f"no local NVMe disks are expected (VM size {NONE}: 0); the 8 existing disks are not used")
    settings(node, expected_count=8)
    assert boot(node).verdict == PASS


@pytest.mark.parametrize("options", [{"expected_count": 8}, {"devices": ["/dev/nvme0n1", "/dev/nvme1n1"]}])
def test_settings_with_the_number_of_disks_need_no_size(node: Node, options: dict[str, Any]) -> None:
    size(node, "Standard_Q1")
    settings(node, **options)
    assert boot(node).verdict == PASS


def test_an_unknown_size_is_an_error_on_compute_nodes_only(node: Node) -> None:
    size(node, "Standard_Q1")
    with pytest.raises(UnknownVmSize, match="Standard_Q1"):
        boot(node)
    assert node.commands == []
    # Other nodes are expected to have no disks.
    settings(node, "cluster", functions=["controller"], cluster="c", controllers=[], key={"source": "push"})
    assert boot(node).verdict == SKIP


def test_a_described_size_without_nvme_count_uses_the_disks_found(node: Node) -> None:
    settings(node, "node", vm_size="Mine", vm_sizes={"Mine": {"vcpus": 4, "memory_mib": 16384}})
    assert boot(node).details["expected"] == 8
    node.disks = {name: disk for name, disk in node.disks.items() if name == "sda"}
    node.arrays.clear()
    node.mounts.pop()
    node.write()
    done = boot(node)
    assert done.verdict == SKIP
    assert "hpcai_vm_sizes has no nvme_count for Standard_Mine" in done.summary


def test_on_a_size_without_nvme_count_a_late_disk_does_not_cost_the_data(node: Node) -> None:
    settings(node, "node", vm_size="Standard_ND96isrf_H200_v5")
    node.ours(device="", mounted=False)
    late = node.disks.pop("nvme7n1")
    node.write()
    done = boot(node)
    assert (done.verdict, node.commands) == (FAIL, [])
    assert "there are 7 local NVMe disks where 8 are expected" in done.summary
    node.disks["nvme7n1"] = late
    node.write()
    assert [change.split()[0] for change in boot(node).changes] == ["assemble", "mount", "make"]


@pytest.mark.parametrize("text", ["{", '{"schema": 9}', '{"schema": 1, "chunk": "5M"}', '{"schema": 1, "devices": 7}'])
def test_a_broken_settings_file_is_named(node: Node, text: str) -> None:
    (node.folder / "etc/hpcai/scratch.json").write_text(text)
    with pytest.raises(ConfigError, match=r"etc/hpcai/scratch\.json"):
        boot(node)
    assert node.commands == []


def test_empty_directories_from_the_image_are_removed(node: Node) -> None:
    settings(node, "directories", folders={"site": [{"path": "data/a"}, {"path": "jobs"}]})
    for path in ("data/a", "jobs"):
        (node.folder / "scratch" / path).mkdir(parents=True)
    (node.folder / "scratch/jobs/file").write_text("somebody's")
    done = boot(node)
    assert done.verdict == FAIL
    assert "/scratch is not empty" in done.summary
    (node.folder / "scratch/data/a").mkdir(parents=True)
    (node.folder / "scratch/jobs/file").unlink()
    done = boot(node)
    assert done.verdict == PASS
    assert sorted(done.changes[:3]) == [f"remove the empty /scratch/{path}" for path in ("data", "data/a", "jobs")]


def test_directories_on_a_mounted_scratch_stay(node: Node) -> None:
    boot(node)
    settings(node, "directories", folders={"site": [{"path": "jobs"}]})
    (node.folder / "scratch/jobs").mkdir()
    assert boot(node).changes == ()
    assert (node.folder / "scratch/jobs").is_dir()


def test_the_step_is_blocking() -> None:
    assert STEP.blocking
    assert STEP.limit_s >= 120
