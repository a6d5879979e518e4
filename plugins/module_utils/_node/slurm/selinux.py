# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""SELinux stays enforcing: files in our folders get the labels of the machine's policy."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..machine.root import Root
from ..machine.run import Run, must

_ENABLED = ("/sys/fs/selinux/enforce", "/etc/selinux/config")
"""Both exist while SELinux is enabled, enforcing or permissive. A kernel may have it without any policy; then there is
no restorecon, and libselinux also reports it as disabled (is_selinux_enabled in enabled.c)."""
_WOULD = re.compile(r"^Would relabel (?P<path>.+) from \S+ to \S+$", re.MULTILINE)


def is_enabled(root: Root) -> bool:
    """Return whether this machine has SELinux with a policy."""
    return all(root.exists(path) for path in _ENABLED)


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
