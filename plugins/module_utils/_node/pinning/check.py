# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The whole of it: look at processes where some were named, and say how to start the ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

from ..machine.root import Root
from ..sku.types import VmSize
from .advise import DISJOINT, Advice, AdviceError, advise, check_counts
from .inspect import Inspection, inspect
from .launch import SRUN, Launch, launch
from .layout import layout_of_size, read_layout
from .rank import GpuUse
from .select import NOTHING, Selection


@dataclass(frozen=True)
class Wanted:
    """What the user asks.

    :ivar selection: processes to look at; an empty one looks at none.
    :ivar size: the size to advise for, instead of the machine.
    :ivar launcher: see ``launch.LAUNCHERS``.
    :ivar ranks_per_node: by default as many as were found, else see ``advise``.
    :ivar threads_per_rank: see ``advise``.
    :ivar masks: see ``advise.MASKS``.
    :ivar memory: whether to look where the processes' memory lies.
    """

    selection: Selection = NOTHING
    size: VmSize | None = None
    launcher: str = SRUN
    ranks_per_node: int | None = None
    threads_per_rank: int | None = None
    masks: str = DISJOINT
    memory: bool = False

    def __post_init__(self) -> None:
        check_counts(self.ranks_per_node, self.threads_per_rank)


@dataclass(frozen=True)
class Report:
    """What there is to say.

    :ivar inspection: of the machine and its processes; None where advice for a VM size was all that was asked.
    :ivar advice: where ranks should run; None where there is none, and ``no_advice`` says why.
    :ivar start: the line that puts them there.
    """

    inspection: Inspection | None
    advice: Advice | None
    start: Launch | None
    no_advice: str = ""


def check(root: Root, wanted: Wanted, ask_gpus: Callable[[Root], GpuUse | None]) -> Report:
    """Look and advise. Nothing is changed.

    :param ask_gpus: says which process of the machine uses which GPUs, None where that is not known; called only where
        there are GPUs and processes to look at.
    :raises UnknownLayout: the CPUs of the machine or of the size are not known.
    :raises AdviceError: the ranks do not fit, and no processes were to be looked at.
    """
    inspection, target = None, layout_of_size(wanted.size) if wanted.size else None
    if wanted.selection or target is None:
        layout = read_layout(root)
        gpu_use = ask_gpus(root) if wanted.selection and layout.gpus else None
        inspection = inspect(root, layout, wanted.selection, gpu_use, wanted.memory)
        target = target or inspection.layout
    found = len(inspection.ranks) if inspection else 0
    try:
        advice = advise(target, wanted.ranks_per_node or found or None, wanted.threads_per_rank, wanted.masks)
    except AdviceError as error:
        if not wanted.selection:
            raise
        # The findings are what was asked for first.
        return Report(inspection, None, None, str(error))
    return Report(inspection, advice, launch(advice, wanted.launcher))
