# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The releases of BeeGFS that there is a strategy for."""

from __future__ import annotations

from collections.abc import Mapping

from .release import Release
from .release_7 import BeeGfs7

STRATEGIES: Mapping[str, Release] = {"7.4": BeeGfs7()}


def release_of(name: str) -> Release:
    """Return the strategy of a release; settings.py has refused all others."""
    return STRATEGIES[name]
