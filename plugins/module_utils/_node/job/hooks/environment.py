# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What a script finds in its environment, the same whatever the release of Slurm."""

from __future__ import annotations

import re
from collections.abc import Mapping

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NO_JOB = "none"

_SAME = (
    # slurmd up to 22.05 says SLURM_NODELIST alone (prep_script_slurmd.c), later manuals name only the other.
    ("SLURM_JOB_NODELIST", "SLURM_NODELIST"),
    ("SLURM_JOB_ID", "SLURM_JOBID"),
    ("SLURM_JOB_UID", "SLURM_UID"),
)


def environment(given: Mapping[str, str], kind: str) -> dict[str, str]:
    """Return the environment of scripts: what slurmd gave, each value under its old name and under its new one."""
    made = {**given, "PATH": PATH, "LC_ALL": "C", "HPCAI_HOOK": kind}
    for pair in _SAME:
        for name, other in (pair, pair[::-1]):
            if not made.get(name) and made.get(other):
                made[name] = made[other]
    return made


def job_of(given: Mapping[str, str]) -> str:
    """Return the number of the job that slurmd calls for; NO_JOB if there is none."""
    number = given.get("SLURM_JOB_ID") or given.get("SLURM_JOBID") or ""
    return number if re.fullmatch(r"[0-9]{1,19}", number) else NO_JOB
