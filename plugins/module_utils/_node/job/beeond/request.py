# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether a job asks for the file system. Nothing else is imported for a job that does not."""

from __future__ import annotations

import re
from collections.abc import Mapping

FEATURE = "beeond"
"""What a job puts into ``--constraint``; the role slurm gives nodes this feature."""
CONSTRAINTS = "SLURM_JOB_CONSTRAINTS"
# What stands between features: a&b, a|b, [a|b], (a&b)*2, and a comma where a job may be given one of several lists.
_BETWEEN = re.compile(r"[&|()\[\]*,\s]+")


def has_feature(constraints: str) -> bool:
    """Whether the feature is one of a constraint's, wherever it stands there; ``nobeeond`` is another one."""
    return FEATURE in _BETWEEN.split(constraints)


def requests_beeond(environment: Mapping[str, str]) -> bool:
    """Whether the job of this prolog asks."""
    return has_feature(environment.get(CONSTRAINTS, ""))
