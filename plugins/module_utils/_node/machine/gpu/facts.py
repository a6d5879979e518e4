# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Facts of a GPU and its clocks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..kernel import read_boot_id
from ..root import Root


@dataclass(frozen=True)
class Clocks:
    """A pair of clocks in MHz; None if unknown."""

    memory: int | None
    graphics: int | None

    def __str__(self) -> str:
        return f"memory {self.memory or '?'} MHz, graphics {self.graphics or '?'} MHz"


@dataclass(frozen=True)
class GpuFacts:
    """A GPU as the driver reports it.

    :ivar index: the driver's index.
    :ivar uuid: e.g. ``GPU-5c1d...``; None if it cannot be read.
    :ivar busid: PCI address in Linux's format; None if it cannot be read.
    :ivar name: the model's name.
    :ivar mig: whether MIG mode is on; None if the GPU has no MIG.
    :ivar mig_instances: UUIDs of its MIG instances.
    :ivar persistence: whether persistence mode is on; None if it cannot be read.
    :ivar supported: for each memory clock in MHz, its supported graphics clocks, in descending order.
    :ivar highest: the highest clocks.
    :ivar application: the current application clocks; None if the driver does not support them.
    :ivar application_reason: the driver's error if it does not support them.
    :ivar default: the default application clocks.
    :ivar current: the current clocks.
    :ivar slowed: whether the driver reports a reason for lower clocks (power, heat, hardware); None if unknown.
    :ivar problem: why the GPU cannot be read; then only ``index`` and perhaps ``busid`` are known.
    :ivar problem_kind: the kind of the ``GpuError``.
    """

    index: int
    uuid: str | None = None
    busid: str | None = None
    name: str | None = None
    mig: bool | None = None
    mig_instances: tuple[str, ...] = ()
    persistence: bool | None = None
    supported: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    highest: Clocks = Clocks(None, None)
    application: Clocks | None = None
    application_reason: str | None = None
    default: Clocks | None = None
    current: Clocks = Clocks(None, None)
    slowed: bool | None = None
    problem: str | None = None
    problem_kind: str | None = None

    @property
    def label(self) -> str:
        """Its name in messages: ``GPU 3 (0004:00:00.0)``."""
        return f"GPU {self.index} ({self.busid})" if self.busid else f"GPU {self.index}"


def facts_of(read: Mapping[str, Any]) -> GpuFacts:
    """Build the facts from a reader's mapping of the fields, with pairs of clocks as ``[memory, graphics]``."""

    def pair(name: str) -> Clocks | None:
        return Clocks(*read[name]) if read.get(name) else None

    # JSON has no numbers as keys.
    supported = {int(memory): tuple(sorted(clocks, reverse=True)) for memory, clocks in read["supported"].items()}
    highest = pair("highest") or Clocks(None, None)
    memory = max(supported, default=highest.memory)
    graphics = max(supported.get(memory or 0, ()), default=highest.graphics)
    return GpuFacts(
        index=read["index"],
        uuid=read["uuid"],
        busid=read["busid"],
        name=read["name"],
        mig=read["mig"],
        mig_instances=tuple(read["mig_instances"]),
        persistence=read["persistence"],
        supported=supported,
        # The highest clocks that can be set, not the model's maximum.
        highest=Clocks(memory, graphics),
        application=pair("application"),
        application_reason=read["application_reason"],
        default=pair("default"),
        current=pair("current") or Clocks(None, None),
        slowed=read["slowed"],
    )


NOT_SUPPORTED = "not_supported"
DEPRECATED = "deprecated"
NO_FUNCTION = "function_not_found"
NO_PERMISSION = "no_permission"
LOST = "gpu_is_lost"
NO_DRIVER = "driver_not_loaded"
MISMATCH = "lib_rm_version_mismatch"
NO_LIBRARY = "library_not_found"
NO_ANSWER = "no_answer"
DIED = "died"
NOT_ASKED = "not_asked"

LACKING = (NOT_SUPPORTED, DEPRECATED, NO_FUNCTION)
"""The driver or the GPU does not support the request; a retry is useless, and nothing is broken."""


class GpuError(RuntimeError):
    """The driver refused, failed or did not answer.

    :ivar kind: NVML's name of the error in lower case without its prefix (``gpu_is_lost``), or ``no_answer``,
        ``died`` (the library ended the process that called it), or ``not_asked`` (a defect of hpcnode, or the process
        was killed), which says nothing about the driver.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind

    @property
    def lacking(self) -> bool:
        """Whether the driver or GPU only does not support the request."""
        return self.kind in LACKING


_DRIVER_FOLDER = "/sys/module/nvidia"


@dataclass(frozen=True)
class DriverLoad:
    """A load of the driver in a boot of the machine; two are equal if and only if the driver was not reloaded.

    :ivar boot_id: the kernel's id of this boot.
    :ivar module: inode number of the driver's folder in sysfs, which changes at each load. The version and file names
        stay the same after a reload, and the times depend on accesses. The kernel's kernfs assigns inode numbers
        cyclically (``idr_alloc_cyclic``), and with 64 bits a reused one contains another generation.
    """

    boot_id: str
    module: int


def read_load(root: Root) -> DriverLoad | None:
    """Return the current load of the driver; None if it is not loaded."""
    boot_id = read_boot_id(root)
    try:
        module = os.stat(root.at(_DRIVER_FOLDER)).st_ino
    except OSError:
        return None
    return DriverLoad(boot_id, module) if boot_id else None
