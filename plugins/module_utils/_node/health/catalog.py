# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The health checks, by name, in the order in which they are run and shown.

To add a check: write a ``Check`` in the file of its subject in checks/, in a constant with the check's name in
capitals. Add it to ``CATALOGUE``, and to ``PROLOG_NAMES`` if it has the tier prolog, import its file below, and add the
three tests that tests/unit/.../health/test_catalog.py requires: it fails, it passes, it cannot measure.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .check import PROLOG

if TYPE_CHECKING:
    # For AnsiballZ only, which packs every file that is imported somewhere.
    from .check import Check
    from .checks import (  # noqa: F401
        cpu_and_memory,
        cpu_stream,
        dcgm,
        file_systems,
        gemm,
        gpu_bandwidth,
        gpu_count,
        gpu_fabric,
        gpu_identity,
        gpu_links,
        gpu_log,
        gpu_memory,
        gpu_processes,
        gpu_state,
        hardware_errors,
        ib_errors,
        ib_perftest,
        ib_ports,
        kernel_log,
        leftovers,
        metadata_service,
        nccl,
        network,
        nvme,
        scratch,
        services,
        time_sync,
        topology,
        vm_size,
    )

CATALOGUE = (
    ("vm_size", "vm_size"),
    # GPUs
    ("gpu_count", "gpu_count"),
    ("gpu_identity", "gpu_identity"),
    ("gpu_fabric", "gpu_fabric"),
    ("gpu_nvlink", "gpu_links"),
    ("gpu_ecc", "gpu_memory"),
    ("gpu_row_remap", "gpu_memory"),
    ("gpu_retired_pages", "gpu_memory"),
    ("gpu_pcie", "gpu_links"),
    ("gpu_throttle", "gpu_state"),
    ("gpu_temperature", "gpu_state"),
    ("gpu_power", "gpu_state"),
    ("gpu_clocks", "gpu_state"),
    ("gpu_persistence", "gpu_state"),
    ("gpu_mig", "gpu_state"),
    ("gpu_processes", "gpu_processes"),
    # The kernel's log
    ("gpu_xid", "gpu_log"),
    ("gpu_sxid", "gpu_log"),
    ("gpu_driver_log", "gpu_log"),
    ("machine_check", "hardware_errors"),
    ("kernel_trouble", "kernel_log"),
    ("disk_errors", "kernel_log"),
    ("pcie_errors", "hardware_errors"),
    ("ib_driver_log", "ib_errors"),
    # InfiniBand
    ("ib_ports", "ib_ports"),
    ("ib_rate", "ib_ports"),
    ("ib_addresses", "ib_ports"),
    ("ib_pkeys", "ib_ports"),
    ("ib_errors", "ib_errors"),
    ("ib_flaps", "ib_errors"),
    ("accelerated_nic", "network"),
    ("peer_memory", "ib_ports"),
    # Disks and file systems
    ("scratch", "scratch"),
    ("nvme_count", "nvme"),
    ("nvme_smart", "nvme"),
    ("mounts", "file_systems"),
    ("free_space", "file_systems"),
    # CPUs, memory, PCI
    ("cpu", "cpu_and_memory"),
    ("memory", "cpu_and_memory"),
    ("swap", "cpu_and_memory"),
    ("numa", "topology"),
    ("pci_topology", "topology"),
    # Services, time, leftovers
    ("services", "services"),
    ("network", "network"),
    ("time_sync", "time_sync"),
    ("metadata_service", "metadata_service"),
    ("leftovers", "leftovers"),
    ("load", "cpu_and_memory"),
    # Deep ones
    ("gpu_host_bandwidth", "gpu_bandwidth"),
    ("gpu_peer_bandwidth", "gpu_bandwidth"),
    ("nccl_allreduce", "nccl"),
    ("nccl_alltoall", "nccl"),
    ("nccl_ib_loopback", "nccl"),
    ("ib_write_bandwidth", "ib_perftest"),
    ("ib_latency", "ib_perftest"),
    ("gemm", "gemm"),
    ("cpu_stream", "cpu_stream"),
    ("dcgm", "dcgm"),
)
"""Each check with its file in checks/."""

NAMES = tuple(name for name, _file in CATALOGUE)

PROLOG_NAMES = frozenset(
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
"""The checks of the tier prolog. Only their files are loaded for a prolog: loading all took a quarter of its time."""


class NoSuchCheck(ValueError):
    """There is no check of this name, or no check at all; the message lists the checks."""


def load(name: str) -> Check:
    """Return the check of this name."""
    file = dict(CATALOGUE)[name]
    check: Check = getattr(importlib.import_module(f".checks.{file}", __package__), name.upper())
    return check


def all_checks() -> tuple[Check, ...]:
    """Return all checks in their order."""
    return tuple(load(name) for name in NAMES)


def select_checks(tier: str, only: Sequence[str] = ()) -> tuple[Check, ...]:
    """Return the checks of a tier in their order; if names are given, only these.

    :raises NoSuchCheck: there is no check of a name, or it is not in the tier, or the tier has no checks.
    """
    for name in only:
        if name not in NAMES:
            raise NoSuchCheck(f"there is no check {name}: the checks are {', '.join(NAMES)}")
    names = [name for name in NAMES if (not only or name in only) and (tier != PROLOG or name in PROLOG_NAMES)]
    checks = tuple(check for check in map(load, names) if tier in check.tiers)
    missing = [name for name in only if name not in [check.name for check in checks]]
    if missing:
        others = ", ".join(missing)
        raise NoSuchCheck(f"{others} is not in tier {tier}: 'hpcnode health --list' shows the tiers of each check")
    if not checks:
        raise NoSuchCheck(f"tier {tier} has no checks: this hpcnode is incomplete, install it again")
    return checks
