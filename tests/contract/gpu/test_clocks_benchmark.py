# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The benchmark of gpu_clocks runs, and counts correctly how often the driver is opened."""

from __future__ import annotations

import pathlib

from benchmarks import gpu_clocks


def test_the_module_opens_the_driver_once(tmp_path: pathlib.Path, library: pathlib.Path) -> None:
    results = gpu_clocks.compare(library, tmp_path, runs=1)
    opened = {(result.name, result.case): result.opened for result in results}
    assert opened["plain nvidia-smi commands", "sets"] == 17
    assert opened["plain nvidia-smi commands", "finds set"] == 9
    assert opened["gpu_clocks through NVML", "sets"] == opened["gpu_clocks through NVML", "finds set"] == 1
    assert "| gpu_clocks through NVML | sets | 1 |" in gpu_clocks.table(results)
    assert len(gpu_clocks.ratios(results)) == 2
