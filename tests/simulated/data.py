# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What jobs' own file systems, staging and checkpoints leave behind on a node."""

from __future__ import annotations

from .node import Node


def left(one: Node) -> list[str]:
    """The mounts, units, processes and files that jobs left behind."""
    return one.sh(
        "grep -o ' /beeond .*' /proc/mounts; systemctl list-units --plain --no-legend 'hpcai-beeond-*@*'; "
        "pgrep --list-full --full '/opt/beegfs/sbin/beegfs-[a-z]* cfgFile=/run/hpcai'; pgrep --list-full azcopy; "
        "ls -A /run/hpcai/beeond /scratch/beeond 2>/dev/null | grep -v -e ':$' -e '^$'; "
        "ls -d /scratch/hpcai-azcopy/hpcai-* /tmp/hpcai-* 2>/dev/null",
        check=False,
    ).splitlines()
