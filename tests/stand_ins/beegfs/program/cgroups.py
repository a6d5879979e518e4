# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Moves the client out of the control group that mounted it.

The real client is not a process, so it does not stop with a service or job.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def groups_of_first(mountinfo: str, cgroup: str) -> list[str]:
    """Return the folders of process 1's control groups, as this machine sees them.

    A container may see only a part of the hierarchy, while /proc/1/cgroup contains the full path.
    """
    listed = {}
    for line in cgroup.splitlines():
        _number, names, path = line.split(":", 2)
        listed[frozenset(names.split(","))] = path
    found = []
    for line in mountinfo.splitlines():
        mount, _unused, rest = line.partition(" - ")
        root, place = mount.split()[3:5]
        kind, _source, options = rest.split()[:3]
        for controllers, path in listed.items():
            ours = controllers <= set(options.split(",")) if kind == "cgroup" else controllers == {""}
            if kind in ("cgroup", "cgroup2") and ours and f"{path}/".startswith(f"{root.rstrip('/')}/"):
                found.append(f"{place}/{path[len(root.rstrip('/')) :].strip('/')}".rstrip("/"))
    return found


def join_first() -> None:
    """Move this process into the control groups of process 1, if the machine runs systemd."""
    if not Path("/run/systemd/system").is_dir():
        return
    texts = [Path(path).read_text(encoding="utf-8") for path in ("/proc/self/mountinfo", "/proc/1/cgroup")]
    for folder in groups_of_first(*texts):
        with contextlib.suppress(OSError):
            Path(folder, "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
