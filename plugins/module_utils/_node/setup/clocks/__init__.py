# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The GPUs' clocks: highest, explicit or default, by application clocks or by locked clocks."""

from __future__ import annotations

from .boot import read_boot, set_boot
from .bring import Outcome, bring
from .plan import Action, GpuPlan, plan
from .record import Lock, read_record, write_record
from .wanted import CONFIG, METHODS, ON_UNSUPPORTED, STATES, Wanted, chosen, wanted_of

__all__ = [
    "CONFIG",
    "METHODS",
    "ON_UNSUPPORTED",
    "STATES",
    "Action",
    "GpuPlan",
    "Lock",
    "Outcome",
    "Wanted",
    "bring",
    "chosen",
    "plan",
    "read_boot",
    "read_record",
    "set_boot",
    "wanted_of",
    "write_record",
]
