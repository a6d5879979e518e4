# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether a check that disturbs may run: nobody computes here."""

from __future__ import annotations

import os

from ...machine.gpu import compute_processes, nvidia_gpus
from ...machine.owners import is_slurmstepd
from ...machine.proc import ancestors, read_processes
from ..check import CannotTell, Check, Context

_STEP = "slurmstepd: ["
"""How the command line of a job's step begins: ``slurmstepd: [42.batch]``. The daemon that only holds Slurm's control
group has another one."""


def must_be_idle(context: Context, check: Check) -> None:
    """Let a check of the deep tier go on, unless it would disturb somebody: its figures would be wrong as well.

    The site's option ``while_busy`` of the check lets it go on at all times.

    :raises CannotTell: a job runs here, or processes compute on the GPUs, or that cannot be told.
    """
    if context.settings.option(check, "while_busy"):
        return
    mine = ancestors(context.root, os.getpid())
    steps = [
        process.command[len(_STEP) :].split("]")[0]
        for process in read_processes(context.root)
        if process.command.startswith(_STEP) and process.pid not in mine and is_slurmstepd(context.root, process.pid)
    ]
    if steps:
        raise CannotTell(f"it would disturb job {steps[0]}, which runs here: drain the node and wait for its end")
    if not nvidia_gpus(context.root):
        return
    computing = compute_processes(context.root)
    if computing is None:
        raise CannotTell("whether somebody computes on the GPUs cannot be told: the driver does not say")
    others = sorted(pid for pid in computing if pid != os.getpid())
    if others:
        which = ", ".join(map(str, others[:5])) + (" and more" if len(others) > 5 else "")
        raise CannotTell(f"it would disturb what computes on the GPUs (process {which}): drain the node, or end it")
