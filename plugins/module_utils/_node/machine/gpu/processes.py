# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Which processes compute on which GPUs."""

from __future__ import annotations

from collections.abc import Mapping

from ..root import Root
from .driver import connect
from .errors import GpuError

LIMIT_S = 10.0


def compute_processes(root: Root, limit_s: float = LIMIT_S) -> Mapping[int, tuple[str, ...]] | None:
    """Return for each process that computes on GPUs the PCI addresses of these, in Linux's spelling.

    A process on a MIG instance counts for the GPU that the instance is part of. The process ids are those of the
    machine's own namespace. A GPU that is lost is passed over.

    :param limit_s: seconds that one question to the driver may take.
    :return: None where it cannot be told: no driver, no answer, or ``root`` is not this machine.
    """
    if not root.is_this_machine:
        return None
    try:
        driver = connect(root, limit_s)
    except GpuError:
        return None
    try:
        return driver.processes()
    except GpuError:
        return None
    finally:
        driver.close()
