# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Compares a job's processes with the machine's topology, and recommends how to start its ranks.

``layout``: the machine's CPUs and devices; ``select``: the processes; ``rank``: groups them into ranks; ``judge``:
problems as findings; ``finding``: the codes of findings; ``advise``: where ranks should run; ``launch``: the launch
line for that; ``check``: all of these; ``report``: the output.
"""

from __future__ import annotations
