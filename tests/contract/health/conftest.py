# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node with eight GPUs and a stand-in driver, simulated on this machine in separate namespaces."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator

import pytest
from stand_ins.gpu_machine import GpuMachine, build
from stand_ins.played_node import PlayedNode

SIZE = "Standard_ND96asr_v4"


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder with the stand-in for NVML."""
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def gpus(tmp_path: pathlib.Path, library: pathlib.Path) -> GpuMachine:
    """The GPUs of the node: their settings, and the calls of the driver."""
    return GpuMachine(tmp_path / "driver", library)


@pytest.fixture
def node(tmp_path: pathlib.Path, gpus: GpuMachine) -> Iterator[PlayedNode]:
    """The node, with a known VM size."""
    if os.geteuid():
        pytest.skip("only root can play a node in namespaces")
    (tmp_path / "node").mkdir()
    played = PlayedNode(tmp_path / "node", SIZE, "health_checks")
    played.environment = {"LD_LIBRARY_PATH": str(gpus.library), "NVML_STAND_IN": str(gpus.gpus)}
    played.write("/etc/hpcai/node.json", f'{{"schema": 1, "vm_size": "{SIZE}"}}')
    yield played
    played.end()
