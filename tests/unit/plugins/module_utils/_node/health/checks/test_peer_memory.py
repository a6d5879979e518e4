# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPUDirect RDMA: through the module, through DMA-BUF, not at all, not to be told."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.peer_memory import CHECK
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size

from ..playing import context

CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 09:35:42 UTC 2024\n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.90.07  Release Build\n"


def put(root: Path, driver: str = "", **modules: str) -> Path:
    """A machine with a driver and modules in a state."""
    if driver:
        (root / "proc/driver/nvidia").mkdir(parents=True)
        (root / "proc/driver/nvidia/version").write_text(driver, encoding="ascii")
    for name, state in modules.items():
        (root / f"sys/module/{name}").mkdir(parents=True)
        (root / f"sys/module/{name}/initstate").write_text(f"{state}\n", encoding="ascii")
    return root


@pytest.mark.parametrize("module", ["nvidia_peermem", "nv_peer_mem"])
def test_passes_with_the_module(tmp_path: Path, module: str) -> None:
    answer = CHECK.measure(context(root=put(tmp_path, CLOSED, **{module: "live"})))
    assert (answer.findings, [one.value for one in answer.readings]) == ((), [module])


def test_passes_with_the_open_driver(tmp_path: Path) -> None:
    answer = CHECK.measure(context(root=put(tmp_path, OPEN, ib_uverbs="live")))
    assert (answer.findings, [one.value for one in answer.readings]) == ((), ["dmabuf"])


@pytest.mark.parametrize("modules", [{}, {"nvidia_peermem": "coming", "ib_uverbs": "live"}])
def test_fails_to_be_good_without_either(tmp_path: Path, modules: dict[str, str]) -> None:
    (found,) = CHECK.measure(context(root=put(tmp_path, CLOSED, **modules))).findings
    assert found.verdict == "warn"
    assert found.summary.startswith("nvidia_peermem is not loaded")


def test_cannot_measure_without_a_driver(tmp_path: Path) -> None:
    assert [found.verdict for found in CHECK.measure(context(root=tmp_path)).findings] == ["unknown"]


def test_applies_where_nvidia_and_infiniband_meet() -> None:
    assert CHECK.applies(find_size("Standard_ND96asr_v4")) == ""
    assert CHECK.applies(None) == ""
    for size in ("Standard_NC96ads_A100_v4", "Standard_ND96isr_MI300X_v5", "Standard_ND96is_H100_v5"):
        assert CHECK.applies(find_size(size)) != ""
