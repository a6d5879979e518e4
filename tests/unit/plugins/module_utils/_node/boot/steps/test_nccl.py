# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Step nccl on a machine tree."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from stand_ins.sized_machine import SizedMachine

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.step import Context, Outcome
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.steps.nccl import STEP
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import UnknownVmSize

CONF, TOPOLOGY, PROFILE = "etc/nccl.conf", "var/lib/hpcai/nccl-topo.xml", "etc/profile.d/hpcai-nccl.sh"
SIZE = "Standard_ND96asr_v4"

# Overwrites nccl.conf as the service of the HPC images does at each boot.
SERVICE = """\
#!/bin/sh
: > "$1"
sleep 0.1
printf 'NCCL_IB_PCI_RELAXED_ORDERING=1\\nNCCL_TOPO_FILE=/opt/microsoft/ndv4/topo.xml\\n' > "$1"
"""


class Node:
    """A machine tree, and the step that runs on it."""

    def __init__(self, path: Path, size: str) -> None:
        self.tree = SizedMachine.of_size(path, size)
        self.path = path
        self.settings("node", {"vm_size": size})

    def settings(self, name: str, values: dict[str, Any]) -> None:
        """Write a settings file."""
        self.tree.write(f"etc/hpcai/{name}.json", json.dumps({"schema": 1, **values}))

    def boot(self, check: bool = False) -> Outcome:
        """Perform the step."""
        return STEP.perform(Context(Root(str(self.path)), self._run, check))

    def text(self, path: str) -> str | None:
        """Return a file's text; None if there is no file."""
        file = self.path / path
        return file.read_text() if file.exists() else None

    def files(self) -> dict[str, bytes]:
        """Return all files outside /sys, with their contents."""
        found = {str(file.relative_to(self.path)): file for file in self.path.rglob("*") if file.is_file()}
        return {name: file.read_bytes() for name, file in found.items() if not name.startswith("sys/")}

    def service(self) -> None:
        """Run the images' service."""
        subprocess.run(["sh", "-c", SERVICE, "service", str(self.path / CONF)], check=True, timeout=20)

    @staticmethod
    def _run(command: Sequence[str]) -> Result:
        return Result(tuple(command), 1, "", "")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A new ND A100 v4, from an image without settings for NCCL."""
    return Node(tmp_path, SIZE)


def test_the_step_is_not_blocking() -> None:
    assert (STEP.name, STEP.blocking) == ("nccl", False)


def test_a_new_instance_gets_the_files_of_its_size(node: Node) -> None:
    before = node.files()
    outcome = node.boot()
    assert (outcome.verdict, outcome.action) == ("pass", "")
    assert outcome.summary == f"NCCL has the topology file and the variables of {SIZE}"
    assert f"NCCL_TOPO_FILE={node.path}/{TOPOLOGY}" in (node.text(CONF) or "")
    assert "<system" in (node.text(TOPOLOGY) or "")
    assert "coll_hcoll_enable='0'" in (node.text(PROFILE) or "")
    # The step writes no settings for the next boot.
    assert set(node.files()) - set(before) == {
        CONF,
        TOPOLOGY,
        PROFILE,
        "etc/enroot/mounts.d/60-hpcai-nccl.fstab",
        "etc/enroot/environ.d/60-hpcai-nccl.env",
    }
    assert set(outcome.changes) == {str(node.path / name) for name in set(node.files()) - set(before)}


def test_a_second_boot_changes_nothing(node: Node) -> None:
    node.boot()
    before = node.files()
    assert node.boot().changes == ()
    assert node.files() == before


def test_check_mode_reports_the_same_and_changes_nothing(node: Node) -> None:
    before = node.files()
    foretold = node.boot(check=True)
    assert node.files() == before
    assert node.boot() == foretold


def test_applies_the_settings_of_the_modules(node: Node) -> None:
    node.settings("nccl", {"settings": {"NCCL_DEBUG": "WARN", "NCCL_IGNORE_CPU_AFFINITY": None}, "enroot_dir": None})
    node.settings("nccl_environment", {"settings": {"UCX_LOG_LEVEL": "error", "CUDA_DEVICE_ORDER": None}})
    before = node.files()
    assert node.boot().verdict == "pass"
    assert "NCCL_DEBUG=WARN\n" in (node.text(CONF) or "")
    assert "AFFINITY" not in (node.text(CONF) or "")
    assert "UCX_LOG_LEVEL='error'" in (node.text(PROFILE) or "")
    assert "CUDA_DEVICE_ORDER" not in (node.text(PROFILE) or "")
    assert set(node.files()) - set(before) == {CONF, TOPOLOGY, PROFILE}
    assert all(node.files()[name] == text for name, text in before.items())


def test_restores_our_block_after_the_images_service_ran(node: Node) -> None:
    node.boot()
    ours = node.text(CONF) or ""
    for again in range(2):
        node.service()
        assert "hpcai" not in (node.text(CONF) or ""), again
        outcome = node.boot()
        assert (outcome.verdict, outcome.changes) == ("pass", (str(node.path / CONF),))
        text = node.text(CONF) or ""
        # Our block must be first: NCCL uses the first line for a variable.
        assert text.startswith(ours)
        assert text.endswith("NCCL_TOPO_FILE=/opt/microsoft/ndv4/topo.xml\n")
    assert node.boot().changes == ()


@pytest.mark.parametrize("verify", [None, "strict", "omit"])
def test_a_wrong_topology_file_is_removed(node: Node, verify: str | None) -> None:
    if verify:
        node.settings("nccl", {"verify": verify})
    node.boot()
    node.service()
    node.tree.on_numa_node("0001:00:00.0", 0)
    outcome = node.boot()
    assert outcome.verdict == "warn"
    assert "No topology file is written" in outcome.summary
    assert "GPU 0001:00:00.0: expected NUMA node 1, found NUMA node 0" in outcome.summary
    assert "hpcnode nccl verify" in outcome.action
    assert node.text(TOPOLOGY) is None
    assert node.text("etc/enroot/environ.d/60-hpcai-nccl.env") is None
    lines = (node.text(CONF) or "").splitlines()
    # NCCL uses the first line, which overrides the images' topology file: that is wrong, too.
    assert next(line for line in lines if line.startswith("NCCL_TOPO_FILE")) == "NCCL_TOPO_FILE="
    assert "NCCL_SOCKET_IFNAME=eth0" in lines
    assert node.boot().changes == ()


def test_a_repaired_machine_gets_its_topology_file_again(node: Node) -> None:
    node.tree.on_numa_node("0001:00:00.0", 0)
    assert node.boot().verdict == "warn"
    node.tree.on_numa_node("0001:00:00.0", 1)
    assert node.boot().verdict == "pass"
    assert "<system" in (node.text(TOPOLOGY) or "")


def test_verify_warn_writes_the_wrong_file_with_a_warning(node: Node) -> None:
    node.settings("nccl", {"verify": "warn"})
    node.tree.on_numa_node("0001:00:00.0", 0)
    outcome = node.boot()
    assert outcome.verdict == "warn"
    assert "does not match this machine" in outcome.summary
    assert "<system" in (node.text(TOPOLOGY) or "")


def test_warns_of_an_old_nccl_even_with_when_old_fail(node: Node) -> None:
    node.settings("nccl_environment", {"when_old": "fail"})
    node.tree.write("usr/lib/x86_64-linux-gnu/libnccl.so.2.8.4", "")
    outcome = node.boot()
    assert outcome.verdict == "warn"
    assert "libnccl.so.2.8.4 is NCCL 2.8.4" in outcome.summary
    assert node.text(PROFILE)


def test_without_nccl_on_the_host_its_version_is_unknown(node: Node) -> None:
    outcome = node.boot()
    assert (outcome.verdict, outcome.details["nccl"]["verdict"]) == ("pass", "unknown")


def test_a_size_without_a_topology_file_gets_its_variables(tmp_path: Path) -> None:
    node = Node(tmp_path, SIZE)
    node.settings("node", {"vm_size": "nc40ads_h100_v5"})
    outcome = node.boot()
    assert outcome.verdict == "pass"
    assert "No topology file is generated for Standard_NC40ads_H100_v5: one GPU has no peer" in outcome.summary
    assert node.text(TOPOLOGY) is None
    assert node.text(PROFILE)


@pytest.mark.parametrize(
    ("size", "described"),
    [
        ("Standard_D4s_v5", {}),
        ("mine", {"mine": {"vcpus": 2, "memory_mib": 1024}}),
        ("mine", {"mine": {"vcpus": 2, "memory_mib": 1024, "gpu_count": 0}}),
    ],
)
def test_is_skipped_without_gpus(node: Node, size: str, described: dict[str, Any]) -> None:
    node.tree.without_devices()
    node.settings("node", {"vm_size": size, "vm_sizes": described})
    before = node.files()
    assert node.boot().verdict == "skip"
    assert node.files() == before


def test_state_absent_writes_no_file(node: Node) -> None:
    node.settings("nccl", {"state": "absent"})
    before = node.files()
    outcome = node.boot()
    assert (outcome.verdict, "turned off" in outcome.summary) == ("pass", True)
    assert set(node.files()) - set(before) == {PROFILE}
    (node.path / PROFILE).unlink()
    node.settings("nccl_environment", {"state": "absent"})
    before = node.files()
    assert node.boot().verdict == "skip"
    assert node.files() == before


def test_an_unknown_size_with_gpus_is_an_error(node: Node) -> None:
    node.settings("node", {"vm_size": "Standard_D4s_v5"})
    with pytest.raises(UnknownVmSize, match="D4s"):
        node.boot()


@pytest.mark.parametrize("name", ["nccl", "nccl_environment"])
def test_a_broken_settings_file_is_named(node: Node, name: str) -> None:
    node.tree.write(f"etc/hpcai/{name}.json", "{")
    with pytest.raises(ConfigError, match=f"{name}.json"):
        node.boot()


def test_a_foreign_topology_file_fails_but_the_rest_is_done(node: Node) -> None:
    node.tree.write(TOPOLOGY, "<system version='1'><mine/></system>")
    node.settings("nccl_environment", {"settings": {"UCX_TLS": "a\nb"}})
    outcome = node.boot()
    assert outcome.verdict == "fail"
    assert "neither ours nor" in outcome.summary
    assert "nccl_environment.json: settings.UCX_TLS" in outcome.summary
    node.settings("nccl_environment", {})
    assert node.boot().verdict == "fail"
    assert node.text(PROFILE)
