# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fixtures for the tests of checks."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from ..kernel_log_playing import PlayedLog
from ..played_cuda import PlayedCuda, build, use_stand_in


@pytest.fixture(scope="session")
def built_cuda(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The stand-in for CUDA."""
    return build(tmp_path_factory.mktemp("cuda"))


@pytest.fixture
def cuda(tmp_path: pathlib.Path, built_cuda: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedCuda]:
    """GPUs that can be measured."""
    yield from use_stand_in(tmp_path, built_cuda, monkeypatch)


@pytest.fixture
def log(tmp_path: pathlib.Path) -> PlayedLog:
    """A machine whose kernel has logged no error."""
    return PlayedLog(tmp_path)
