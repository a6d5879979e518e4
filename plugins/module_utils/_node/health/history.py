# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What earlier runs of a check wrote down: counters to compare with, the last time something was seen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


class History:
    """The values that a check keeps between its runs, plain JSON. They are forgotten when the machine restarts, unless
    kept ``for_good``.

    :ivar changed: what was kept in this run: (key, value, for good) of each; the engine writes it down.
    """

    def __init__(self, kept: Mapping[str, Any] | None = None) -> None:
        self._kept = dict(kept or {})
        self.changed: dict[str, tuple[Any, bool]] = {}

    def get(self, key: str) -> Any:
        """Return what the last run of this check kept under this key; None if there is nothing."""
        return self._kept.get(key)

    def keep(self, key: str, value: Any, for_good: bool = False) -> None:
        """Keep a value for the next run; None to forget it. Written when the check has ended.

        :raises TypeError: it is no JSON.
        """
        # As the next run will read it: a tuple is a list then, and a number as a key is a word.
        self._kept[key] = json.loads(json.dumps(value))
        self.changed[key] = (self._kept[key], for_good)
