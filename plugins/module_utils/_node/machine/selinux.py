# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""SELinux stays enforcing: files in our folders get the labels of the machine's policy, and booleans of the policy
allow what the cluster needs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .root import Root
from .run import Run, must

_ENABLED = ("/sys/fs/selinux/enforce", "/etc/selinux/config")
"""Both exist while SELinux is enabled, enforcing or permissive. A kernel may have it without any policy; then there is
no restorecon, and libselinux also reports it as disabled (is_selinux_enabled in enabled.c)."""
_WOULD = re.compile(r"^Would relabel (?P<path>.+) from \S+ to \S+$", re.MULTILINE)


def is_enabled(root: Root) -> bool:
    """Return whether this machine has SELinux with a policy."""
    return all(root.exists(path) for path in _ENABLED)


def boolean(name: str, root: Root) -> bool | None:
    """Return whether a boolean of the policy is on; None if SELinux is off, or the policy does not have it.

    The kernel's file contains the current and the pending value (sel_read_bool in security/selinux/selinuxfs.c).
    """
    values = (root.text(f"/sys/fs/selinux/booleans/{name}") or "").split() if is_enabled(root) else []
    return values[0] == "1" if values else None


def set_boolean(name: str, value: bool, run: Run) -> None:
    """Set a boolean of the policy, now and for later boots.

    :raises CommandFailed: it cannot be done.
    """
    must(run(boolean_command(name, value)))


def boolean_command(name: str, value: bool) -> list[str]:
    """Return the command that sets a boolean of the policy."""
    return ["setsebool", "-P", name, "on" if value else "off"]


def wrong_labels(paths: Sequence[str], root: Root, run: Run) -> list[str]:
    """Return the files whose label differs from the policy's; empty if SELinux is off.

    :raises CommandFailed: SELinux is enabled, but restorecon fails.
    """
    present = [path for path in paths if root.exists(path)]
    if not present or not is_enabled(root):
        return []
    return [match["path"] for match in _WOULD.finditer(must(run(["restorecon", "-n", "-v", "-R", *present])).stdout)]


def relabel(paths: Sequence[str], run: Run) -> None:
    """Give these the policy's labels.

    :raises CommandFailed: it cannot be done.
    """
    if paths:
        must(run(["restorecon", *paths]))
