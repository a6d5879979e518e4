# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Commands that may hang, each with its own limit: a file system whose servers are gone answers to nobody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable

from ...machine.run import Result

Bounded = Callable[[Sequence[str], float], Result]
"""Runs a command for so many seconds at most, as machine/run.py does; tests pass a recorded one."""


def said(result: Result) -> str:
    """Return what a command said last, for the message that names it."""
    lines = (result.stderr.strip() or result.stdout.strip()).splitlines()
    return lines[-1].strip() if lines else f"exit status {result.rc}"
