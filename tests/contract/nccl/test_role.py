# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role nccl on a simulated node: bake, configure, boot, login."""

from __future__ import annotations

import json

import pytest
from stand_ins.played_node import PlayedNode

from .conftest import SIZE

KEPT = ("etc/hpcai/nccl.json", "etc/hpcai/nccl_environment.json")
WRITTEN = (
    "etc/enroot/environ.d/60-hpcai-nccl.env",
    "etc/enroot/mounts.d/60-hpcai-nccl.fstab",
    "etc/nccl.conf",
    "etc/profile.d/hpcai-nccl.sh",
    "var/lib/hpcai/nccl-topo.xml",
)
NODE = json.dumps({"schema": 1, "vm_size": SIZE})
OPTIONS = {
    "nccl_settings": {"NCCL_DEBUG": "WARN", "NCCL_IGNORE_CPU_AFFINITY": None},
    "nccl_environment": {"UCX_LOG_LEVEL": "error", "CUDA_DEVICE_ORDER": None},
}
# The service of the HPC images rewrites the file like this at each boot.
REWRITE = """: > /etc/nccl.conf; printf 'NCCL_TOPO_FILE=/opt/microsoft/ndv4/topo.xml\\n' > /etc/nccl.conf"""


@pytest.mark.thorough
def test_an_image_stores_the_options_and_the_boot_applies_them(node: PlayedNode) -> None:
    predicted = node.play("install", "--check", **OPTIONS)
    assert (predicted["changed"], node.files()) == (2, {})
    assert node.play("install", **OPTIONS)["changed"] == 2
    assert tuple(sorted(node.files())) == KEPT
    assert "ND96" not in "".join(node.text(f"/{path}") or "" for path in KEPT)
    assert node.play("install", **OPTIONS)["changed"] == 0

    baked = node.files()
    node.write("/etc/hpcai/node.json", NODE)
    status, output = node.hpcnode("boot", "run", "nccl")
    assert status == 0, output
    for path in WRITTEN:
        assert node.text(f"/{path}"), path
    assert "NCCL_DEBUG=WARN\n" in (node.text("/etc/nccl.conf") or "")
    assert {path: node.files()[path] for path in KEPT} == baked

    # Ansible changes nothing after the boot.
    assert node.play("main", **OPTIONS)["changed"] == 0


@pytest.mark.thorough
def test_a_converged_node_takes_three_tasks(node: PlayedNode) -> None:
    node.write("/etc/hpcai/node.json", NODE)
    assert node.play("main", "--check", **OPTIONS)["changed"] == 2
    assert set(node.files()) == {"etc/hpcai/node.json"}
    assert node.play("main", **OPTIONS)["changed"] == 2
    before = node.files()
    assert set(WRITTEN) | set(KEPT) <= set(before)
    counts = node.play("main", **OPTIONS)
    assert (counts["changed"], counts["ok"], counts["skipped"]) == (0, 3, 0)
    assert node.files() == before
    assert node.play("main", nccl_state="absent")["changed"] == 2
    assert set(node.files()) == {"etc/hpcai/node.json", *KEPT}
    # A boot and the unit that watches /etc/nccl.conf do not restore the files either.
    assert node.hpcnode("boot", "run", "nccl")[0] == 0
    assert {path for path in node.files() if not path.startswith("run/")} == {"etc/hpcai/node.json", *KEPT}
    assert node.play("main", nccl_state="absent")["changed"] == 0


@pytest.mark.daily(1)
@pytest.mark.parametrize(
    "variables",
    [
        {"azure_vm_size": "Standard_D4s_v5"},
        {"azure_vm_size": "Standard_Mine", "hpcai_vm_sizes": {"mine": {"vcpus": 2, "memory_mib": 1024}}},
        {"nccl_has_gpus": "false"},
    ],
)
def test_without_gpus_both_tasks_are_skipped(node: PlayedNode, variables: dict[str, object]) -> None:
    counts = node.play("main", **variables)
    assert (counts["ok"], counts["skipped"], counts["changed"]) == (1, 2, 0)
    assert node.files() == {}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "variables",
    [
        {"azure_vm_size": SIZE, "azure_sku": {"gpu_count": 8}},
        {"azure_vm_size": "Standard_Mine", "hpcai_vm_sizes": {"MINE": {"vcpus": 2, "gpu_count": 1}}},
    ],
)
def test_with_gpus_no_task_is_skipped(node: PlayedNode, variables: dict[str, object]) -> None:
    node.write("/etc/hpcai/node.json", NODE)
    assert node.play("main", "--check", **variables)["skipped"] == 0


@pytest.mark.thorough
def test_the_block_is_restored_after_the_images_service_rewrote_the_file(node: PlayedNode) -> None:
    node.write("/etc/hpcai/node.json", NODE)
    assert node.hpcnode("boot", "run", "nccl")[0] == 0
    ours = node.text("/etc/nccl.conf") or ""
    for by_boot in (True, False):
        node.run("sh", "-c", REWRITE)
        if by_boot:
            assert node.hpcnode("boot", "run", "nccl")[0] == 0
        else:
            node.play("main")
        assert (node.text("/etc/nccl.conf") or "") == f"{ours}NCCL_TOPO_FILE=/opt/microsoft/ndv4/topo.xml\n"


@pytest.mark.thorough
def test_a_login_shell_gets_defaults_that_a_job_can_override(node: PlayedNode) -> None:
    node.write("/etc/hpcai/node.json", NODE)
    node.write("/usr/local/nccl-rdma-sharp-plugins/lib/libnccl-net.so", "elf")
    assert node.hpcnode("boot", "run", "nccl")[0] == 0
    show = 'echo "$OMPI_MCA_coll_hcoll_enable $UCX_IB_PCI_RELAXED_ORDERING $LD_LIBRARY_PATH"'
    for shell in ("dash", "bash"):
        output = node.run("env", "-i", "PATH=/usr/bin:/bin", shell, "-l", "-c", show).stdout
        assert output.split() == ["0", "on", "/usr/local/nccl-rdma-sharp-plugins/lib"], shell
        mine = ("OMPI_MCA_coll_hcoll_enable=1", "LD_LIBRARY_PATH=/mine")
        output = node.run("env", "-i", "PATH=/usr/bin:/bin", *mine, shell, "-l", "-c", show).stdout
        assert output.split() == ["1", "on", "/mine:/usr/local/nccl-rdma-sharp-plugins/lib"], shell


def test_a_wrong_topology_is_not_written(node: PlayedNode) -> None:
    node.write("/etc/hpcai/node.json", NODE)
    node.run("sh", "-c", REWRITE)
    node.tree.on_numa_node("0001:00:00.0", 0)
    status, output = node.hpcnode("boot", "run", "nccl")
    assert (status, "expected NUMA node 1, found NUMA node 0" in json.dumps(output)) == (0, True)
    assert node.play("main")["changed"] == 2
    assert (node.text("/etc/nccl.conf") or "").count("NCCL_TOPO_FILE=\n") == 1
    assert node.text("/var/lib/hpcai/nccl-topo.xml") is None
