# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPUs for measurements with CUDA and cuBLAS: one stand-in for both libraries, with small matrices and copies."""

from __future__ import annotations

import functools
import pathlib
import subprocess
from collections.abc import Iterator, Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health import cuda
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.cpuset import CpuSet

BUILD = pathlib.Path(__file__).resolve().parents[5] / "stand_ins/cuda/build.sh"


class PlayedCuda:
    """GPUs that a settings file describes."""

    def __init__(self, file: pathlib.Path) -> None:
        self.file = file
        file.touch()

    def play(self, *settings: str) -> None:
        """Add settings: see tests/stand_ins/cuda/cuda.c."""
        with self.file.open("a", encoding="ascii") as file:
            file.writelines(f"{setting}\n" for setting in settings)

    @property
    def moved_to(self) -> list[str]:
        """Return the CPUs that processes were moved to, in order."""
        file = self.file.with_name("cuda.affinity")
        return file.read_text(encoding="ascii").splitlines() if file.exists() else []

    def gpus(self, busids: Sequence[str]) -> None:
        """Add GPUs."""
        self.play(*(f"gpu={busid}" for busid in busids))


def build(folder: pathlib.Path) -> pathlib.Path:
    """Build the stand-in."""
    done = subprocess.run([BUILD, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"the stand-in for CUDA could not be built:\n{done.stdout}{done.stderr}"
    return folder / "libcuda.so.1"


def use_stand_in(folder: pathlib.Path, built: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedCuda]:
    """Load the stand-in in place of each library."""
    load = cuda.load
    monkeypatch.setattr(cuda, "load", lambda *_names: load(str(built)))
    monkeypatch.setattr(cuda, "host_bandwidths", functools.partial(cuda.host_bandwidths, size=1 << 12))
    monkeypatch.setattr(cuda, "peer_bandwidths", functools.partial(cuda.peer_bandwidths, size=1 << 12))
    monkeypatch.setattr(cuda, "product_rate", functools.partial(cuda.product_rate, edge=64))
    monkeypatch.setenv("CUDA_STAND_IN", str(folder / "cuda.settings"))
    affinity = folder / "cuda.affinity"

    def move(_pid: int, cpus: CpuSet) -> None:
        with affinity.open("a", encoding="ascii") as file:
            file.write(f"{min(cpus)}-{max(cpus)}\n")

    # The machine that runs the tests may not have these CPUs.
    monkeypatch.setattr("os.sched_setaffinity", move)
    yield PlayedCuda(folder / "cuda.settings")
