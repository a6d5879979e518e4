# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The benchmark of nccl_topology runs. No test checks a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def test_the_benchmark_prints_a_row_for_each_contender() -> None:
    path = f"{REPOSITORY / 'tests'}:{REPOSITORY / '.collections'}"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.nccl_topology", "--repeat", "1"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    rows = done.stdout.splitlines()[2:]
    assert [row.split("|")[1].strip() for row in rows] == [
        "cp and echo",
        "python -c pass",
        "hpcnode's core, everything to write",
        "hpcnode's core, nothing to write",
        "an empty Ansible module",
        "the module, everything to write",
        "the module, nothing to write",
    ]
