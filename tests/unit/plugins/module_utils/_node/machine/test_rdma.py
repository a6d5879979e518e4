# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ports of RDMA devices, read from sysfs."""

from __future__ import annotations

from pathlib import Path

from stand_ins.infiniband import put_port, put_ports_of

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.rdma import Port, read_ports
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root


def test_ports_are_read_with_their_state_rate_and_address(tmp_path: Path) -> None:
    put_port(tmp_path, "mlx5_ib3", "0104:00:00.0", state="INIT", physical="4: PortConfigurationTraining", gbps=400)
    assert read_ports(Root(str(tmp_path))) == (
        Port("mlx5_ib3", 1, "InfiniBand", "INIT", "PortConfigurationTraining", 400, "0104:00:00.0"),
    )


def test_only_an_active_port_of_infiniband_works(tmp_path: Path) -> None:
    put_ports_of(tmp_path, "nd96asr_v4")
    for number, state in enumerate(("DOWN", "INIT", "ARMED")):
        put_port(tmp_path, f"mlx5_ib{number}", state=state)
    put_port(tmp_path, "mlx5_ib3", physical="2: Polling")
    put_port(tmp_path, "mlx5_ib4", physical="")
    ports = read_ports(Root(str(tmp_path)))
    assert [port.device for port in ports if port.works] == [f"mlx5_ib{number}" for number in range(4, 8)]
    assert [port.device for port in ports if port.link_layer == "Ethernet"] == ["mlx5_an0"]


def test_the_tenth_device_comes_after_the_ninth(tmp_path: Path) -> None:
    for number in (10, 9, 0):
        put_port(tmp_path, f"mlx5_ib{number}")
    put_port(tmp_path, "mlx5_ib9", number=2)
    assert [port.label for port in read_ports(Root(str(tmp_path)))] == [
        "mlx5_ib0",
        "mlx5_ib9",
        "mlx5_ib9 port 2",
        "mlx5_ib10",
    ]


def test_a_port_that_cannot_be_read_has_an_unknown_state(tmp_path: Path) -> None:
    (tmp_path / "sys/class/infiniband/rxe0/ports/1").mkdir(parents=True)
    (port,) = read_ports(Root(str(tmp_path)))
    assert port == Port("rxe0", 1, "", "", "", None, None)
    assert port.condition == "unknown state"


def test_the_condition_contains_the_physical_state(tmp_path: Path) -> None:
    put_port(tmp_path, "mlx5_ib0", state="DOWN", physical="2: Polling")
    put_port(tmp_path, "mlx5_ib1", state="DOWN", physical="")
    assert [port.condition for port in read_ports(Root(str(tmp_path)))] == ["DOWN (Polling)", "DOWN"]


def test_without_a_driver_there_are_no_ports(tmp_path: Path) -> None:
    assert read_ports(Root(str(tmp_path))) == ()
