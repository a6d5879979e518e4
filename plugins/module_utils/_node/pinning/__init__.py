# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Processes against the machine's topology: is a job pinned well, and how should its ranks be started?

``layout`` what there is to pin to; ``select`` which processes; ``rank`` what belongs together; ``judge`` what is wrong,
in ``finding``'s terms; ``advise`` where ranks should run; ``launch`` the line that puts them there; ``check`` all of
that; ``report`` how it is reported.
"""

from __future__ import annotations
