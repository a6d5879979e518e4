# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The benchmark runs, and its contenders find the same threads. The test does not check times."""

from __future__ import annotations

import shutil

import pytest
from benchmarks.pinning import CONTENDERS, measure, table


@pytest.mark.skipif(not (shutil.which("ps") and shutil.which("taskset")), reason="there is no ps or no taskset")
def test_all_contenders_see_all_threads() -> None:
    times = measure(2, 3, 1)
    assert times.keys() == CONTENDERS.keys()
    assert table({(2, 3): times}).count("\n") == 2
