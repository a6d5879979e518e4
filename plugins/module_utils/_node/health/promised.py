# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether a machine's VM size promises what a check looks at."""

from __future__ import annotations

from typing import Callable

from ..sku.types import VmSize


def where_promised(field: str, what: str) -> Callable[[VmSize | None], str]:
    """Return the ``applies`` of a check of something that a size has by this field: a number, or a tuple of facts.

    :param what: how people call it.
    """

    def applies(size: VmSize | None) -> str:
        if size is None:
            return ""
        value = getattr(size, field)
        if value is None:
            return f"nobody says what {size.name} has of {what}"
        return "" if value else f"{size.name} has no {what}"

    return applies
