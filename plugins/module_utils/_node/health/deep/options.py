# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Options that checks of the deep tier have in common, for their manifests (``Check.options``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DISTURBING: Mapping[str, Any] = {"while_busy": False}
"""Of a check that must be alone: ``idle.must_be_idle`` asks for it."""
WITH_PROGRAM: Mapping[str, Any] = {**DISTURBING, "program": ""}
"""Of one that also runs a tool, which may lie elsewhere: ``tools.program_of`` asks for it."""
