# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lower bound: the SDK's list calls and nothing else.

It reads the same lists as the inventory to their end, and does nothing with them: one after the other, or each list in
its own thread (the pages of one list can only be read one after the other).

Usage: floor.py ENDPOINT [concurrent]; prints the number of instances.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from simulator import clients

AT_ONCE = 8


def count(listing: Callable[[], Iterable[Any]]) -> int:
    """Read a list to its end."""
    return sum(1 for _item in listing())


def main(endpoint: str, concurrent: bool) -> int:
    """Read all lists; return the number of instances."""
    compute, network = clients.compute(endpoint), clients.network(endpoint)
    instances: list[Callable[[], Iterable[Any]]] = []
    others: list[Callable[[], Iterable[Any]]] = [network.virtual_networks.list_all, network.network_interfaces.list_all]
    for scale_set in compute.virtual_machine_scale_sets.list_all():
        identifier = str(scale_set.id)
        place = identifier.split("/")[4], str(scale_set.name)
        if scale_set.orchestration_mode == "Flexible":
            wanted = f"'virtualMachineScaleSet/id' eq '{identifier}'"
            instances.append(partial(compute.virtual_machines.list, place[0], filter=wanted, expand="instanceView"))
        else:
            instances.append(partial(compute.virtual_machine_scale_set_vms.list, *place, expand="instanceView"))
            of_set = network.network_interfaces.list_virtual_machine_scale_set_network_interfaces
            others.append(partial(of_set, *place))
    everything = [*instances, *others]
    if concurrent:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            counts = list(pool.map(count, everything))
    else:
        counts = [count(listing) for listing in everything]
    return sum(counts[: len(instances)])


if __name__ == "__main__":
    print(main(sys.argv[1], "concurrent" in sys.argv[2:]))
