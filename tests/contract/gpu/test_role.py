# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role gpu on a simulated node with the stand-in for NVML: bake, configure, boot, reload, undo, faults."""

from __future__ import annotations

import json
import os
import pathlib
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stand_ins.played_node import _HPCNODE, REPOSITORY, PlayedNode

SIZE = "Standard_ND96asr_v4"
SETTINGS = json.dumps({"schema": 1, "vm_size": SIZE})
OPTIONS: dict[str, Any] = {"gpu_min_driver": "550", "gpu_timeout": 20}
BUSIDS = ("0001", "0002", "0003", "0004", "000b", "000c", "000d", "000e")
HIGHEST = {f"gpu.{index}.set.application_graphics": 1410 for index in range(8)}
# systemctl as on a machine without running systemd, and modprobe that loads any module.
COMMANDS = {
    "systemctl": """\
echo "systemctl $*" >> "$PLAYED/ran"
case "$1" in
is-enabled) cat "$PLAYED/daemon" ;;
enable) echo enabled > "$PLAYED/daemon" ;;
*) echo "System has not been booted with systemd as init system (PID 1). Can't operate." >&2; exit 1 ;;
esac
""",
    "modprobe": """\
echo "modprobe $*" >> "$PLAYED/ran"
if [ -e "$PLAYED/no_module" ]; then
    echo "modprobe: FATAL: Module $1 not found in directory /lib/modules/6.1.0-26-cloud-amd64" >&2
    exit 1
fi
mkdir -p /sys/module/nvidia "/sys/module/$1"
""",
}


class GpuNode(PlayedNode):
    """A node whose driver is not loaded yet."""

    def __init__(self, folder: Path, library: Path) -> None:
        super().__init__(folder, SIZE, "gpu")
        self.gpus, self.library = folder / "gpus", library
        self.gpus.mkdir()
        self.play_gpus(**{f"gpu__{index}__busid": f"0000{domain}:00:00.0" for index, domain in enumerate(BUSIDS)})
        # The namespace mounts this folder's sys as /sys.
        (folder / "sys/module").mkdir()
        for name, text in COMMANDS.items():
            self.command(name, text)
        (folder / "daemon").write_text("disabled\n", encoding="ascii")
        self.environment = {
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": str(library),
            "NVML_STAND_IN": str(self.gpus),
            "PLAYED": str(folder),
        }

    def command(self, name: str, text: str) -> None:
        """Replace a command by a script."""
        file = self.folder / "bin" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/sh\n{text}", encoding="ascii")
        file.chmod(0o755)

    def play_gpus(self, **settings: Any) -> None:
        """Add lines to the stand-in's settings; a double underscore is a dot."""
        with (self.gpus / "config").open("a", encoding="ascii") as file:
            file.writelines(f"{name.replace('__', '.')}={value}\n" for name, value in settings.items())

    @property
    def clocks(self) -> dict[str, int]:
        """The graphics clocks that were set."""
        file = self.gpus / "state"
        lines = file.read_text(encoding="ascii").splitlines() if file.exists() else []
        pairs = (line.split("=") for line in lines)
        return {key: int(value) for key, value in pairs if key.endswith("application_graphics")}

    def ran(self) -> list[str]:
        """The commands that ran since the last call."""
        file = self.folder / "ran"
        lines = file.read_text(encoding="ascii").splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return lines

    def reload_driver(self) -> None:
        """Unload the driver and load only its main module again, without its earlier settings."""
        modules = self.folder / "sys/module"
        for name in ("nvidia_uvm", "nvidia_peermem", "nvidia"):
            (modules / name).rmdir()
        # Without this folder, the file system could assign the old folder's inode number to the new one.
        (modules / "other").mkdir(exist_ok=True)
        (modules / "nvidia").mkdir()
        (self.gpus / "state").unlink()


@pytest.fixture
def node(tmp_path: pathlib.Path, library: pathlib.Path) -> Iterator[GpuNode]:
    """The node, without any file of the collection."""
    if os.geteuid():
        pytest.skip("only root can play a node in namespaces")
    played = GpuNode(tmp_path, library)
    yield played
    played.end()


