# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Make a running machine write nothing more of what is being removed from it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...machine.root import Root
from ...machine.run import Run
from .own import ITEMS

_RUNNING = ("active", "activating", "reloading")


def writers(root: Root, keep: Collection[str], run: Run) -> tuple[str, ...]:
    """Return the units that run and would write again what goes; none on a machine at rest.

    :param keep: names of items that stay.
    """
    if not _is_running(root):
        return ()
    units = [unit for item in ITEMS if item.name not in keep for unit in item.stop]
    # One line for each, in their order; "inactive" for those that systemd does not know.
    states = run(["systemctl", "is-active", *units]).stdout.split()
    return tuple(unit for unit, state in zip(units, states) if state in _RUNNING)


def stop(root: Root, units: Sequence[str], keep: Collection[str], run: Run) -> None:
    """Stop them, and let the journal go on in memory only. One that does not stop is no reason to keep the keys."""
    if units:
        run(["systemctl", "stop", *units])
    if _is_running(root) and "logs" not in keep:
        run(["journalctl", "--relinquish-var"])


def _is_running(root: Root) -> bool:
    return root.is_this_machine and root.exists("/run/systemd/system")
