# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Step containers: what enroot and pyxis need on this machine after each boot.

It selects the devices that containers get, removes what jobs left that died with the machine, and checks that the
plugin fits the installed Slurm. It builds nothing.
"""

from __future__ import annotations

import os

from ...health.check import PASS, SKIP, WARN
from ...machine.atomic import write_file
from ...setup.containers import user_folders
from ...setup.containers.enroot import at_boot
from ...setup.containers.options import SETTINGS, EnrootOptions, read_options
from ...setup.containers.pyxis import fits
from ..step import Context, Outcome, Step

_USER_NAMESPACES = ("/proc/sys/user/max_user_namespaces", "/proc/sys/kernel/unprivileged_userns_clone")


def _perform(context: Context) -> Outcome:
    options = read_options(context.root)
    if options is None:
        return Outcome(SKIP, f"no {SETTINGS}, so containers are not set up")
    changes = at_boot(options, context.root, context.check)
    removed, problems = _sweep(options, context)
    changes += removed
    wrong = fits(context.root, context.run)
    if wrong:
        problems.append(f"{wrong}: jobs cannot start containers here; run site.yml to build the plugin")
    for path in _USER_NAMESPACES:
        if context.root.number(path) == 0:
            problems.append(f"{path} is 0, so no user can start a container")
    details = {"swept": removed, "problems": problems}
    if problems:
        return Outcome(WARN, "; ".join(problems), "See guide_containers", tuple(changes), details)
    swept = f", {len(removed)} leftovers of dead jobs were removed" if removed else ""
    return Outcome(PASS, f"enroot has its settings, and pyxis fits Slurm{swept}", "", tuple(changes), details)


def _sweep(options: EnrootOptions, context: Context) -> tuple[list[str], list[str]]:
    """Remove leftovers once per boot. Later, a job may be starting whose container exists before its first step."""
    marker = context.root.at(user_folders.SWEPT)
    if os.path.exists(marker):
        return [], []
    leftovers = user_folders.leftovers(options.data_folder, options.pyxis_runtime_path, context.root)
    removed = [f"remove {leftover.path}" for leftover in leftovers]
    if context.check:
        return removed, []
    problems = user_folders.remove_leftovers(leftovers, context.run)
    if not problems:
        write_file(marker, "")
    return removed, problems


STEP = Step("containers", "Devices, folders and plugin for containers", blocking=False, limit_s=120, perform=_perform)
