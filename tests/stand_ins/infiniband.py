# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""RDMA devices below a machine's /sys, as mlx5 shows them; the texts are from the kernel's documentation."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size

RATES = {100: "100 Gb/sec (4X EDR)", 200: "200 Gb/sec (4X HDR)", 400: "400 Gb/sec (4X NDR)", 800: "800 Gb/sec (4X XDR)"}
STATES = {"DOWN": "1: DOWN", "INIT": "2: INIT", "ARMED": "3: ARMED", "ACTIVE": "4: ACTIVE"}


def put_port(
    root: Path,
    device: str,
    busid: str | None = None,
    state: str = "ACTIVE",
    physical: str = "5: LinkUp",
    gbps: int = 200,
    link_layer: str = "InfiniBand",
    number: int = 1,
) -> None:
    """Add an RDMA device with a port, or change the port."""
    folder = root / f"sys/class/infiniband/{device}"
    port = folder / f"ports/{number}"
    port.mkdir(parents=True, exist_ok=True)
    texts = {"state": STATES[state], "phys_state": physical, "rate": RATES[gbps], "link_layer": link_layer}
    for name, text in texts.items():
        (port / name).write_text(f"{text}\n", encoding="ascii")
    link = folder / "device"
    if busid and not link.is_symlink():
        link.symlink_to(f"../../../{busid}")


def put_ports_of(root: Path, size: str) -> None:
    """Add all adapters of a VM size with active ports, and the Ethernet device of accelerated networking."""
    found = find_size(size)
    for number, hca in enumerate(found.hcas or ()):
        put_port(root, f"mlx5_ib{number}", hca.busid, gbps=found.ib_rate_gbps or 0)
    put_port(root, "mlx5_an0", "f0f0:00:02.0", gbps=100, link_layer="Ethernet")
