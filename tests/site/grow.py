#!/usr/bin/env python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Raise the capacity of the simulated scale set, as ``az vmss scale`` does in Azure:  grow.py ENDPOINT CAPACITY."""

from __future__ import annotations

import sys
from pathlib import Path

from simulated.cluster import RESOURCE_GROUP, SCALE_SET, Cluster


def main() -> None:
    """Raise the capacity, and wait until the instances run. A larger capacity stays."""
    endpoint, wanted = sys.argv[1], int(sys.argv[2])
    cluster = Cluster(endpoint, Path())
    scale_set = cluster.sdk().virtual_machine_scale_sets.get(RESOURCE_GROUP, SCALE_SET)
    capacity = int(scale_set.sku.capacity) if scale_set.sku and scale_set.sku.capacity else 0
    if capacity >= wanted:
        print(f"{SCALE_SET} has {capacity} instances already")
        return
    cluster.set_capacity(wanted)
    print(f"{SCALE_SET} has {wanted} instances now, {capacity} before")


if __name__ == "__main__":
    main()
