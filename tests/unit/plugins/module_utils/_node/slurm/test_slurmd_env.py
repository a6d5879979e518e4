# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node's name in Slurm, and the file with slurmd's options."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.slurmd_env import (
    ENV_FILE,
    SlurmdEnv,
    is_ours,
    own_node_name,
    read,
    slurmd_env,
)
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.cluster import node_name

GROUP = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute"


def uniform(scale_set: str, instance_id: str, computer_name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """An instance of a Uniform scale set, as the metadata service and the inventory describe it."""
    compute = {
        "name": f"{scale_set}_{instance_id}",
        "vmScaleSetName": scale_set,
        "resourceId": f"{GROUP}/virtualMachineScaleSets/{scale_set}/virtualMachines/{instance_id}",
        "osProfile": {"computerName": computer_name},
    }
    return compute, {
        "azure_vmss": scale_set,
        "azure_instance_id": instance_id,
        "azure_computer_name": computer_name,
        "inventory_hostname": computer_name,
    }


def machine(name: str, scale_set: str, computer_name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A machine in a Flexible scale set, or in none."""
    compute = {
        "name": name,
        "vmScaleSetName": scale_set,
        "resourceId": f"{GROUP}/virtualMachines/{name}",
        "osProfile": {"computerName": computer_name},
    }
    return compute, {
        "azure_vmss": scale_set or None,
        "azure_instance_id": None,
        "azure_computer_name": computer_name or None,
        "inventory_hostname": name,
    }


@pytest.mark.parametrize(
    ("described", "name"),
    [
        (uniform("compute", "17", "compute00000H"), "compute-17"),
        (uniform("compute", "0", "compute000000"), "compute-0"),
        (uniform("my_gpu_set", "4", "mygpuset000004"), "my_gpu_set-4"),
        (uniform("GPU-Set", "12", "gpu-set00000C"), "GPU-Set-12"),
        (uniform("set_3", "3", "set000003"), "set_3-3"),
        (machine("flex_a1b2c3d4", "flex", "flexa1b2c3d4"), "flexa1b2c3d4"),
        # All its hexadecimal digits happen to be decimal ones.
        (machine("flex_12345678", "flex", "flexQ7"), "flexQ7"),
        (machine("login", "", "login-host"), "login-host"),
        (machine("ctl_1", "", "ctl"), "ctl"),
        (machine("vm", "", ""), "vm"),
    ],
)
def test_the_inventory_and_the_node_derive_the_same_name(
    described: tuple[dict[str, Any], dict[str, Any]], name: str
) -> None:
    compute, hostvars = described
    assert own_node_name(compute) == name
    assert node_name(hostvars) == name


def test_without_a_resource_id_the_machines_name_gives_the_node_name() -> None:
    compute, _hostvars = uniform("compute", "17", "compute00000H")
    del compute["resourceId"]
    assert own_node_name(compute) == "compute-17"


@pytest.mark.parametrize("name", ["other_17", "compute_", "compute", "compute_x", "compute_-1", "compute_\u0663"])
def test_for_other_machine_names_the_computer_name_is_used(name: str) -> None:
    compute = {"name": name, "vmScaleSetName": "compute", "osProfile": {"computerName": "host"}}
    assert own_node_name(compute) == "host"


@pytest.mark.parametrize("compute", [{}, {"name": "", "osProfile": None}, {"name": None, "osProfile": {}}])
def test_a_machine_without_a_name_has_no_node_name(compute: dict[str, Any]) -> None:
    assert own_node_name(compute) is None


OPTIONS = 'SLURMD_OPTIONS="-N a-1 --conf-server ctl"'


def node_with(folder: pathlib.Path, text: str) -> Root:
    """A node with this file."""
    file = folder / ENV_FILE.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return Root(str(folder))


def test_slurmd_gets_its_name_and_all_controllers() -> None:
    lines = slurmd_env("compute-17", ("10.0.0.4", "ctl2")).splitlines()
    assert lines[0].startswith("# Written by hpcnode")
    assert lines[-1] == 'SLURMD_OPTIONS="-N compute-17 --conf-server 10.0.0.4,ctl2"'


def test_our_own_file_is_distinguished_from_the_sites(tmp_path: pathlib.Path) -> None:
    ours = slurmd_env("a-1", ["ctl"])
    assert not is_ours(Root(str(tmp_path)))
    assert is_ours(node_with(tmp_path, ours))
    assert not is_ours(node_with(tmp_path, f"# Ansible managed\n{OPTIONS}\n"))
    assert not is_ours(node_with(tmp_path, f"{OPTIONS}\n"))
    assert not is_ours(node_with(tmp_path, ""))
    # As the role slurm changes it if the site wants another name.
    assert not is_ours(node_with(tmp_path, ours.replace('"-N a-1', '"-N other')))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (slurmd_env("a-1", ["10.0.0.4", "ctl2:7000"]), SlurmdEnv("a-1", ("10.0.0.4", "ctl2:7000"))),
        (f"#\n# Ansible managed\n#\n{OPTIONS}\n", SlurmdEnv("a-1", ("ctl",))),
        ('SLURMD_OPTIONS="-M -N a-1 -v --conf-server ctl -b"\n', SlurmdEnv("a-1", ("ctl",))),
    ],
)
def test_name_and_controllers_are_read(tmp_path: pathlib.Path, text: str, expected: SlurmdEnv) -> None:
    assert read(node_with(tmp_path, text)) == expected


def test_a_missing_file_is_none(tmp_path: pathlib.Path) -> None:
    assert read(Root(str(tmp_path))) is None


@pytest.mark.parametrize("text", ["", "SLURMD_OPTIONS=\n", 'SLURMD_OPTIONS="-N a-1"\n', 'X="-N a --conf-server c"\n'])
def test_an_incomplete_file_is_an_error(tmp_path: pathlib.Path, text: str) -> None:
    with pytest.raises(ConfigError, match="Run site"):
        read(node_with(tmp_path, text))