@pytest.mark.thorough
def test_an_image_is_baked_without_a_gpu_and_the_boot_sets_the_clocks(node: GpuNode) -> None:
    node.environment["LD_LIBRARY_PATH"] = ""
    predicted = node.play("install", "--check", **OPTIONS)
    assert (predicted["changed"], node.files()) == (1, {})
    assert node.play("install", **OPTIONS)["changed"] == 1
    assert sorted(node.files()) == ["etc/hpcai/clocks.json", "etc/hpcai/gpu.json"]
    assert json.loads(node.text("/etc/hpcai/gpu.json") or "") == {"schema": 1, "min_driver": "550", "timeout": 20.0}
    assert (node.folder / "daemon").read_text(encoding="ascii") == "enabled\n"
    assert node.play("install", **OPTIONS)["changed"] == 0
    assert node.play("install", "--check", **OPTIONS)["changed"] == 0
    assert not [line for line in node.ran() if "modprobe" in line]

    baked = node.files()
    node.environment["LD_LIBRARY_PATH"] = str(node.library)
    node.write("/etc/hpcai/node.json", SETTINGS)
    status, output = node.hpcnode("boot", "run", "gpu", "clocks")
    assert status == 0, output
    assert [step["verdict"] for step in output["steps"]] == ["warn", "pass"]
    assert node.clocks == HIGHEST
    # Ansible changes nothing after the boot, and the baked files are unchanged.
    assert node.play("main", **OPTIONS)["changed"] == 0
    assert {path: digest for path, digest in node.files().items() if path in baked} == baked


@pytest.mark.thorough
def test_a_converged_node_takes_six_tasks(node: GpuNode) -> None:
    node.write("/etc/hpcai/node.json", SETTINGS)
    before = node.files()
    predicted = node.play("main", "--check", **OPTIONS)
    # The driver is not loaded, so check mode cannot read the clocks.
    assert (predicted["changed"], predicted["skipped"], node.files()) == (2, 1, before)
    assert node.play("main", **OPTIONS)["changed"] == 3
    assert node.clocks == HIGHEST
    node.ran()
    counts = node.play("main", **OPTIONS)
    assert (counts["changed"], counts["ok"], counts["skipped"]) == (0, 6, 0)
    assert not [line for line in node.ran() if "is-enabled" not in line and "show" not in line]


def test_a_job_gets_the_highest_clocks_on_its_own_gpus_if_the_cluster_allows_it(node: GpuNode) -> None:
    node.write("/etc/hpcai/node.json", SETTINGS)
    allowed = {**OPTIONS, "gpu_job_clocks": True, "gpu_clocks": {"state": "default"}}
    node.play("main", **allowed)
    assert {"etc/hpcai/prolog.d/25-clocks", "etc/hpcai/epilog.d/25-clocks"} <= set(node.files())
    node.environment |= {"SLURM_JOB_ID": "42", "SLURM_JOB_GPUS": "0,1", "SLURM_JOB_CONSTRAINTS": "maxclocks"}
    words = (sys.executable, "-I", "-c", _HPCNODE, str(REPOSITORY / "plugins/module_utils"))
    node.command("hpcnode", f'exec {shlex.join(words)} "$@"\n')
    for kind, expected in (("prolog", {1410}), ("epilog", {1095})):
        script = node.text(f"/etc/hpcai/{kind}.d/25-clocks") or ""
        assert "/usr/bin/hpcnode" in script
        done = node.run("sh", "-c", script.replace("/usr/bin/hpcnode", str(node.folder / "bin/hpcnode")))
        assert "GPUs 0, 1" in done.stdout, done
        assert {node.clocks.get(f"gpu.{index}.set.application_graphics", 1095) for index in (0, 1)} == expected, kind
        assert {node.clocks.get(f"gpu.{index}.set.application_graphics", 1095) for index in range(2, 8)} == {1095}
    node.play("main", **{**allowed, "gpu_job_clocks": False})
    assert not [path for path in node.files() if path.endswith("25-clocks")]


@pytest.mark.thorough
def test_absent_removes_all_settings_and_resets_the_clocks(node: GpuNode) -> None:
    node.write("/etc/hpcai/node.json", SETTINGS)
    node.play("main", **OPTIONS)
    predicted = node.play("main", "--check", gpu_state="absent")
    assert (predicted["changed"], node.clocks) == (2, HIGHEST)
    assert node.play("main", gpu_state="absent")["changed"] == 2
    assert not [path for path in node.files() if path.startswith("etc/hpcai/") and "node.json" not in path]
    assert set(node.clocks.values()) <= {1095}
    assert node.play("main", gpu_state="absent")["changed"] == 0


