# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the trainers' loop decides without a framework; PyTorch itself is replaced."""

from __future__ import annotations

import importlib
import os
import pathlib
import socket
import sys
from types import ModuleType, SimpleNamespace
from unittest.mock import MagicMock

import pytest

TRAINERS = pathlib.Path(__file__).resolve().parents[6] / "roles/training/files/trainers"


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module harness of the trainers."""
    for name in ("torch", "torch.distributed", "torch.autograd", "torch.profiler"):
        monkeypatch.setitem(sys.modules, name, MagicMock())
    monkeypatch.syspath_prepend(str(TRAINERS))
    for name in ("harness", "measure"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    found = importlib.import_module("harness")
    for name in ("harness", "measure"):
        # Not for other tests: it has no PyTorch.
        monkeypatch.delitem(sys.modules, name)
    return found


def test_only_the_notice_of_this_node_ends_a_training(harness: ModuleType, tmp_path: pathlib.Path) -> None:
    """In a folder that all nodes see, an evicted node leaves its notice, and nothing removes it."""
    training = SimpleNamespace(
        args=SimpleNamespace(run=str(tmp_path), job=str(tmp_path)), rank=SimpleNamespace(local=0, node="c-0")
    )
    folder = tmp_path / ".hpcai-checkpoint"
    folder.mkdir()
    (folder / "notice-gone").touch()
    assert not harness.Training._notice(training)
    assert not (tmp_path / "notice-c-0").exists()
    (folder / f"notice-{socket.gethostname().partition('.')[0]}").touch()
    assert harness.Training._notice(training)
    assert (tmp_path / "notice-c-0").exists()
    training.rank.local = 1
    assert not harness.Training._notice(training)


def test_only_a_rank_of_mpirun_binds_itself_to_the_cpus_of_its_mask(
    harness: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """srun has bound its ranks, possibly to fewer CPUs."""
    before = os.sched_getaffinity(0)
    second = SimpleNamespace(rank=SimpleNamespace(local=1))
    monkeypatch.setenv("HPCAI_CPU_MASKS", f"{1 << min(before):x},{1 << max(before):x}")
    monkeypatch.delenv("OMPI_COMM_WORLD_RANK", raising=False)
    try:
        harness.Training._bind(second)
        assert os.sched_getaffinity(0) == before
        monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
        harness.Training._bind(second)
        assert os.sched_getaffinity(0) == {max(before)}
        monkeypatch.setenv("HPCAI_CPU_MASKS", "")
        harness.Training._bind(second)
        assert os.sched_getaffinity(0) == {max(before)}
    finally:
        os.sched_setaffinity(0, before)
