#!/usr/bin/env python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds PyTorch on the compute nodes, or copies it there from HPCAI_TORCH_FILES:  pytorch.py ENDPOINT STATE ADDRESS...

Prints the interpreter that finds it. Without PyTorch, prints nothing, and one line on stderr that says what to set.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from simulated import frameworks
from simulated.cluster import Cluster


def interpreter(cluster: Cluster, addresses: list[str]) -> str:
    """Return an interpreter of the nodes that finds PyTorch. Raises pytest's Skipped if there is none."""
    for python in (frameworks.PYTHON, "python3"):
        test = f"{python} -c 'import torch' 2>/dev/null && echo found"
        if all(cluster.ssh(address, test, check=False).endswith("found\n") for address in addresses):
            return python
    packages = frameworks.packages()
    for address in addresses:
        frameworks.install(cluster, address, packages)
    return frameworks.PYTHON


def main() -> None:
    """Print the interpreter."""
    endpoint, state, first, *more = sys.argv[1:]
    try:
        sys.stdout.write(f"{interpreter(Cluster(endpoint, Path(state)), [first, *more])}\n")
    except pytest.skip.Exception as reason:
        sys.stderr.write(f"The training is left out: {reason.msg}\n")


if __name__ == "__main__":
    main()
