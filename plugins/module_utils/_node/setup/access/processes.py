# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether users see each other's processes: the option hidepid of /proc, which each boot sets anew."""

from __future__ import annotations

import grp

from ...machine.atomic import OPERATORS
from ...machine.mounts import read_mounts
from ...machine.root import Root
from ...machine.run import Run, must
from .wanted import Wanted

LOGIND = "/etc/systemd/system/systemd-logind.service.d/50-hpcai-hidepid.conf"
_LOGIND_TEXT = f"""\
# Written by the module hpcai.azure.compute_access: logind has no right to look into other users' processes.
[Service]
SupplementaryGroups={OPERATORS}
"""
# Kernels from 5.8 on print names for the numbers (proc(5)).
_HIDDEN = ("hidepid=2", "hidepid=invisible")


def files(wanted: Wanted) -> dict[str, str | None]:
    """Return the texts of the files that belong to it; None for one that should not be there."""
    return {LOGIND: _LOGIND_TEXT if wanted.present and wanted.hide_processes else None}


def apply(root: Root, wanted: Wanted, run: Run, check: bool) -> list[str]:
    """Mount /proc anew with the option that is wanted, and return what was done, or in check mode would be.

    :raises CommandFailed: the kernel refuses.
    """
    hide = wanted.present and wanted.hide_processes
    found = next((mount.options for mount in read_mounts(root) if mount.mountpoint == "/proc"), ())
    if hide == any(option in _HIDDEN for option in found):
        return []
    options = f"hidepid=2,gid={_gid()}" if hide else "hidepid=0,gid=0"
    # Without /proc in the list nothing is known of it, as in a captured tree.
    if not check and found:
        must(run(["mount", "-o", f"remount,{options}", "/proc"]))
    return [f"mount /proc with {options}"] if found else []


def _gid() -> int:
    try:
        return grp.getgrnam(OPERATORS).gr_gid
    except KeyError:
        return 0
