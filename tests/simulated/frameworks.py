# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""PyTorch, and DeepSpeed and Megatron Core if they are given: wheels from the folder that HPCAI_TORCH_FILES names.

The public index has no build of PyTorch for CPUs that is small enough for a test to download it. Without the variable,
tests that train are skipped with ``MISSING``.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .cluster import REPOSITORY

VARIABLE = "HPCAI_TORCH_FILES"
MISSING = f"no PyTorch: {VARIABLE} names no folder with its wheels (pip download torch numpy -d FOLDER)"
_OPTIONAL = ("deepspeed", "megatron_core")


def packages() -> Path:
    """Return a folder with the installed packages, for PYTHONPATH; skip the test if there are no wheels."""
    given = os.environ.get(VARIABLE, "")
    files = sorted(path for path in Path(given).iterdir() if path.suffix in (".whl", ".gz")) if given else []
    if not any(path.name.startswith("torch-") for path in files):
        pytest.skip(MISSING)
    listed = "\n".join(f"{path.name} {path.stat().st_size}" for path in files)
    folder = REPOSITORY / ".cache" / f"torch-{hashlib.sha256(listed.encode()).hexdigest()[:16]}"
    if not (folder / ".complete").exists():
        wanted = ["torch", "numpy", *(name for name in _OPTIONAL if any(path.name.startswith(name) for path in files))]
        words = ["install", "--quiet", "--no-index", "--no-build-isolation", "--find-links", given, "--upgrade"]
        subprocess.run([sys.executable, "-m", "pip", *words, "--target", str(folder), *wanted], check=True)
        (folder / ".complete").touch()
    return folder


def has(folder: Path, name: str) -> bool:
    """Return whether a package is among the installed ones."""
    return (folder / name).is_dir()
