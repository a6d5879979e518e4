# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Processes against the machine's topology: is a job pinned well, and how should its ranks be started?

``layout`` what there is to pin to; ``select`` which processes; ``rank`` what belongs together; ``judge_rank`` and
``judge_together`` what is wrong, in ``finding``'s terms; ``inspect`` all of that; ``advise`` where ranks should run;
``launch`` the line that puts them there; ``check`` the whole; ``report`` how it is told.
"""

from __future__ import annotations
