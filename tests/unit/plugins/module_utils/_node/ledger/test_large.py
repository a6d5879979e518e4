# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A large cluster's ledger: seconds, and bounded memory. The limits are those of the documentation."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[6]


@pytest.mark.thorough
def test_a_hundred_thousand_runs_take_seconds_and_bounded_memory() -> None:
    """In a process of its own, because the memory of this one has the tests."""
    path = os.pathsep.join(str(REPOSITORY / name) for name in ("tests", ".collections"))
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.ledger", "json"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    print(found)
    assert (found["runs"], found["nodes"]) == (100_000, 600)
    assert found["difference_s"] < 1
    assert found["memory_mib"] < 256
    # CPU time: other work on the machine does not change it much.
    assert found["page_cpu_seconds"] < 5
    assert found["cpu_seconds"] < 10
