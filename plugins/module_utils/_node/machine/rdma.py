# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""RDMA devices and their ports, from sysfs, without a tool."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from .pci import canonical_busid
from .root import Root

_DEVICES = "/sys/class/infiniband"
INFINIBAND, ACTIVE, _LINK_UP = "InfiniBand", "ACTIVE", "LinkUp"
_NUMBERED = re.compile(r"\d+:\s*(.*)")
_RATE = re.compile(r"([0-9.]+)\s*Gb/sec")


@dataclass(frozen=True)
class Port:
    """A port of an RDMA device.

    :ivar device: the device's name, e.g. ``mlx5_ib0``.
    :ivar number: the port's number, from 1.
    :ivar link_layer: ``InfiniBand``, or ``Ethernet`` as with accelerated networking's ``mlx5_an0``.
    :ivar state: ``DOWN``, ``INIT``, ``ARMED`` or ``ACTIVE``: only the last carries data. Empty if it cannot be read.
    :ivar physical: physical state of the link, e.g. ``LinkUp``, ``Polling``.
    :ivar rate_gbps: current rate of the link in Gb/s; None if it cannot be read.
    :ivar busid: PCI address of the device; None if it has none.
    """

    device: str
    number: int
    link_layer: str
    state: str
    physical: str
    rate_gbps: float | None
    busid: str | None

    @property
    def works(self) -> bool:
        """Whether it is an InfiniBand port that carries data."""
        return self.link_layer == INFINIBAND and self.state == ACTIVE and self.physical in (_LINK_UP, "")

    @property
    def condition(self) -> str:
        """Its logical and physical state, for messages."""
        return (self.state or "unknown state") + (f" ({self.physical})" if self.physical else "")

    @property
    def label(self) -> str:
        """Its name in messages, without the number for the first port: nearly all devices have one port."""
        return self.device if self.number == 1 else f"{self.device} port {self.number}"


def read_ports(root: Root) -> tuple[Port, ...]:
    """Return the ports of all RDMA devices, sorted by the numbers in their names; none if no driver is loaded."""
    found = [
        _port(root, device, number, path)
        for device in root.entries(_DEVICES)
        for number, path in root.numbered(f"{_DEVICES}/{device}/ports", "")
    ]
    return tuple(sorted(found, key=lambda port: (_natural(port.device), port.number)))


def _port(root: Root, device: str, number: int, path: str) -> Port:
    rate = _RATE.match(root.text(f"{path}/rate") or "")
    return Port(
        device=device,
        number=number,
        link_layer=root.text(f"{path}/link_layer") or "",
        state=_word(root.text(f"{path}/state")),
        physical=_word(root.text(f"{path}/phys_state")),
        rate_gbps=float(rate[1]) if rate else None,
        busid=_busid(root, device),
    )


def _word(text: str | None) -> str:
    """Return the word of ``4: ACTIVE``."""
    match = _NUMBERED.fullmatch(text or "")
    return match[1] if match else ""


def _busid(root: Root, device: str) -> str | None:
    # The last part of the target of the link "device"; software devices have no such link.
    name = root.link_name(f"{_DEVICES}/{device}/device")
    return canonical_busid(os.path.basename(name)) if name else None


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts mlx5_ib10 after mlx5_ib9."""
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in re.split(r"(\d+)", name)]
