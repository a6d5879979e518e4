# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Step scratch: sets up the local NVMe disks as one file system, and creates it again if Azure has wiped them."""

from __future__ import annotations

from typing import Any

from ...health.check import FAIL, SKIP, WARN, Finding
from ...health.checks.scratch import SCRATCH, judge_scratch
from ...machine.config import ConfigError
from ...machine.disks import read_block_devices
from ...machine.mounts import read_mounts
from ...machine.root import Root
from ...machine.run import CommandFailed
from ...machine.user_folders import opened, remove_empty
from ...machine.vm_size import VmSizeUndetermined
from ...setup.directories.options import read_options as read_directories
from ...setup.scratch.disk_count import expected_disks, wait_for_disks, with_count
from ...setup.scratch.disks import Refused
from ...setup.scratch.ensure import PRESENT, as_results, ensure
from ...setup.scratch.facts import count_selected, select
from ...setup.scratch.options import ScratchOptions, parse, read_options
from ...sku import UnknownVmSize
from ..size import expected_size
from ..step import Context, Outcome, Step, at_boot, outcome_of

_LOCK_S = 60.0
_DISKS_LATE_S = 30.0


def _perform(context: Context) -> Outcome:
    root = context.root
    options = read_options(root) or parse({})
    try:
        expected = expected_disks(options, root)
    except (UnknownVmSize, VmSizeUndetermined):
        if expected_size(root) is None:
            return Outcome(SKIP, "this is not a compute node, and the disks of its VM size are not known")
        raise
    if expected.count == 0:
        present = count_selected(options, root)
        more = f"; the {present} existing disks are not used" if present else ""
        return Outcome(SKIP, f"no local NVMe disks are expected ({expected.origin}: 0){more}")
    options = with_count(options, expected)
    cleared = () if context.check else _clear(options, root)
    if not context.check:
        wait_for_disks(options, root, context.run, min(_DISKS_LATE_S, context.seconds / 3))
    try:
        done = ensure(
            PRESENT,
            options,
            root,
            context.run,
            check=context.check,
            lock_timeout_s=min(_LOCK_S, context.seconds / 3),
            keeps_settings=True,
        )
    except Refused as error:
        action = "See 'hpcnode scratch status' and guide_scratch. If a disk is missing, replace the machine"
        return Outcome(FAIL, str(error), action, details=_disk_details(options, root, expected.count))
    except CommandFailed as error:
        details = _disk_details(options, root, expected.count)
        return Outcome(FAIL, str(error), "Run 'hpcnode scratch up'", details=details)
    summary = f"{done.mountpoint}: {done.filesystem} on {len(done.devices)} local NVMe disks"
    details = {"expected": expected.count, **as_results(done)}
    findings = [] if context.check else at_boot(SCRATCH, judge_scratch(root, options.mountpoint)[1])
    if done.warnings:
        findings.append(Finding(WARN, "; ".join([summary, *done.warnings])))
    return outcome_of(findings, summary, (*cleared, *done.steps), details)


def _clear(options: ScratchOptions, root: Root) -> tuple[str, ...]:
    """Remove the collection's empty directories below the mountpoint, which would prevent the mount.

    They are on the system disk if the image was made on a machine without NVMe disks.
    """
    try:
        directories = read_directories(root)
    except ConfigError:
        return ()
    if directories is None or any(mount.mountpoint == options.mountpoint for mount in read_mounts(root)):
        return ()
    try:
        with opened(root.at(options.mountpoint), options.mountpoint, "") as base:
            gone = remove_empty(base, (folder.path for folder in directories.folders))
    except OSError:
        return ()
    return tuple(f"remove the empty {options.mountpoint}/{path}" for path in gone)


def _disk_details(options: ScratchOptions, root: Root, expected: int) -> dict[str, Any]:
    """Return the existing disks, which a support request to Azure about the missing ones needs."""
    devices = read_block_devices(root)
    names, absent = select(options, devices, root)
    disks = [{"path": devices[name].path, "serial": devices[name].serial} for name in names if name in devices]
    return {"expected": expected, "disks": disks, "absent": list(absent)}


STEP = Step("scratch", "Scratch file system on this node's local NVMe disks", True, 300.0, _perform)
