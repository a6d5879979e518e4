# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Simulators and inventory sources for the tests of the inventory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from simulator.testing import Simulator, running

from .clusters import CLUSTER
from .reading import Source
from .replacing import Controller


@pytest.fixture
def simulate(tmp_path: Path) -> Iterator[Callable[..., Source]]:
    """Start a simulator, and return an inventory source that reads it."""
    with ExitStack() as stack:
        count = 0

        def start(scenario: Mapping[str, Any] | None = None, **options: Any) -> Source:
            nonlocal count
            count += 1
            folder = tmp_path / f"source{count}"
            folder.mkdir()
            simulator = stack.enter_context(running(CLUSTER if scenario is None else scenario, **options))
            return Source(folder / "azure_vmss.yml", simulator)

        yield start


@pytest.fixture
def source(simulate: Callable[..., Source]) -> Source:
    """The inventory source of a cluster with one machine or scale set of each kind."""
    return simulate()


@pytest.fixture
def simulator(source: Source) -> Simulator:
    """The simulator that the source reads."""
    return source.simulator


@pytest.fixture
def controller(tmp_path: Path) -> Controller:
    """A controller whose nodes are idle, and without jobs."""
    return Controller(tmp_path / "bin")
