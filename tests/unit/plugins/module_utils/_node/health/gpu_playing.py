# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stand-ins for GPUs: they are healthy, except for what a test changes.

For the tests of checks: ``from ..gpu_playing import gpu, look``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import CannotMeasure, Check, Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.judge import judge
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu import (
    Clocks,
    GpuError,
    GpuFacts,
    GpuHealth,
    NvLinks,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu.health import Ecc, Pcie, Rows

from .playing import context

BUSIDS = tuple(f"{domain:04x}:00:00.0" for domain in (1, 2, 3, 4, 0xB, 0xC, 0xD, 0xE))
"""Of the GPUs of a Standard_ND96asr_v4."""
CLEAN = Ecc(True, 0, 0, 0, 0, 0, 0, 0, 0, False)
LOST = {"problem": "GPU is lost", "problem_kind": "gpu_is_lost"}


def gpu(index: int = 0, **changed: Any) -> GpuHealth:
    """Return a healthy A100 with the changes of a test."""
    if "problem" in changed:
        return GpuHealth(**{"index": index, "busid": BUSIDS[index], **changed})
    healthy: dict[str, Any] = {
        "busid": BUSIDS[index],
        "uuid": f"GPU-{index}",
        "name": "NVIDIA A100-SXM4-40GB",
        "serial": f"132062100000{index}",
        "vbios": "92.00.45.00.03",
        "persistence": True,
        "mig": False,
        "reasons": 1,
        "temperature": 31,
        "slowdown_at": 89,
        "most": 85,
        "power": 55.0,
        "power_limit": 400.0,
        "power_default": 400.0,
        "graphics_mhz": 1410,
        "memory_mhz": 1215,
        "ecc": CLEAN,
        "rows": Rows(0, 0, False, False),
        "pcie": Pcie(16, 4, 16, 4, 4),
        "memory_used": 4.0,
        "processes": (),
    }
    return GpuHealth(**{"index": index, **healthy, **changed})


def facts(index: int = 0, **changed: Any) -> GpuFacts:
    """Return the clocks of an A100 whose application clocks are the highest."""
    highest = Clocks(1215, 1410)
    usual: dict[str, Any] = {
        "uuid": f"GPU-{index}",
        "busid": BUSIDS[index],
        "persistence": True,
        "supported": {1215: (1410, 1095)},
        "highest": highest,
        "application": highest,
        "default": Clocks(1215, 1095),
        "current": highest,
    }
    return GpuFacts(**{"index": index, **usual, **changed})


class PlayedGpus:
    """A stand-in for the GPUs' driver."""

    limit_s = 10.0

    def __init__(
        self,
        gpus: Sequence[GpuHealth] | GpuError,
        on_bus: Sequence[str] | None = None,
        links: Sequence[NvLinks] = (),
        inforoms: Mapping[int, bool | str | None] | None = None,
        clocks: Sequence[GpuFacts] | GpuError = (),
        driver: str = "550.90.12",
    ) -> None:
        self._gpus, self._links, self._inforoms, self._clocks, self._version = gpus, links, inforoms, clocks, driver
        known = () if isinstance(gpus, GpuError) else tuple(one.busid or "" for one in gpus)
        self._on_bus = known if on_bus is None else tuple(on_bus)

    def on_bus(self) -> tuple[str, ...]:
        """Return the addresses on the bus."""
        return self._on_bus

    def versions(self) -> tuple[str, str]:
        """Return the versions of driver and library."""
        return self._version, f"12.{self._version}"

    def all(self) -> tuple[GpuHealth, ...]:
        """Return the GPUs."""
        if isinstance(self._gpus, GpuError):
            raise self._gpus
        return tuple(self._gpus)

    def links(self) -> tuple[NvLinks, ...]:
        """Return their NVLinks."""
        return tuple(self._links)

    def inforoms(self) -> Mapping[int, bool | str | None]:
        """Return whether their InfoROMs are valid."""
        return {one.index: True for one in self.all()} if self._inforoms is None else self._inforoms

    def facts(self) -> tuple[GpuFacts, ...]:
        """Return their clocks."""
        if isinstance(self._clocks, GpuError):
            raise self._clocks
        return tuple(self._clocks)


def look(check: Check, *gpus: GpuHealth, played: PlayedGpus | None = None, **machine: Any) -> Result:
    """Run a check on GPUs, and return its result as the engine judges it.

    :param machine: arguments for ``context``.
    """
    given = context(gpus=played or PlayedGpus(gpus), **machine)
    return judge(check, check.measure(given), given.settings)


def assert_unread_gpus_are_unknown(check: Check, *others: GpuHealth, **machine: Any) -> None:
    """Assert that a check is unknown if a GPU is lost, or if the driver is missing, shows no GPU or does not answer.

    :param others: the GPUs that are not lost; by default one.
    :param machine: arguments for ``context``.
    """
    result = look(check, *(others or (gpu(0),)), gpu(1, **LOST), **machine)
    assert (result.verdict, result.fault) == ("unknown", "")
    assert result.summary == "GPU 1 (0002:00:00.0) could not be read: GPU is lost"
    with pytest.raises(CannotMeasure, match="the GPUs' driver cannot be queried: not loaded"):
        look(check, played=PlayedGpus(GpuError("driver_not_loaded", "not loaded")), **machine)
    with pytest.raises(CannotMeasure, match="the driver shows no GPU"):
        look(check, **machine)
    # The engine counts these errors, so the check must not catch them.
    with pytest.raises(GpuError):
        look(check, played=PlayedGpus(GpuError("no_answer", "silence")), **machine)
