# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The health checks, by name, in the order in which they are run and shown.

To add one: write checks/NAME.py with a ``CHECK``, put its name in its place in ``NAMES``, and in ``BEFORE_A_JOB`` where
it has the tier prolog, import it below, and add the three tests that tests/unit/.../health/test_catalog.py asks for: it
fails, it passes, it cannot measure.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .check import PROLOG

if TYPE_CHECKING:
    # Read by AnsiballZ, which packs what it finds imported somewhere, and by nobody else.
    from .check import Check
    from .checks import (  # noqa: F401
        accelerated_nic,
        cpu,
        cpu_stream,
        dcgm,
        disk_errors,
        free_space,
        gemm,
        gpu_clocks,
        gpu_count,
        gpu_driver_log,
        gpu_ecc,
        gpu_fabric,
        gpu_host_bandwidth,
        gpu_identity,
        gpu_mig,
        gpu_nvlink,
        gpu_pcie,
        gpu_peer_bandwidth,
        gpu_persistence,
        gpu_power,
        gpu_processes,
        gpu_retired_pages,
        gpu_row_remap,
        gpu_sxid,
        gpu_temperature,
        gpu_throttle,
        gpu_xid,
        ib_addresses,
        ib_driver_log,
        ib_errors,
        ib_flaps,
        ib_latency,
        ib_pkeys,
        ib_ports,
        ib_rate,
        ib_write_bandwidth,
        kernel_trouble,
        leftovers,
        machine_check,
        memory,
        metadata_service,
        mounts,
        nccl_allreduce,
        nccl_alltoall,
        nccl_ib_loopback,
        network,
        numa,
        nvme_count,
        nvme_smart,
        pci_topology,
        pcie_errors,
        peer_memory,
        scratch,
        services,
        swap,
        time_sync,
        vm_size,
    )
    from .checks import load as _load  # noqa: F401

NAMES: tuple[str, ...] = (
    "vm_size",
    # GPUs
    "gpu_count",
    "gpu_identity",
    "gpu_fabric",
    "gpu_nvlink",
    "gpu_ecc",
    "gpu_row_remap",
    "gpu_retired_pages",
    "gpu_pcie",
    "gpu_throttle",
    "gpu_temperature",
    "gpu_power",
    "gpu_clocks",
    "gpu_persistence",
    "gpu_mig",
    "gpu_processes",
    # The kernel's log
    "gpu_xid",
    "gpu_sxid",
    "gpu_driver_log",
    "machine_check",
    "kernel_trouble",
    "disk_errors",
    "pcie_errors",
    "ib_driver_log",
    # InfiniBand
    "ib_ports",
    "ib_rate",
    "ib_addresses",
    "ib_pkeys",
    "ib_errors",
    "ib_flaps",
    "accelerated_nic",
    "peer_memory",
    # Disks and file systems
    "scratch",
    "nvme_count",
    "nvme_smart",
    "mounts",
    "free_space",
    # CPUs, memory, PCI
    "cpu",
    "memory",
    "swap",
    "numa",
    "pci_topology",
    # Services, time, leftovers
    "services",
    "network",
    "time_sync",
    "metadata_service",
    "leftovers",
    "load",
    # Deep ones
    "gpu_host_bandwidth",
    "gpu_peer_bandwidth",
    "nccl_allreduce",
    "nccl_alltoall",
    "nccl_ib_loopback",
    "ib_write_bandwidth",
    "ib_latency",
    "gemm",
    "cpu_stream",
    "dcgm",
)

BEFORE_A_JOB = frozenset(
    (
        "vm_size",
        "gpu_count",
        "gpu_fabric",
        "gpu_ecc",
        "gpu_row_remap",
        "gpu_retired_pages",
        "gpu_pcie",
        "gpu_throttle",
        "gpu_temperature",
        "gpu_persistence",
        "gpu_mig",
        "gpu_processes",
        "gpu_xid",
        "gpu_sxid",
        "gpu_driver_log",
        "ib_ports",
        "ib_rate",
        "scratch",
        "services",
    )
)
"""Those of the tier prolog. A job waits for them, and to load the others as well took a quarter of its time."""


class NoSuchCheck(ValueError):
    """A name that is no check's, or no check at all; the message says what there is."""


def load(name: str) -> Check:
    """Return the check of this name."""
    check: Check = importlib.import_module(f".checks.{name}", __package__).CHECK
    return check


def all_checks() -> tuple[Check, ...]:
    """Return all checks in their order."""
    return tuple(load(name) for name in NAMES)


def chosen(tier: str, only: Sequence[str] = ()) -> tuple[Check, ...]:
    """Return the checks of a tier in their order; of these names only, where there are any.

    :raises NoSuchCheck: a name is no check's, or the tier has none of them: a run without a check would find nothing.
    """
    for name in only:
        if name not in NAMES:
            raise NoSuchCheck(f"there is no check {name}: there are {', '.join(NAMES)}")
    names = [name for name in NAMES if (not only or name in only) and (tier != PROLOG or name in BEFORE_A_JOB)]
    found = tuple(check for check in map(load, names) if tier in check.tiers)
    left = [name for name in only if name not in [check.name for check in found]]
    if left:
        raise NoSuchCheck(f"{', '.join(left)} is not in tier {tier}: 'hpcnode health --list' tells the tiers of each")
    if not found:
        raise NoSuchCheck(f"tier {tier} has no checks: this hpcnode is not whole, install it anew")
    return found
