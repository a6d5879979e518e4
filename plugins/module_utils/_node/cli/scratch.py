# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode scratch: sets up the RAID 0 of the local NVMe disks at each boot, with Ansible's settings."""

from __future__ import annotations

import argparse
from typing import Any

from ..machine.config import ConfigError
from ..machine.root import Root
from ..machine.run import run
from ..setup.scratch.disk_count import expected_disks, wait_for_disks, with_count
from ..setup.scratch.disks import Refused
from ..setup.scratch.ensure import DOWN, PRESENT, Outcome, as_results, ensure
from ..setup.scratch.options import SETTINGS, ScratchOptions, read_options
from ..sku import UnknownVmSize
from .command import BAD, GOOD, UNKNOWN, Action, Answer, Command, add_lock_timeout, no_arguments, seconds

_DESCRIPTION = """\
Sets up the scratch: a RAID 0 over the local NVMe disks, with a mounted file system. A redeployed or healed virtual
machine has blank disks, so hpcai-scratch.service does this at each boot (hpcnode boot run scratch). Nothing else starts
the mount. The module hpcai.azure.nvme_raid writes the settings to /etc/hpcai/scratch.json.
"""
_STATUSES = """\
Exit status: 0 good or done, 1 the scratch is not up, or the action failed, 2 there are no settings.
"""
_UP = f"""\
Creates what is missing: it mounts an existing file system, assembles a stopped array, and rebuilds the array if disks
are blank or missing. It does the same as the module hpcai.azure.nvme_raid, and like the module refuses disks with
foreign data. It waits for disks that appear late.

{_STATUSES}"""
_DOWN = f"""\
Unmounts the file system and stops the array. The data stays.

{_STATUSES}"""
_STATUS = f"""\
Shows the current state and what 'hpcnode scratch up' would do. It changes nothing.

{_STATUSES}"""


def _add_up(parser: argparse.ArgumentParser) -> None:
    words = "seconds to wait for disks that appear late (30)"
    parser.add_argument("--wait", type=seconds, default=30, metavar="SECONDS", help=words)
    add_lock_timeout(parser)


def _execute(args: argparse.Namespace) -> Answer:
    root = Root(args.root)
    options = read_options(root)
    if options is None:
        reason = f"no {SETTINGS}: module hpcai.azure.nvme_raid writes it"
        return Answer(UNKNOWN, reason, {"state": "unknown", "reason": reason})
    if args.action != "down":
        options = _with_expected_count(options, root)
    if args.action == "status":
        return _status(options, root, args.lock_timeout)
    if args.action == "up" and root.is_this_machine:
        wait_for_disks(options, root, run, args.wait)
    goal = PRESENT if args.action == "up" else DOWN
    done = ensure(goal, options, root, run, lock_timeout_s=args.lock_timeout, keeps_settings=True)
    lines = [*done.steps, *(f"warning: {warning}" for warning in done.warnings)]
    lines.append(_summary(done) if goal == PRESENT else "the scratch is down")
    return Answer(GOOD, "\n".join(lines), _data(done, "up" if goal == PRESENT else "down"))


def _with_expected_count(options: ScratchOptions, root: Root) -> ScratchOptions:
    """Expect the VM size's number of disks if the settings have none; if the size is not known, expect no number."""
    try:
        return with_count(options, expected_disks(options, root))
    except (ConfigError, UnknownVmSize):
        return options


def _status(options: ScratchOptions, root: Root, lock_timeout_s: float) -> Answer:
    try:
        outcome = ensure(PRESENT, options, root, run, check=True, lock_timeout_s=lock_timeout_s, keeps_settings=True)
    except Refused as error:
        return Answer(BAD, f"refused: {error}", {"state": "refused", "reason": str(error)})
    lines = [f"warning: {warning}" for warning in outcome.warnings]
    if outcome.steps:
        lines += ["the scratch is not up; 'hpcnode scratch up' would:", *(f"  {step}" for step in outcome.steps)]
        return Answer(BAD, "\n".join(lines), _data(outcome, "not up"))
    return Answer(GOOD, "\n".join([*lines, _summary(outcome)]), _data(outcome, "up"))


def _summary(outcome: Outcome) -> str:
    if not outcome.devices:
        return "no local NVMe disk is expected, and there is none"
    size = f"{outcome.size_bytes / 1e12:.1f} TB" if outcome.size_bytes >= 1e11 else f"{outcome.size_bytes / 1e9:.1f} GB"
    members = " ".join(device.rsplit("/", 1)[-1] for device in outcome.devices)
    adopted = ", adopted" if outcome.adopted else ""
    return f"{outcome.mountpoint} is up: {size} {outcome.filesystem} on {outcome.device} of {members}{adopted}"


def _data(outcome: Outcome, state: str) -> dict[str, Any]:
    return {"state": state, "warnings": list(outcome.warnings), **as_results(outcome)}


COMMAND = Command(
    "scratch",
    "the local NVMe disks as one file system: up, down, status",
    _DESCRIPTION,
    no_arguments,
    _execute,
    actions=(
        Action("up", "create what is missing, and mount the scratch", _UP, _add_up),
        Action("down", "unmount the scratch and stop the array", _DOWN, add_lock_timeout),
        Action("status", "show the state of the scratch", _STATUS, add_lock_timeout),
    ),
    ignores=True,
)
