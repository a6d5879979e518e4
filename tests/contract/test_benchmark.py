# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The benchmark runs, and counts requests and hosts correctly. No test checks a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.thorough

REPOSITORY = Path(__file__).parents[2]
# 121 instances of each kind: two pages of virtual machines (120 a page), two of interfaces (100 a page).
INSTANCES = 242
REQUESTS = 1 + 4 * 2 + 1
"""One page of scale sets, two pages each of virtual machines and interfaces of both kinds, one of virtual networks."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The results of a short run of the benchmark, by contender."""
    folder = tmp_path_factory.mktemp("results")
    command = [sys.executable, "-m", "benchmarks.inventory", "--no-azure-rm", "--latency", "0", "--repeat", "1"]
    subprocess.run(
        [*command, "--sizes", str(INSTANCES), "--slow-up-to", "0", "--results", str(folder)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "tests")},
        check=True,
        timeout=240,
    )
    (file,) = folder.glob("*.json")
    document = json.loads(file.read_text(encoding="utf-8"))
    return {result["contender"]: result for result in document["results"]}


@pytest.mark.parametrize("contender", ["azure_vmss", "SDK lists, one after the other", "SDK lists, 8 at a time"])
def test_the_inventory_makes_no_more_requests_than_lists(results: dict[str, dict[str, Any]], contender: str) -> None:
    assert results[contender]["requests"] == REQUESTS
    assert results[contender]["hosts"] == INSTANCES


@pytest.mark.parametrize("contender", ["azure_vmss, from its cache", "static file, JSON"])
def test_a_cached_inventory_makes_no_request(results: dict[str, dict[str, Any]], contender: str) -> None:
    assert results[contender]["requests"] == 0
    assert results[contender]["hosts"] == INSTANCES
