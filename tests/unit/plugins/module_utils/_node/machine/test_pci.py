# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPUs and adapters on the PCI bus."""

from __future__ import annotations

import pathlib

import pytest
from stand_ins.sized_machine import (
    DISPLAY_CLASS,
    GPU_CLASS,
    INFINIBAND_CLASS,
    MELLANOX,
    MICROSOFT,
    NVIDIA,
    SizedMachine,
)

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.pci import canonical_busid, read_pci
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root


@pytest.mark.parametrize(
    ("text", "busid"),
    [
        ("0001:00:00.0", "0001:00:00.0"),
        ("00000001:00:00.0", "0001:00:00.0"),
        ("000B:0A:1f.7", "000b:0a:1f.7"),
        ("3b:00.0", "0000:3b:00.0"),
        (" 0001:00:00.0\n", "0001:00:00.0"),
        ("00010000:e1:00.0", "10000:e1:00.0"),
        ("0001:00:00", None),
        ("0001:00:00.8", None),
        ("x001:00:00.0", None),
        ("", None),
    ],
)
def test_each_address_has_one_canonical_form(text: str, busid: str | None) -> None:
    assert canonical_busid(text) == busid


def test_gpus_and_adapters_are_distinguished_from_other_devices(tmp_path: pathlib.Path) -> None:
    tree = SizedMachine(tmp_path)
    tree.device("0002:00:00.0", GPU_CLASS, NVIDIA, 1)
    tree.device("0003:00:00.0", 0x120000, 0x1002, 0)
    tree.device("0004:00:00.0", 0x030000, NVIDIA, 0)
    tree.device("0000:00:08.0", DISPLAY_CLASS, MICROSOFT, 0)
    tree.device("0005:00:00.0", 0x040300, NVIDIA, 0)
    tree.device("0101:00:00.0", INFINIBAND_CLASS, MELLANOX, 0, "mlx5_ib0")
    tree.device("0abc:00:02.0", 0x020000, MELLANOX, 0, "mlx5_an0")
    devices = {device.busid: device for device in read_pci(Root(str(tmp_path)))}
    assert [busid for busid, device in devices.items() if device.is_gpu] == [
        "0002:00:00.0",
        "0003:00:00.0",
        "0004:00:00.0",
    ]
    assert [busid for busid, device in devices.items() if device.is_hca] == ["0101:00:00.0"]
    assert devices["0101:00:00.0"].rdma == ("mlx5_ib0",)
    assert devices["0002:00:00.0"].numa_node == 1


def test_a_missing_numa_node_is_none_and_not_a_number(tmp_path: pathlib.Path) -> None:
    tree = SizedMachine(tmp_path)
    tree.device("0001:00:00.0", GPU_CLASS, NVIDIA, -1)
    tree.device("0002:00:00.0", GPU_CLASS, NVIDIA, 0)
    (tmp_path / "sys/bus/pci/devices/0003:00:00.0").mkdir()
    assert [device.numa_node for device in read_pci(Root(str(tmp_path)))] == [None, 0, None]


def test_devices_are_sorted_by_their_addresses(tmp_path: pathlib.Path) -> None:
    tree = SizedMachine(tmp_path)
    for busid in ("10000:e1:00.0", "000b:00:00.0", "0002:00:00.0"):
        tree.device(busid, GPU_CLASS, NVIDIA, 0)
    found = [device.busid for device in read_pci(Root(str(tmp_path)))]
    assert found == ["0002:00:00.0", "000b:00:00.0", "10000:e1:00.0"]


def test_a_machine_without_pci_has_no_devices(tmp_path: pathlib.Path) -> None:
    assert read_pci(Root(str(tmp_path))) == ()
