# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The kinds of scripts, and what Slurm says of a node when one fails."""

from __future__ import annotations

from dataclasses import dataclass

PROLOG, EPILOG, HEALTH = "prolog", "epilog", "health"
KINDS = (PROLOG, EPILOG, HEALTH)

SLURMS_REASONS = {PROLOG: "Prolog error", EPILOG: "Epilog error"}
"""What slurmctld itself writes when it drains the node (slurmctld's node_mgr.c and job_mgr.c, 22.05 to 26.05). Nothing
that HealthCheckProgram returns makes it drain a node."""

ENDS_AT_FAILURE = (PROLOG,)
"""After a prolog that failed there comes no job that the rest could prepare. An epilog cleans up what it can."""


JOBS_OWN = 75
"""The exit status of a prolog's script for what is the job's own, such as a file system that users filled: the job goes
back into the queue, and the node is not drained. EX_TEMPFAIL of sysexits.h."""


@dataclass(frozen=True)
class Limits:
    """How long scripts may take, in seconds.

    :ivar script: each of them that has no limit of its own.
    :ivar total: all of a kind together.
    """

    script: float
    total: float


DEFAULT_LIMITS = {
    PROLOG: Limits(30, 100),
    EPILOG: Limits(30, 100),
    # slurmd kills a HealthCheckProgram after 60 s.
    HEALTH: Limits(20, 50),
}
"""The role slurm says the same, and derives Slurm's own limits from it; a test compares them."""


def folder(kind: str) -> str:
    """Return where the scripts of a kind lie."""
    return f"/etc/hpcai/{kind}.d"
