# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Empty simulated subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from simulator.testing import running

from .cloud import EMPTY, Azure


@pytest.fixture
def subscribe() -> Iterator[Callable[..., Azure]]:
    """Start an empty subscription."""
    with ExitStack() as opened:

        def start(**options: Any) -> Azure:
            return Azure(opened.enter_context(running(EMPTY, **options)))

        yield start


@pytest.fixture
def azure(subscribe: Callable[..., Azure]) -> Azure:
    """An empty subscription."""
    return subscribe()
