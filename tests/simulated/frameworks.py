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
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.suite import SUITES

from .cluster import REPOSITORY, Cluster

VARIABLE = "HPCAI_TORCH_FILES"
MISSING = f"no PyTorch: {VARIABLE} names no folder with its wheels (pip download torch numpy -d FOLDER)"
PYTHON = "/opt/frameworks/python"
"""On a node: an interpreter that finds the packages."""
_OPTIONAL = ("deepspeed", "megatron_core")
_PYTHONS = {"311": "bookworm", "313": "trixie"}
"""Which suite has this Python."""
UNUSED = ("torch/test", "torch/lib/*.a", "torch/bin/protoc*")
"""Paths of installed packages that no training reads: a third of PyTorch, with its headers."""
_HEADERS = "torch/include"


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


def install(cluster: Cluster, address: str, packages: Path, headers: bool = False) -> None:
    """Copy the packages to a node, with an interpreter that finds them.

    The test is skipped if they are for another Python.

    :param headers: whether trainings compile with PyTorch's headers.
    """
    theirs = cluster.ssh(address, "python3 -c 'import sys; print(*sys.version_info[:2], sep=str())'").strip()
    if theirs not in _pythons_of(packages):
        pytest.skip(f"{VARIABLE} has no PyTorch for the nodes' Python {theirs[0]}.{theirs[1:]}")
    key = ["-i", str(cluster.state / "id_ed25519"), "-o", "UserKnownHostsFile=/dev/null"]
    key += ["-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR"]
    folder = f"{PYTHON.rpartition('/')[0]}/packages"
    unpack = f"sudo mkdir -p {folder} && sudo tar -x -C {folder}"
    left_out = [f"--exclude=./{path}" for path in (*UNUSED, *(() if headers else (_HEADERS,)))]
    with subprocess.Popen(["tar", "-c", "-C", str(packages), *left_out, "."], stdout=subprocess.PIPE) as tar:
        subprocess.run(["ssh", *key, f"azureuser@{address}", unpack], stdin=tar.stdout, check=True, timeout=600)
    text = f'#!/bin/sh\nPYTHONPATH={folder} exec python3 "$@"\n'
    cluster.ssh(address, f"printf %s {shlex.quote(text)} | sudo tee {PYTHON} && sudo chmod 755 {PYTHON}")


def suite_of(folder: Path) -> str:
    """Return the suite whose Python the installed PyTorch is for; skip the test if there is none."""
    built = _pythons_of(folder)
    found = [_PYTHONS[python] for python in built if python in _PYTHONS]
    if not found or found[0] not in SUITES:
        pytest.skip(f"{VARIABLE} has PyTorch for Python {', '.join(built)}, which no simulated node has")
    return found[0]


def _pythons_of(folder: Path) -> list[str]:
    """Return the versions of Python that the installed PyTorch is for, as 311."""
    files = (folder / "torch").glob("_C.cpython-*.so")
    return sorted({path.name.split(".")[1].split("-")[1] for path in files})
