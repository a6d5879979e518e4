# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What became of the GPUs, as results and as a diff."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...machine.gpu import Clocks, GpuFacts
from .apply import Done
from .plan import LOCKED, GpuPlan
from .record import Lock


def result(done: Done, gpu: GpuFacts) -> dict[str, Any]:
    """Return what is told of a GPU.

    :param gpu: the GPU as it is now.
    """
    plan = done.plan
    unsupported = done.unsupported or plan.unsupported
    problem = done.problem or plan.problem
    record = done.record
    return {
        "index": gpu.index,
        "uuid": gpu.uuid or plan.gpu.uuid,
        "busid": gpu.busid or plan.gpu.busid,
        "name": gpu.name or plan.gpu.name,
        "mig": gpu.mig,
        "mig_instances": list(gpu.mig_instances),
        "persistence": gpu.persistence,
        "changed": bool(done.made),
        "failed": bool(problem),
        "msg": problem,
        "supported": None if problem else not unsupported,
        "reason": _reason(plan, unsupported),
        "method": None if unsupported or problem else plan.method,
        "recorded": plan.recorded and not problem and not unsupported,
        "clocks": {
            "highest": _clocks(gpu.highest),
            "application": _clocks(gpu.application),
            "default_application": _clocks(gpu.default),
            "locked": _lock(record),
            "current": _clocks(gpu.current),
        },
        "memory_lock": _memory_lock(plan, record),
        "actions": [str(action) for action in done.made],
        "reasons": list(plan.reasons) if done.made else [],
    }


def _reason(plan: GpuPlan, unsupported: str | None) -> str | None:
    """Return the driver's words for all that it cannot do."""
    application = None
    if plan.method == LOCKED:
        application = plan.gpu.application_reason or (plan.after and plan.after.application_refused)
    parts = (f"application clocks: {application}" if application else None, unsupported)
    return "; ".join(part for part in parts if part) or None


def _memory_lock(plan: GpuPlan, record: Lock | None) -> str | None:
    """Return what became of the memory lock: ``locked``, or why the driver refused; None where none was wanted."""
    if plan.method != LOCKED or record is None:
        return None
    return record.memory_refused or ("locked" if record.memory else None)


def _clocks(clocks: Clocks | None) -> dict[str, int | None] | None:
    return None if clocks is None else {"memory_mhz": clocks.memory, "graphics_mhz": clocks.graphics}


def _lock(lock: Lock | None) -> dict[str, int | None] | None:
    return None if lock is None else {"memory_mhz": lock.memory, "graphics_mhz": lock.graphics}


def diff(plans: Sequence[GpuPlan]) -> dict[str, str]:
    """Return the change in the form of Ansible's diff: a few lines for each GPU that changes, nothing if none does."""
    changing = [plan for plan in plans if plan.actions and not plan.problem]
    if not changing:
        return {}
    return {
        "before": "".join(_before(plan) for plan in changing),
        "after": "".join(_after(plan) for plan in changing),
    }


def _before(plan: GpuPlan) -> str:
    locked = "unknown" if plan.before is None else _said(plan.before)
    return _lines(plan, _switch(plan.gpu.persistence), str(plan.gpu.application or "none"), locked, ())


def _after(plan: GpuPlan) -> str:
    switched = next((action.values[0] for action in plan.actions if action.what == "set_persistence"), None)
    persistence = plan.gpu.persistence if switched is None else bool(switched)
    application = plan.gpu.application
    if application is not None and plan.method != LOCKED:
        application = plan.target or plan.gpu.default
    locked = "unknown" if plan.after is None else _said(plan.after)
    return _lines(plan, _switch(persistence), str(application or "none"), locked, plan.reasons)


def _lines(plan: GpuPlan, persistence: str, application: str, locked: str, reasons: Sequence[str]) -> str:
    lines = [
        f"{plan.gpu.label}:",
        f"  persistence mode: {persistence}",
        f"  application clocks: {application}",
        f"  locked clocks: {locked}",
        *(f"  because {reason}" for reason in reasons),
    ]
    return "\n".join(lines) + "\n"


def _switch(on: bool | None) -> str:
    return "unknown" if on is None else "on" if on else "off"


def _said(lock: Lock) -> str:
    return str(Clocks(lock.memory, lock.graphics)) if lock.locked else "none"
