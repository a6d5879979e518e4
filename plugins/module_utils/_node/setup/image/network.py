# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Network: no names of the cards of another machine, and whether this one's card is accelerated."""

from __future__ import annotations

from ...machine.root import Root
from .base import is_running
from .part import Part, present

_RULES = (
    "/etc/udev/rules.d/70-persistent-net.rules",
    "/etc/udev/rules.d/75-persistent-net-generator.rules",
    "/etc/udev/rules.d/z25_persistent-net.rules",
)
_SYNTHETIC = "hv_netvsc"
_FAST = ("mlx4_core", "mlx5_core", "mana")
"""Drivers of the functions that Azure gives an accelerated machine; the synthetic card is their master."""


def plan(root: Root) -> Part:
    """Return which old rules go, and what was found of accelerated networking."""
    return Part(unlink=present(root, _RULES), remarks=_accelerated(root))


def _accelerated(root: Root) -> tuple[str, ...]:
    if not is_running(root):
        return ()
    folder = "/sys/class/net"
    drivers = {name: root.link_name(f"{folder}/{name}/device/driver") for name in root.entries(folder)}
    masters = {name: root.link_name(f"{folder}/{name}/master") for name in drivers}
    remarks = []
    for card in sorted(name for name, driver in drivers.items() if driver == _SYNTHETIC):
        below = [name for name, master in masters.items() if master == card and drivers[name] in _FAST]
        if below:
            functions = ", ".join(f"{name} ({drivers[name]})" for name in sorted(below))
            remarks.append(f"accelerated networking: {card} runs over {functions}")
        else:
            remarks.append(
                f"no accelerated networking: {card} has no mlx5 or MANA function below it; enable it on the network "
                "interface in Azure, if the size has it"
            )
    return tuple(remarks)
