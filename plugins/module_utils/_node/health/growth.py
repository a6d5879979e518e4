# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""By how much a counter has grown since the last run."""

from __future__ import annotations


def growth(before: int | None, now: int) -> int | None:
    """Return by how much a counter has grown; None where it was not known. One that was reset began anew."""
    if before is None:
        return None
    return now - before if now >= before else now
