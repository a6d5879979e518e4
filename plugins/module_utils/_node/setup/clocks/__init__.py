# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The GPUs' clocks: highest, explicit or default; set as application clocks or as locked clocks."""

from __future__ import annotations

from .ensure import Outcome, ensure
from .options import ARGUMENTS, CONFIG, ClockOptions, chosen, parse, read_options, write_options
from .plan import Action, GpuPlan, plan
from .record import JOBS_FOLDER, Lock, job_gpus, job_path, read_record, write_record

__all__ = [
    "ARGUMENTS",
    "CONFIG",
    "JOBS_FOLDER",
    "Action",
    "ClockOptions",
    "GpuPlan",
    "Lock",
    "Outcome",
    "chosen",
    "ensure",
    "job_gpus",
    "job_path",
    "parse",
    "plan",
    "read_options",
    "read_record",
    "write_options",
    "write_record",
]
