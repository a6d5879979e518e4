# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Holding back new jobs while slurmctld learns names of nodes that no machine stands behind yet.

Such a node is idle from slurmctld's start until it is set down, and a pending job would be given it at once. A
reservation of all nodes is known before the first job is looked at, and it covers nodes that are added later.
"""

from __future__ import annotations

from ..machine.run import Run, must

RESERVATION = "hpcai-new-nodes"
MINUTES = 5
"""After so long it ends by itself, if whoever made it could not end it."""


def is_held(run: Run) -> bool:
    """Whether new jobs are held back."""
    shown = run(["scontrol", "--oneliner", "show", "reservation", RESERVATION])
    return shown.rc == 0 and any(
        line.startswith(f"ReservationName={RESERVATION} ") for line in shown.stdout.splitlines()
    )


def runs(run: Run) -> bool:
    """Whether a slurmctld answers; asked in a way that does not wait for one."""
    return run(["scontrol", "ping"]).rc == 0


def hold(run: Run) -> None:
    """Let no new job start; those that run go on.

    :raises CommandFailed: slurmctld refused.
    """
    if is_held(run):
        # Left by a run that was cut off: its time begins anew.
        must(run(["scontrol", "update", f"ReservationName={RESERVATION}", f"EndTime=now+{MINUTES}minutes"]))
        return
    words = [f"ReservationName={RESERVATION}", f"Duration={MINUTES}", "StartTime=now"]
    words += ["Nodes=ALL", "Users=root", "Flags=MAINT,IGNORE_JOBS"]
    must(run(["scontrol", "create", "reservation", *words]))


def release(run: Run) -> None:
    """Let jobs start again.

    :raises CommandFailed: slurmctld refused.
    """
    must(run(["scontrol", "delete", f"ReservationName={RESERVATION}"]))
