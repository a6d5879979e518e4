# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""NVIDIA's nvbandwidth: run, with its devices by their PCI addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..check import UNKNOWN, Context, Finding
from ..parsers import nvbandwidth
from . import tools

FOLDERS = ("/opt/nvbandwidth", "/usr/local/nvbandwidth", "/opt/nvidia/nvbandwidth")

Values = Mapping[str, Mapping[tuple[str, str], float]]
"""GB/s of each test by the devices of row and column; a row that is the host has no name."""


def run(
    context: Context, path: str, tests: Sequence[str], busids: Sequence[str], within_s: float
) -> tuple[Values, list[Finding]]:
    """Run tests, and return what they measured and what is wrong.

    :param busids: the PCI addresses of the GPUs in their order, for versions that do not print them.
    """
    environment = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    result = tools.call(context, [path, "-t", *tests], within_s, environment)
    refused = tools.refusal(context, result, "nvbandwidth", within_s)
    if refused:
        return {}, [refused]
    printed, matrices = nvbandwidth.devices(result.stdout), nvbandwidth.matrices(result.stdout)
    found = []
    for test in tests:
        if test not in matrices:
            words = f"nvbandwidth printed no bandwidth of {test}: {tools.last_line(result)}"
            found.append(Finding(UNKNOWN, words, hint=f"Run it by hand: {path} -t {test}"))

    def name(number: int) -> str:
        return printed.get(number) or (busids[number] if number < len(busids) else f"GPU {number}")

    values = {
        test: {(name(row), name(column)): value for (row, column), value in matrix.items()}
        for test, matrix in matrices.items()
    }
    return values, found
