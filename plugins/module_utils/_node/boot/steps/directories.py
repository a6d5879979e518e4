# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Step directories: creates the directories on the scratch, or on another disk if the VM size has no NVMe disks."""

from __future__ import annotations

from ...health.check import FAIL, PASS, SKIP, WARN
from ...machine.vm_size import VmSizeUndetermined
from ...setup.directories.ensure import Outcome as DirectoriesOutcome
from ...setup.directories.ensure import ensure
from ...setup.directories.options import SETTINGS, DirectoryOptions, read_options
from ...setup.directories.plan import MOUNT
from ...sku import UnknownVmSize
from ..size import expected_size
from ..step import Context, Outcome, Step

_LOCK_S = 30.0
_MOUNT_LATE_S = 60.0


def _perform(context: Context) -> Outcome:
    options = read_options(context.root)
    if options is None:
        return Outcome(SKIP, f"no {SETTINGS}, so no directories are set up")
    try:
        done = _ensure(options, context)
    except (UnknownVmSize, VmSizeUndetermined):
        if expected_size(context.root) is None:
            return Outcome(SKIP, f"this is not a compute node, and {options.mountpoint} is not mounted")
        raise
    details = {
        "kind": done.kind,
        "mountpoint": done.mountpoint,
        "size_bytes": done.size_bytes,
        "free_bytes": done.free_bytes,
        "free_inodes": done.free_inodes,
        "problems": list(done.problems),
    }
    if done.problems:
        action = f"Fix these problems, then run 'hpcnode boot run {STEP.name}'"
        return Outcome(FAIL, "; ".join(done.problems), action, done.actions, details)
    if done.warnings:
        action = "" if done.kind == MOUNT else "For jobs that need a fast scratch, use a VM size with NVMe disks"
        return Outcome(WARN, "; ".join(done.warnings), action, done.actions, details)
    number = len(options.folders)
    return Outcome(PASS, f"{done.mountpoint}: {number} directories are set up", "", done.actions, details)


def _ensure(options: DirectoryOptions, context: Context) -> DirectoriesOutcome:
    return ensure(
        options,
        context.root,
        context.run,
        context.check,
        # cloud-init or the Azure agent mounts the temporary disk, so there is no unit to wait for.
        wait_s=min(_MOUNT_LATE_S, context.seconds / 2),
        lock_timeout_s=min(_LOCK_S, context.seconds / 4),
    )


STEP = Step("directories", "Directories on the scratch, or on its fallback", True, 150.0, _perform)
