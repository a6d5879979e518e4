# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Output of `hpcnode health run`."""

from __future__ import annotations

from typing import Any

TIME = "2026-11-22T16:40:00Z"
GPU = "0003:00:00.0"


def check(name: str = "gpu_count", **more: Any) -> dict[str, Any]:
    """A failed check with a hardware fault."""
    action, fault = more.pop("action", "replace"), more.pop("fault", "NHC2009")
    finding: dict[str, Any] = {
        "verdict": "fail",
        "summary": "7 of 8 GPUs",
        "device": GPU,
        "action": None,
        "fault": None,
    }
    finding |= {"cause": "node", "hint": "", "latch": False}
    return {
        "name": name,
        "verdict": "fail",
        "summary": "7 of 8 GPUs",
        "action": action,
        "fault": fault,
        "cause": "node",
        "findings": [finding],
        "readings": [],
        **more,
    }


def document(*checks: dict[str, Any], **node: Any) -> dict[str, Any]:
    """A run of the periodic tier."""
    described = {"name": "compute-3", "vm_id": "", "host": "LVL09prdapp12.example.net", **node}
    when = described.pop("time", TIME)
    return {
        "schema": 1,
        "command": "health",
        "tier": "periodic",
        "time": when,
        "node": described,
        "checks": list(checks),
    }
