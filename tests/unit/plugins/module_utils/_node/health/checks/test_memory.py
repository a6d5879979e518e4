# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Memory: as promised, less, more, not to be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import Answer
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.memory import CHECK
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import VmSize, find_size

from ..playing import ND_A100, context

PROMISED = find_size(ND_A100).memory_mib or 0
LEAST, MOST = PROMISED * 0.97, PROMISED * 1.03


def measure(root: Path, mib: float, size: str | VmSize = ND_A100, **settings: Any) -> Answer:
    """A machine with so much memory."""
    (root / "proc").mkdir()
    (root / "proc/meminfo").write_text(f"MemTotal:       {int(mib * 1024)} kB\nMemFree: 1 kB\n", encoding="ascii")
    return CHECK.measure(context(root=root, size=size, **settings))


@pytest.mark.parametrize("mib", [PROMISED, int(LEAST) + 1, int(MOST)])
def test_passes_within_the_deviation(tmp_path: Path, mib: int) -> None:
    answer = measure(tmp_path, mib)
    assert (answer.findings, answer.good) == ((), f"{mib} MiB of memory")
    assert answer.limit == f"{PROMISED} MiB within 3 % (azurehpc-health-checks, conf/<size>.conf)"


def test_fails_with_less(tmp_path: Path) -> None:
    (found,) = measure(tmp_path, int(LEAST)).findings
    assert found.verdict == "fail"
    assert found.summary == f"{int(LEAST)} MiB of memory are there, of {PROMISED} MiB that {ND_A100} has"


def test_more_is_worth_a_warning(tmp_path: Path) -> None:
    assert [found.verdict for found in measure(tmp_path, int(MOST) + 1).findings] == ["warn"]


def test_the_sites_own_limit_goes_first(tmp_path: Path) -> None:
    assert measure(tmp_path, PROMISED * 0.91, limits={"memory_deviation": 10}).findings == ()


@pytest.mark.parametrize(("mib", "verdicts"), [(899, ["fail"]), (900, []), (1100, []), (1101, ["warn"])])
def test_the_limits_themselves_are_good(tmp_path: Path, mib: int, verdicts: list[str]) -> None:
    described = VmSize("Standard_Mine", memory_mib=1000)
    found = measure(tmp_path, mib, described, limits={"memory_deviation": 10}).findings
    assert [one.verdict for one in found] == verdicts


def test_is_skipped_where_nobody_says_how_far(tmp_path: Path) -> None:
    described = VmSize("Standard_Mine", memory_mib=1024)
    assert "memory_deviation" in measure(tmp_path, 1, described).skipped


def test_cannot_measure_without_proc(tmp_path: Path) -> None:
    assert [found.verdict for found in CHECK.measure(context(root=tmp_path)).findings] == ["unknown"]
