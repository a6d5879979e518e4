# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check mode of modules predicts the changes of a run, and a second run changes nothing.

The modules are gpu_clocks, nccl_topology, nccl_environment and node_tools. The machine has no GPU: the driver's library
is a stand-in. nvme_raid and numa_pin_check are tested the same way, on real disks and processes of this machine.
"""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from hardware.controller import Result, Task, play
from hardware.vm import Machine

# The scenario molecule/node runs the roles that use these modules in both modes, in far less time.
pytestmark = pytest.mark.thorough
STAND_IN = Path(__file__).resolve().parents[1] / "stand_ins/nvml/build.sh"
STATE = "/run/nvml-stand-in"
LIBRARY = "/usr/local/lib/libnvidia-ml.so.1"
# The machine has these NUMA nodes and CPUs, but not these GPUs.
SIZE = {
    "vcpus": 4,
    "sockets": 4,
    "cores_per_socket": 1,
    "threads_per_core": 1,
    "cpu": {"arch": "x86_64", "vendor": "AuthenticAMD", "family": 23, "model": 49},
    "numa_nodes": [{"id": node, "cpus": str(node)} for node in range(4)],
    "gpu_model": "A100-SXM4-40GB",
    "gpus": [
        {"busid": f"000{number + 1}:00:00.0", "numa_node": number // 2, "switch": number // 2} for number in range(8)
    ],
    "hcas": [
        {"busid": f"010{number + 1}:00:00.0", "numa_node": number // 2, "switch": number // 2} for number in range(8)
    ],
    "ib_rate_gbps": 200,
    "pcie_gtps": "16 GT/s",
    "pcie_width": 16,
}


def put(machine: Machine, content: bytes, path: str) -> None:
    """Copy a binary file to the machine."""
    text = base64.b64encode(content).decode("ascii")
    machine.run(f"mkdir -p $(dirname {path}); base64 -d > {path}", stdin=text)


@pytest.fixture
def with_gpus(machine: Machine, tmp_path: Path) -> Iterator[Machine]:
    """The machine with a stand-in driver for eight GPUs."""
    subprocess.run([str(STAND_IN), str(tmp_path)], check=True)
    put(machine, (tmp_path / "libnvidia-ml.so.1").read_bytes(), LIBRARY)
    # A loaded driver has a folder in /sys/module, where no folder can be created without the mount.
    machine.run(f"ldconfig; rm -rf {STATE}; mount -t tmpfs tmpfs /sys/module; mkdir /sys/module/nvidia")
    machine.write(f"{STATE}/config", "gpus=8\nmodel=a100-40\n")
    yield machine
    machine.run(f"umount /sys/module; rm -rf {STATE} {LIBRARY} /run/hpcai /etc/hpcai; ldconfig")


def assert_check_mode_predicts_the_run(results: Sequence[Result]) -> None:
    """Check the results of four tasks: check mode, run, check mode, run."""
    predicted, done, predicted_again, again = results
    assert not any(result.failed for result in results), [result.msg for result in results]
    assert [result.changed for result in results] == [True, True, False, False]
    assert predicted["diff"] == done["diff"]
    assert predicted["diff"]
    assert_empty_diff(predicted_again)
    assert_empty_diff(again)


def assert_empty_diff(result: Result) -> None:
    """Check that before and after are equal in each diff."""
    diffs = result.data.get("diff") or []
    for diff in diffs if isinstance(diffs, list) else [diffs]:
        assert diff.get("before") == diff.get("after")


def four_times(module: str, options: dict[str, object], environment: dict[str, str] | None = None) -> list[Task]:
    """Tasks for check mode, run, check mode, run."""
    return [Task(module, options, check, environment or {}) for check in (True, False, True, False)]


def test_check_mode_of_gpu_clocks_predicts_the_run(with_gpus: Machine) -> None:
    environment = {"NVML_STAND_IN": STATE}
    *results, undone, undone_again = play(
        with_gpus,
        *four_times("gpu_clocks", {"state": "max", "persistence": True}, environment),
        Task("gpu_clocks", {"state": "default"}, environment=environment),
        Task("gpu_clocks", {"state": "default"}, environment=environment),
    )
    assert_check_mode_predicts_the_run(results)
    assert [gpu["index"] for gpu in results[1]["gpus"]] == list(range(8))
    assert (undone.failed, undone.changed) == (False, True), undone.msg
    assert (undone_again.failed, undone_again.changed) == (False, False), undone_again.msg


def test_check_mode_of_nccl_topology_predicts_the_run(machine: Machine) -> None:
    options: dict[str, object] = {
        "vm_size": "emulated",
        "vm_sizes": {"emulated": SIZE},
        "verify": "warn",
        "settings": {"NCCL_DEBUG": "WARN"},
    }
    machine.run("echo NCCL_IB_TIMEOUT=22 > /etc/nccl.conf; mkdir -p /etc/enroot")
    try:
        *results, strict, gone, gone_again = play(
            machine,
            *four_times("nccl_topology", options),
            Task("nccl_topology", {**options, "verify": "strict"}),
            Task("nccl_topology", {"state": "absent"}),
            Task("nccl_topology", {"state": "absent"}),
        )
        assert_check_mode_predicts_the_run(results)
        # The machine has the NUMA nodes of the VM size, but none of its GPUs.
        assert len(results[1]["mismatches"]) == 2, results[1]["mismatches"]
        assert strict.failed
        assert "GPUs: expected 8, found none" in strict.msg
        assert "NUMA node" not in strict.msg
        assert (gone.failed, gone.changed) == (False, True), gone.msg
        assert (gone_again.failed, gone_again.changed) == (False, False), gone_again.msg
        assert machine.run("cat /etc/nccl.conf") == "NCCL_IB_TIMEOUT=22\n"
    finally:
        machine.run("rm -rf /etc/nccl.conf /etc/enroot /etc/hpcai /var/lib/hpcai")


def test_check_mode_of_nccl_environment_predicts_the_run(machine: Machine) -> None:
    """A machine without NCCL, which no role has set up."""
    options: dict[str, object] = {"vm_size": "Standard_ND96asr_v4", "settings": {"UCX_LOG_LEVEL": "error"}}
    profile = "/etc/profile.d/hpcai-nccl.sh"
    try:
        *results, gone, gone_again = play(
            machine,
            *four_times("nccl_environment", options),
            Task("nccl_environment", {"state": "absent"}),
            Task("nccl_environment", {"state": "absent"}),
        )
        assert_check_mode_predicts_the_run(results)
        machine.run(f"test ! -e {profile}")
        assert (gone.failed, gone.changed) == (False, True), gone.msg
        assert (gone_again.failed, gone_again.changed) == (False, False), gone_again.msg
    finally:
        machine.run(f"rm -rf {profile} /etc/hpcai /var/lib/hpcai")


def test_check_mode_of_node_tools_predicts_the_run(machine: Machine) -> None:
    try:
        results = play(machine, *four_times("node_tools", {}))
        assert_check_mode_predicts_the_run(results)
        assert machine.run("hpcnode version || hpcnode --version").strip()
        assert machine.run("systemctl is-enabled hpcai-boot.target hpcai-scratch.service").split() == ["enabled"] * 2
    finally:
        play(machine, Task("node_tools", {"state": "absent"}))
