# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What goes wrong between us and the GPUs' driver."""

from __future__ import annotations

NOT_SUPPORTED = "not_supported"
DEPRECATED = "deprecated"
NO_FUNCTION = "function_not_found"
NO_PERMISSION = "no_permission"
LOST = "gpu_is_lost"
NO_DRIVER = "driver_not_loaded"
MISMATCH = "lib_rm_version_mismatch"
NO_LIBRARY = "library_not_found"
NO_BINDINGS = "no_bindings"
NO_ANSWER = "no_answer"
DIED = "died"
UNKNOWN = "unknown"

LACKING = (NOT_SUPPORTED, DEPRECATED, NO_FUNCTION)
"""The driver or the GPU does not have what was asked for; asking again will not help, and nothing is broken."""


class GpuError(RuntimeError):
    """The driver refused, failed or did not answer.

    :ivar kind: NVML's name of the error in small letters without its prefix (``gpu_is_lost``), or ``no_answer``,
        ``died`` (the library ended the process that called it), ``no_bindings`` (nvidia-ml-py is not installed).
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind

    @property
    def lacking(self) -> bool:
        """Whether the driver or GPU merely does not have what was asked for."""
        return self.kind in LACKING
