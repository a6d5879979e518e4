# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""SELinux stays enforcing: what lies in our folders has the labels that the machine's policy says."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..machine.root import Root
from ..machine.run import Run, must

_ENABLED = ("/sys/fs/selinux/enforce", "/etc/selinux/config")
"""Both there while SELinux is enabled, enforcing or permissive. A kernel may have it without any policy, and then there
is no restorecon: libselinux too calls it disabled where there is no configuration (is_selinux_enabled in enabled.c)."""
_WOULD = re.compile(r"^Would relabel (?P<path>.+) from \S+ to \S+$", re.MULTILINE)


def is_enabled(root: Root) -> bool:
    """Return whether this machine has SELinux, with a policy."""
    return all(root.exists(path) for path in _ENABLED)


def wrong_labels(paths: Sequence[str], root: Root, run: Run) -> list[str]:
    """Return what has another label than the policy says; nothing where SELinux is off.

    :raises CommandFailed: SELinux is enabled, and restorecon cannot tell.
    """
    present = [path for path in paths if root.exists(path)]
    if not present or not is_enabled(root):
        return []
    return [match["path"] for match in _WOULD.finditer(must(run(["restorecon", "-n", "-v", "-R", *present])).stdout)]


def relabel(paths: Sequence[str], run: Run) -> None:
    """Give these the label that the policy says.

    :raises CommandFailed: it cannot be done.
    """
    if paths:
        must(run(["restorecon", *paths]))
