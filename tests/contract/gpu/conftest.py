# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Machines with eight GPUs, simulated by the stand-in for NVML."""

from __future__ import annotations

import pathlib

import pytest
from stand_ins.gpu_machine import GpuMachine, build


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The stand-in library of a driver before CUDA 14."""
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def newest_library(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The stand-in library without functions for application clocks, as in CUDA 14 and later."""
    return build(tmp_path_factory.mktemp("nvml14"), "-DWITHOUT_APPLICATION_CLOCKS")


@pytest.fixture
def machine(tmp_path: pathlib.Path, library: pathlib.Path) -> GpuMachine:
    """An ND96asr_v4: eight A100 with application clocks, persistence mode on."""
    played = GpuMachine(tmp_path, library)
    played.play(**{f"gpu__{index}__persistence": 1 for index in range(8)})
    return played
