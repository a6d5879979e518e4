# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Raise the limit of inotify instances: systemd needs some on each machine, and all machines share the host's root."""

from __future__ import annotations

from pathlib import Path

from simulator.backends import BackendError

LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
REQUIRED = 1024
"""Instances that root may have. A machine has nine (counted in /proc/*/fd), and with Debian's default of 128 the
thirteenth machine fails: its systemd exits at once."""


def raise_limit(limit: Path = LIMIT) -> list[str]:
    """Allow enough inotify instances for a hundred machines, and return lines to print.

    :raises BackendError: the limit is lower and cannot be raised.
    """
    found = int(limit.read_text(encoding="ascii"))
    if found >= REQUIRED:
        return []
    try:
        limit.write_text(f"{REQUIRED}\n", encoding="ascii")
    except OSError as error:
        raise BackendError(
            f"root may hold {found} inotify instances, {REQUIRED} are needed (nine per machine), and {limit} cannot be "
            f"written ({error.strerror}): run 'sysctl fs.inotify.max_user_instances={REQUIRED}' on the host"
        ) from error
    return [f"raised fs.inotify.max_user_instances of this host from {found} to {REQUIRED}: each machine takes nine"]
