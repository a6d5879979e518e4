# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Step directories: the directories on the scratch, and what takes its place where the VM size has no NVMe disks."""

from __future__ import annotations

from ...health.check import FAIL, PASS, SKIP, WARN
from ...machine.vm_size import VmSizeUndetermined
from ...setup.directories.ensure import Outcome as Done
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
        return Outcome(SKIP, f"no {SETTINGS}, so no directories are asked for")
    try:
        done = _ensure(options, context)
    except (UnknownVmSize, VmSizeUndetermined):
        if expected_size(context.root) is None:
            return Outcome(SKIP, f"no compute node, and {options.mountpoint} is not mounted")
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
        action = f"Mend what is named, then run 'hpcnode boot run {STEP.name}'"
        return Outcome(FAIL, "; ".join(done.problems), action, done.actions, details)
    if done.warnings:
        action = "" if done.kind == MOUNT else "Jobs that need a fast scratch belong on a VM size with NVMe disks"
        return Outcome(WARN, "; ".join(done.warnings), action, done.actions, details)
    number = len(options.folders)
    return Outcome(PASS, f"{done.mountpoint}: {number} directories are as they should be", "", done.actions, details)


def _ensure(options: DirectoryOptions, context: Context) -> Done:
    return ensure(
        options,
        context.root,
        context.run,
        context.check,
        # Who mounts the temporary disk, cloud-init or the Azure agent, is no unit that one could wait for.
        wait_s=min(_MOUNT_LATE_S, context.seconds / 2),
        lock_timeout_s=min(_LOCK_S, context.seconds / 4),
    )


STEP = Step("directories", "Directories on the scratch, or what takes its place", True, 150.0, _perform)
