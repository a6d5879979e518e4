# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Step clocks: sets the GPUs' clocks of the module gpu_clocks. It does not block, because a slow GPU still computes."""

from __future__ import annotations

from ...health.check import FAIL, PASS, SKIP, UNKNOWN, WARN
from ...machine.gpu import GpuError, connect, nvidia_gpus
from ...setup import clocks
from ..step import Context, Outcome, Step

_SETTINGS = f"/etc/hpcai/{clocks.CONFIG}.json"
_ACTION = "Run 'hpcnode clocks status' to see each GPU, and 'hpcnode boot run clocks' to try again"


def _perform(context: Context) -> Outcome:
    options = clocks.read_options(context.root)
    if options is None:
        return Outcome(SKIP, f"no {_SETTINGS}, so no clocks are set")
    if not nvidia_gpus(context.root):
        return Outcome(SKIP, "there is no NVIDIA GPU")
    try:
        driver = connect(context.root, options.timeout)
        try:
            done = clocks.ensure(context.root, driver, options, check_mode=context.check)
        finally:
            driver.close()
    except GpuError as error:
        return Outcome(UNKNOWN, str(error), _ACTION, details={"error": error.kind})
    except ValueError as error:
        return Outcome(FAIL, f"{_SETTINGS}: {error}", "Correct the settings with the module hpcai.azure.gpu_clocks")
    changes = tuple(f"GPU {gpu['index']}: {action}" for gpu in done.gpus for action in gpu["actions"])
    details = {"via": done.via, "gpus": list(done.gpus), "warnings": list(done.warnings)}
    if done.problems:
        return Outcome(FAIL, _first_of(done.problems), _ACTION, changes, details)
    if done.warnings:
        return Outcome(WARN, _first_of(done.warnings), "", changes, details)
    return Outcome(PASS, f"{len(done.gpus)} GPUs have the configured clocks", "", changes, details)


def _first_of(lines: tuple[str, ...]) -> str:
    return lines[0] if len(lines) == 1 else f"{lines[0]} (and {len(lines) - 1} more)"


STEP = Step("clocks", "Clocks of this node's GPUs", blocking=False, limit_s=120, perform=_perform)
