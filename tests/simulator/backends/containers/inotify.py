# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each machine's systemd and its services hold inotify instances, and all machines' root is one user to the kernel."""

from __future__ import annotations

from pathlib import Path

from simulator.backends import BackendError

LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
WANTED = 1024
"""Instances that root may hold. A machine holds nine (counted in /proc/*/fd), and Debian's default of 128 ends with
the thirteenth: its systemd exits at once."""


def raise_limit(limit: Path = LIMIT) -> list[str]:
    """Allow enough inotify instances for a hundred machines, and return lines to print.

    :raises BackendError: the limit is lower and cannot be raised.
    """
    found = int(limit.read_text(encoding="ascii"))
    if found >= WANTED:
        return []
    try:
        limit.write_text(f"{WANTED}\n", encoding="ascii")
    except OSError as error:
        raise BackendError(
            f"root may hold {found} inotify instances, {WANTED} are needed (nine per machine), and {limit} cannot be "
            f"written ({error.strerror}): run 'sysctl fs.inotify.max_user_instances={WANTED}' on the host"
        ) from error
    return [f"raised fs.inotify.max_user_instances of this host from {found} to {WANTED}: each machine takes nine"]
