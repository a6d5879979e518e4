# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Etags of scale sets: each change of a set gives it a new one, and a change that names an older one is refused."""

from __future__ import annotations

import hashlib

from flask import request

from simulator.arm.errors import ArmError
from simulator.resources import ScaleSet


def etag_of(scale_set: ScaleSet) -> str:
    """The etag of a scale set's current state, that is what a client can change: capacity, model, tags."""
    state = f"{scale_set.id} {scale_set.capacity} {scale_set.model_version} {sorted(scale_set.tags.items())}"
    return f'"{hashlib.sha256(state.encode()).hexdigest()[:16]}"'


def require_match(scale_set: ScaleSet) -> None:
    """Refuse the current request if it names another state of the set.

    :raises ArmError: 412, as for all resources of Resource Manager with If-Match.
    """
    wanted = request.headers.get("If-Match", "")
    if wanted and wanted != "*" and wanted != etag_of(scale_set):
        raise ArmError(412, "PreconditionFailed", f"The resource {scale_set.name} has another etag than {wanted}.")
