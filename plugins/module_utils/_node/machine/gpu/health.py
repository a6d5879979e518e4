# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What is known of a GPU's health: numbers as the driver has them, judged elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# Bits of the reasons why clocks are not higher, as nvml.h numbers them.
IDLE, CLOCKS_SET, POWER_CAP, HARDWARE, SYNC_BOOST, THERMAL, HARDWARE_THERMAL, POWER_BRAKE, DISPLAY = (
    1 << bit for bit in range(9)
)

# States of the fabric, as nvml.h numbers them.
FABRIC_STATES = ("not supported", "not started", "in progress", "completed")


@dataclass(frozen=True)
class Ecc:
    """Memory errors. Volatile: since the driver was loaded; aggregate: in the GPU's life. None: it does not say.

    :ivar enabled: whether errors are looked for at all.
    :ivar sram_threshold: whether the GPU itself says that the errors in its SRAM are too many.
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
    """Rows of memory that spare ones stand for, by the kind of errors they had (A100 and later).

    :ivar pending: rows wait for a reset of the GPU to be remapped.
    :ivar failure: a row could not be remapped: there is no spare one left for it.
    """

    corrected: int
    uncorrected: int
    pending: bool
    failure: bool


@dataclass(frozen=True)
class Pages:
    """Pages of memory that are not used any more, by the kind of errors they had (V100 and earlier).

    :ivar pending: pages wait for a reset of the GPU to be retired.
    """

    single: int
    double: int
    pending: bool


@dataclass(frozen=True)
class Pcie:
    """The GPU's link: lanes and generation. A link without traffic goes down to a lower generation.

    :ivar highest_generation: the highest of this GPU together with where it sits.
    :ivar own_generation: the highest that the GPU itself is capable of.
    """

    width: int | None = None
    generation: int | None = None
    highest_width: int | None = None
    highest_generation: int | None = None
    own_generation: int | None = None


@dataclass(frozen=True)
class Fabric:
    """How the GPU stands with the NVSwitches (H100 and later; earlier ones do not tell).

    :ivar state: one of ``FABRIC_STATES``.
    :ivar status: NVML's code of an error; 0 for none. It counts when the state is ``completed``.
    :ivar degraded: whether the bandwidth is less than it should be; None where that is not told.
    :ivar unhealthy: whether a route to another GPU is not healthy; None where that is not told.
    """

    state: str
    status: int = 0
    degraded: bool | None = None
    unhealthy: bool | None = None


@dataclass(frozen=True)
class GpuHealth:
    """A GPU at this moment. None: the driver or the GPU does not say.

    :ivar index: the driver's number of it.
    :ivar busid: PCI address in Linux's spelling.
    :ivar vbios: version of its firmware.
    :ivar persistence: whether persistence mode is on.
    :ivar mig: whether it is cut into instances.
    :ivar reasons: bits of the reasons why its clocks are not higher.
    :ivar temperature: of the chip, in degrees Celsius.
    :ivar slowdown_at: the temperature from which the hardware slows it down.
    :ivar most: the highest temperature that it is to be used at.
    :ivar power: what it draws, in watts.
    :ivar power_limit: what it may draw.
    :ivar power_default: what it may draw unless somebody sets another limit.
    :ivar memory_used: memory in use, in MiB, without what the driver keeps for itself.
    :ivar processes: of each process that computes on it, process id.
    :ivar errors: what the driver said of a part that it could not tell, by the name of the field.
    :ivar problem: why nothing could be read; then only ``index`` and perhaps ``busid`` are known.
    :ivar problem_kind: the same as the kind of a ``GpuError``.
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
        """How people are told of it: ``GPU 3 (0004:00:00.0)``."""
        return f"GPU {self.index} ({self.busid})" if self.busid else f"GPU {self.index}"

    @property
    def device(self) -> str:
        """What readings and findings are of."""
        return self.busid or f"GPU {self.index}"

    @property
    def idle(self) -> bool:
        """Whether nothing runs on it, as far as the reasons for its clocks tell."""
        return bool((self.reasons or 0) & IDLE)


@dataclass(frozen=True)
class NvLinks:
    """A GPU's NVLinks.

    :ivar index: the driver's number of the GPU.
    :ivar active: of each link that the GPU has, whether it is up; empty where the GPU has none.
    :ivar errors: sums over all links since the driver was loaded, by kind: ``crc_flit``, ``crc_data``, ``replay``,
        ``recovery``; without those that the GPU does not count.
    :ivar problem: why they could not be read.
    """

    index: int
    active: tuple[bool, ...] = ()
    errors: Mapping[str, int] = field(default_factory=dict)
    problem: str | None = None


def health_of(read: Mapping[str, Any]) -> GpuHealth:
    """Return the health out of what a reader put together: the fields, those of a part in a mapping of their own."""

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
    """Return the links out of what a reader put together."""
    return NvLinks(index, tuple(bool(state) for state in read["active"]), dict(read["errors"]))
