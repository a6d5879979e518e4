# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The GPUs that are measured: where they are, and asking for a figure of one in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ...machine.child import Died, Overdue, within
from ...machine.cpuset import CpuSet
from ...machine.numa import read_cpus
from ...machine.pci import PciFacts, read_pci
from ..check import FAIL, UNKNOWN, CannotTell, Context, Finding
from ..cuda.library import BROKEN
from . import tools

_NVIDIA = 0x10DE


def present(context: Context) -> list[PciFacts]:
    """Return the NVIDIA GPUs that PCI has, in their order.

    :raises CannotTell: there is none.
    """
    found = [device for device in read_pci(context.root) if device.is_gpu and device.vendor == _NVIDIA]
    if not found:
        raise CannotTell("PCI has no NVIDIA GPU, so there is nothing to be measured")
    return found


def cpus_near(context: Context, gpu: PciFacts) -> CpuSet:
    """Return the CPUs of the GPU's NUMA node; none where that is not known."""
    nodes = read_cpus(context.root).nodes
    return next((node.cpus for node in nodes if node.id == gpu.numa_node), CpuSet())


def ask(
    context: Context, what: str, within_s: float, function: Callable[[], Mapping[str, Any]], device: str = ""
) -> tuple[Mapping[str, Any], Finding | None]:
    """Return what a function of ``cuda`` measures, and what is wrong where it measures nothing.

    :param what: what is measured, for people.
    """
    try:
        answer = within(within_s, function)
    except Overdue:
        return {}, tools.no_answer(context, what, within_s, device)
    except Died as error:
        return {}, Finding(UNKNOWN, f"{what} could not be measured{_of(device)}: {error}", device)
    tools.answered(context, what, device)
    if "error" not in answer:
        return answer, None
    verdict = FAIL if answer["error"] in BROKEN else UNKNOWN
    hint = "See 'journalctl -k -b | grep NVRM' for what the driver says of it" if verdict == FAIL else ""
    return {}, Finding(verdict, f"{what} could not be measured{_of(device)}: {answer['words']}", device, hint)


def _of(device: str) -> str:
    return f" on {device}" if device else ""
