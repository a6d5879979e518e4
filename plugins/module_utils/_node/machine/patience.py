# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Waiting for what comes by itself, with an end."""

from __future__ import annotations

import time
from typing import Callable


def wait_until(done: Callable[[], bool], seconds: float, pause_s: float = 1.0) -> bool:
    """Look until ``done`` says so, at least once, and for no longer than ``seconds``; return what it said last."""
    deadline = time.monotonic() + seconds
    while not done():
        rest = deadline - time.monotonic()
        if rest <= 0:
            return False
        time.sleep(min(pause_s, rest))
    return True
