# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node in a temporary folder, which runs tiers of checks that tests make."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health import engine, state
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import (
    PERIODIC,
    TIERS,
    Answer,
    Check,
    Context,
    Reading,
    Result,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.measure import Machine
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.settings import Settings
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import run
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size

from .playing import ND_A100, NoGpus

BOOT_ID = "11111111-2222-3333-4444-555555555555"
GOOD = Answer("all is well", readings=(Reading("count", 8),))


class Node:
    """A node that runs checks."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.root = Root(str(folder))
        self.settings = Settings()
        self.size = find_size(ND_A100)
        self.unsized = False
        self.gpus: Callable[..., Any] = lambda _root: NoGpus()
        self.boot()

    def boot(self, boot_id: str = BOOT_ID) -> None:
        """Boot, and keep the content of /run, as some containers do."""
        self.write("/proc/sys/kernel/random/boot_id", f"{boot_id}\n")

    def write(self, path: str, text: str) -> None:
        """Write a file."""
        place = self.folder / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")

    def tier(self, *checks: Check, tier: str = PERIODIC, job: str = "") -> engine.TierRun:
        """Run checks."""
        size, problem = (None, "nobody says which size it has") if self.unsized else (self.size, "")
        machine = Machine(self.root, run, size, self.settings, problem, gpus=self.gpus)
        return engine.run_tier(tier, checks, machine, job)

    def one(self, check: Check, **given: Any) -> Result:
        """Run one check."""
        (result,) = self.tier(check, **given).results
        return result

    def stored_state(self) -> state.State:
        """Return the state that is stored between runs."""
        return state.read(self.root)


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Node:
    """A booted node."""
    return Node(tmp_path)


@pytest.fixture
def make_check() -> Callable[..., Check]:
    """Return a function that makes a check from a function or an answer."""

    def make(what: Callable[[Context], Answer] | Answer = GOOD, name: str = "demo", **given: Any) -> Check:
        measure = what if callable(what) else lambda _context: what
        manifest = {"title": f"Checks {name}", "explain": "Measures. No limit.", "tiers": TIERS, "limit_s": 20}
        return Check(name=name, measure=measure, **{**manifest, **given})

    return make