@pytest.mark.thorough
def test_the_boot_steps_set_the_clocks_again_after_a_driver_reload(node: GpuNode) -> None:
    """The unit hpcai-driver-loaded.service runs this command."""
    node.write("/etc/hpcai/node.json", SETTINGS)
    node.play("main", **OPTIONS)
    node.reload_driver()
    assert node.clocks == {}
    status, output = node.hpcnode("boot", "run", "gpu", "clocks")
    assert status == 0, output
    assert node.clocks == HIGHEST
    assert "modprobe nvidia_uvm" in output["steps"][0]["changes"]
    # In a boot, the module is loaded before the steps, so a second run of the steps must change nothing.
    status, output = node.hpcnode("boot", "run", "gpu", "clocks")
    assert [step["changes"] for step in output["steps"]] == [[], []]


@pytest.mark.daily(1)
@pytest.mark.parametrize(
    "variables",
    [
        {"azure_vm_size": "Standard_D4s_v5"},
        {"azure_vm_size": "Standard_Mine", "hpcai_vm_sizes": {"mine": {"vcpus": 2, "memory_mib": 1024}}},
        {"gpu_count": 0, "azure_vm_size": SIZE, "azure_sku": {"gpu_count": 8}},
        {"gpu_has_gpus": "false"},
    ],
)
def test_without_gpus_the_role_takes_one_skipped_task(node: GpuNode, variables: dict[str, Any]) -> None:
    counts = node.play("main", **variables)
    # The task that is ok is Ansible's validation of the variables, which is also one of the five tasks above.
    assert (counts["ok"], counts["skipped"], counts["changed"]) == (1, 1, 0)
    assert (node.files(), node.ran()) == ({}, [])


@pytest.mark.thorough
def test_a_machine_whose_size_has_no_gpus_is_not_changed(node: GpuNode) -> None:
    node.write("/etc/hpcai/node.json", json.dumps({"schema": 1, "vm_size": "Mine", "vm_sizes": {"Mine": {"vcpus": 2}}}))
    counts = node.play("main")
    assert (counts["skipped"], counts["failed"]) == (1, 0)
    assert not [line for line in node.ran() if "modprobe" in line]


@pytest.mark.daily(1)
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"no_module": True}, "NVIDIA's driver is not loaded: modprobe: FATAL: Module nvidia_uvm not found"),
        ({"gpus": 7}, "7 of 8 GPUs: the driver does not know 000e:00:00.0"),
        ({"hang__nvmlInitWithFlags": 60}, "NVIDIA's driver did not answer twice in a row, 2 s each time"),
    ],
    ids=["no driver", "fewer GPUs", "no answer"],
)
def test_a_fault_that_would_block_slurmd_fails_the_run(node: GpuNode, fault: dict[str, Any], words: str) -> None:
    node.write("/etc/hpcai/node.json", SETTINGS)
    if fault.pop("no_module", False):
        (node.folder / "no_module").touch()
    node.play_gpus(**fault)
    done = node.try_to_play("main", **{**OPTIONS, "gpu_timeout": 2})
    assert done.returncode != 0
    assert words in done.stdout
    assert node.clocks == {}
    # The settings for the next boot are written nevertheless.
    assert node.text("/etc/hpcai/clocks.json")


@pytest.mark.thorough
def test_absent_works_with_a_failing_driver(node: GpuNode) -> None:
    node.write("/etc/hpcai/node.json", SETTINGS)
    node.play("install", **OPTIONS)
    (node.folder / "no_module").touch()
    assert node.play("main", gpu_state="absent")["changed"] == 1
    assert node.text("/etc/hpcai/clocks.json") is None


@pytest.mark.thorough
def test_gpu_clocks_can_be_empty_or_explicit(node: GpuNode) -> None:
    node.write("/etc/hpcai/node.json", SETTINGS)
    node.play("main", gpu_clocks={})
    assert (node.clocks, node.text("/etc/hpcai/clocks.json")) == ({}, None)
    node.play(
        "main", gpu_clocks={"state": "explicit", "graphics_mhz": 1095, "gpus": ["0004:00:00.0"], "method": "locked"}
    )
    assert json.loads(node.text("/etc/hpcai/clocks.json") or "")["graphics_mhz"] == 1095
    locked = (node.gpus / "state").read_text(encoding="ascii")
    assert "gpu.3." in locked
    assert "gpu.2." not in locked
