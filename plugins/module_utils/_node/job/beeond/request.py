# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether a job requests the file system. For a job that does not, nothing else is imported."""

from __future__ import annotations

import re
from collections.abc import Mapping

FEATURE = "beeond"
"""The feature that a job requests with ``--constraint``; the role slurm gives it to the nodes."""
CONSTRAINTS = "SLURM_JOB_CONSTRAINTS"
# Separators between features: a&b, a|b, [a|b], (a&b)*2, and a comma if a job accepts one of several lists.
_BETWEEN = re.compile(r"[&|()\[\]*,\s]+")


def has_feature(constraints: str, feature: str = FEATURE) -> bool:
    """Whether a constraint contains the feature, at any position; ``nobeeond`` is a different feature."""
    return feature in _BETWEEN.split(constraints)


def requests_beeond(environment: Mapping[str, str]) -> bool:
    """Whether the job of this prolog requests the file system."""
    return has_feature(environment.get(CONSTRAINTS, ""))
