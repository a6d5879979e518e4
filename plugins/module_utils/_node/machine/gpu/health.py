# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Health data of a GPU as the driver reports it, without a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# Bits of the reasons for lower clocks, as numbered in nvml.h.
IDLE, CLOCKS_SET, POWER_CAP, HARDWARE, SYNC_BOOST, THERMAL, HARDWARE_THERMAL, POWER_BRAKE, DISPLAY = (
    1 << bit for bit in range(9)
)

# States of the fabric, as numbered in nvml.h.
FABRIC_STATES = ("not supported", "not started", "in progress", "completed")


@dataclass(frozen=True)
class Ecc:
    """Memory errors. Volatile: since the driver was loaded; aggregate: in the GPU's life. None: unknown.

    :ivar enabled: whether ECC is on.
    :ivar sram_threshold: whether the GPU itself reports too many errors in its SRAM.
    """

    enabled: bool | None = None
    sram_uncorrected_volatile: int | None = None
    sram_uncorrected_aggregate: int | None = None
    sram_corrected_volatile: int | None = None
    sram_corrected_aggregate: int | None = None
    dram_uncorrected_volatile: int | None = None
    dram_uncorrected_aggregate: int | None = None
    dram_corrected_volatile: int | None = None
    dram_corrected_aggregate: int | None = None
    sram_threshold: bool | None = None


@dataclass(frozen=True)
class Rows:
    """Memory rows that were remapped to spare rows, by the kind of their errors (A100 and later).

    :ivar pending: whether rows will be remapped at the next reset of the GPU.
    :ivar failure: whether a row could not be remapped, because no spare row was left.
    """

    corrected: int
    uncorrected: int
    pending: bool
    failure: bool


@dataclass(frozen=True)
class Pages:
    """Retired memory pages, by the kind of their errors (V100 and earlier).

    :ivar pending: whether pages will be retired at the next reset of the GPU.
    """

    single: int
    double: int
    pending: bool


@dataclass(frozen=True)
class Pcie:
    """The GPU's PCIe link: lanes and generation. A link without traffic switches to a lower generation.

    :ivar highest_generation: the highest of this GPU in its slot.
    :ivar own_generation: the highest that the GPU itself supports.
    """

    width: int | None = None
    generation: int | None = None
    highest_width: int | None = None
    highest_generation: int | None = None
    own_generation: int | None = None


@dataclass(frozen=True)
class Fabric:
    """The GPU's registration with the NVSwitches (H100 and later; earlier ones do not report it).

    :ivar state: one of ``FABRIC_STATES``.
    :ivar status: NVML's error code; 0 for none. It is valid when the state is ``completed``.
    :ivar degraded: whether the bandwidth is degraded; None if unknown.
    :ivar unhealthy: whether a route to another GPU is unhealthy; None if unknown.
    """

    state: str
    status: int = 0
    degraded: bool | None = None
    unhealthy: bool | None = None


@dataclass(frozen=True)
class GpuHealth:
    """The current state of a GPU. None: the driver or the GPU does not report it.

    :ivar index: the driver's index.
    :ivar busid: PCI address in Linux's format.
    :ivar vbios: version of its firmware.
    :ivar persistence: whether persistence mode is on.
    :ivar mig: whether MIG mode is on.
    :ivar reasons: bits of the reasons for lower clocks.
    :ivar temperature: of the chip, in degrees Celsius.
    :ivar slowdown_at: the temperature from which the hardware slows it down.
    :ivar most: the highest operating temperature.
    :ivar power: power draw in watts.
    :ivar power_limit: the current power limit in watts.
    :ivar power_default: the default power limit in watts.
    :ivar memory_used: memory in use, in MiB, without the driver's own.
    :ivar processes: ids of the compute processes on it.
    :ivar errors: the driver's errors for fields that it could not read, by the name of the field.
    :ivar problem: why nothing could be read; then only ``index`` and perhaps ``busid`` are known.
    :ivar problem_kind: the kind of the ``GpuError``.
    """

    index: int
    busid: str | None = None
    uuid: str | None = None
    name: str | None = None
    serial: str | None = None
    vbios: str | None = None
    persistence: bool | None = None
    mig: bool | None = None
    reasons: int | None = None
    temperature: int | None = None
    slowdown_at: int | None = None
    most: int | None = None
    power: float | None = None
    power_limit: float | None = None
    power_default: float | None = None
    graphics_mhz: int | None = None
    memory_mhz: int | None = None
    ecc: Ecc = field(default_factory=Ecc)
    rows: Rows | None = None
    pages: Pages | None = None
    pcie: Pcie = field(default_factory=Pcie)
    fabric: Fabric | None = None
    memory_used: float | None = None
    processes: tuple[int, ...] | None = None
    errors: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None
    problem_kind: str | None = None

    @property
    def label(self) -> str:
        """Its name in messages: ``GPU 3 (0004:00:00.0)``."""
        return f"GPU {self.index} ({self.busid})" if self.busid else f"GPU {self.index}"

    @property
    def device(self) -> str:
        """The name of the device in readings and findings."""
        return self.busid or f"GPU {self.index}"

    @property
    def idle(self) -> bool:
        """Whether the reasons for its clocks include that it is idle."""
        return bool((self.reasons or 0) & IDLE)


@dataclass(frozen=True)
class NvLinks:
    """A GPU's NVLinks.

    :ivar index: the driver's index of the GPU.
    :ivar active: for each link of the GPU, whether it is up; empty if the GPU has none.
    :ivar errors: sums over all links since the driver was loaded, by kind: ``crc_flit``, ``crc_data``, ``replay``,
        ``recovery``; without those that the GPU does not count.
    :ivar problem: why they cannot be read.
    """

    index: int
    active: tuple[bool, ...] = ()
    errors: Mapping[str, int] = field(default_factory=dict)
    problem: str | None = None


def health_of(read: Mapping[str, Any]) -> GpuHealth:
    """Build the health from a reader's mapping of the fields, with a nested mapping for each part."""

    def build(kind: Any, name: str) -> Any:
        return kind(**read[name]) if read.get(name) is not None else None

    processes = read.get("processes")
    built = {
        "ecc": build(Ecc, "ecc") or Ecc(),
        "rows": build(Rows, "rows"),
        "pages": build(Pages, "pages"),
        "pcie": build(Pcie, "pcie") or Pcie(),
        "fabric": build(Fabric, "fabric"),
        "processes": None if processes is None else tuple(processes),
    }
    return GpuHealth(**{**read, **built})


def links_of(index: int, read: Mapping[str, Any]) -> NvLinks:
    """Build the links from a reader's mapping."""
    return NvLinks(index, tuple(bool(state) for state in read["active"]), dict(read["errors"]))
