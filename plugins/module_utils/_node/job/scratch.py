# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether the scratch is still there as the boot left it: what a job is told before it starts, in little time.

No disk is counted and no array looked at: that is the business of the boot, which may take minutes. What goes wrong
later shows as a mount that is gone or a file system that can no longer be written.

Slurm drains each node whose prolog fails, as many as there are. The health checks look for the same and more, and take
no more nodes out than may be: where their prolog is installed, it is left to them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..machine.mounts import read_mounts, why_not_writable
from ..machine.root import Root
from ..slurm.arbiter.reasons import PROLOG_SCRIPT
from .hooks.options import PROLOG, folder

_RECORD = "/run/hpcai/boot/directories.json"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_DIRECTORY = "directory"


def looks_after_it(root: Root) -> str:
    """Return the prolog of the health checks, which looks at the scratch; nothing where it is not installed."""
    return PROLOG_SCRIPT if root.exists(f"{folder(PROLOG)}/{PROLOG_SCRIPT}") else ""


def problem_of(root: Root) -> str:
    """Return what is wrong with the scratch, in one line; nothing if it is good, or the node has none."""
    left = _as_the_boot_left_it(root)
    mountpoint, kind = left.get("mountpoint"), left.get("kind")
    if not isinstance(mountpoint, str) or not mountpoint.startswith("/"):
        return ""
    if kind != _DIRECTORY and not any(mount.mountpoint == mountpoint for mount in read_mounts(root)):
        return f"{mountpoint} is not mounted any more"
    problem = why_not_writable(root.at(mountpoint))
    return f"{mountpoint} cannot be written: {problem}" if problem else ""


def _as_the_boot_left_it(root: Root) -> Mapping[str, Any]:
    """What step ``directories`` of this boot found; nothing if it did not run, or nothing was asked for."""
    try:
        given = json.loads(root.text(_RECORD) or "")
        details = given["details"] if given["boot_id"] == (root.text(_BOOT_ID) or "") else {}
    except (ValueError, LookupError, TypeError, RecursionError):
        return {}
    return details if isinstance(details, Mapping) else {}
