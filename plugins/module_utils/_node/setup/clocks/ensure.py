# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Bring the GPUs' clocks to the wanted state: read, plan, apply, check, record, report."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...machine.gpu import Clocks, Driver, DriverLoad, GpuError, GpuFacts, nvidia_gpus, read_load
from ...machine.lock import only_one
from ...machine.root import Root
from .options import ClockOptions, chosen
from .plan import APPLICATION, LOCKED, Action, GpuPlan, plan
from .record import LOCK_PATH, Lock, read_record, write_record

_TIMEOUT = 10
"""How long to wait for another run, as a multiple of the driver timeout: that run may meet GPUs that do not answer."""


@dataclass(frozen=True)
class Outcome:
    """The result for all GPUs.

    :ivar via: how the driver was queried, always ``nvml``.
    :ivar gpus: a result for each selected GPU.
    :ivar changed: whether any GPU was changed, or would be.
    :ivar problems: one line for each GPU that failed.
    :ivar warnings: settings that will not last, or are doubtful.
    :ivar diff: texts ``before`` and ``after``; empty if nothing changes.
    """

    via: str
    gpus: tuple[dict[str, Any], ...]
    changed: bool
    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    diff: Mapping[str, str]


def ensure(root: Root, driver: Driver, options: ClockOptions, check_mode: bool = False) -> Outcome:
    """Bring the clocks to the wanted state; in check mode only return the changes.

    :param root: where the record is, and where the driver's load is read.
    :raises GpuError: the driver fails completely.
    :raises ValueError: a named GPU does not exist.
    :raises Locked: another run is changing clocks and does not finish in time.
    :raises OSError: the record cannot be written.
    """
    alone = only_one(root.at(LOCK_PATH), timeout_s=_TIMEOUT * options.timeout)
    with contextlib.nullcontext() if check_mode else alone:
        gpus = driver.read()
        if not gpus:
            raise GpuError(
                "not_found", "the driver reports no GPU. Check that the VM size has GPUs and that lspci shows them"
            )
        meant = chosen(gpus, options.gpus)
        load = read_load(root)
        record = read_record(root, load)
        plans = [plan(gpu, record.get(gpu.uuid or ""), options) for gpu in meant]
        if check_mode:
            done = [GpuOutcome(one, made=one.actions, record=one.before) for one in plans]
        else:
            done = [apply(one, driver, options) for one in plans]
            done, meant = _checked(done, meant, driver)
            _record(root, load, record, done)
    return _outcome(driver.via, done, meant, options, _warnings(root, load, gpus, plans))


def _checked(
    done: list[GpuOutcome], meant: tuple[GpuFacts, ...], driver: Driver
) -> tuple[list[GpuOutcome], tuple[GpuFacts, ...]]:
    """Read the changed GPUs again."""
    indices = [one.plan.gpu.index for one in done if one.made and not one.problem]
    if not indices:
        return done, meant
    now = {gpu.index: gpu for gpu in driver.read(indices)}
    looked = tuple(now.get(gpu.index, gpu) for gpu in meant)
    return [_check(one, gpu) for one, gpu in zip(done, looked)], looked


def _record(root: Root, load: DriverLoad | None, record: Mapping[str, Lock], done: list[GpuOutcome]) -> None:
    if load is None:
        return
    fresh = dict(record)
    for one in done:
        uuid = one.plan.gpu.uuid
        if uuid and one.record is not None:
            fresh[uuid] = one.record
        elif uuid:
            fresh.pop(uuid, None)
    if fresh != record:
        write_record(root, load, fresh)


def _warnings(root: Root, load: DriverLoad | None, gpus: tuple[GpuFacts, ...], plans: list[GpuPlan]) -> list[str]:
    warnings = [doubt for one in plans for doubt in one.doubts]
    fleeting = [one.gpu.label for one in plans if one.fleeting]
    if fleeting:
        warnings.append(
            f"persistence mode is off on {', '.join(fleeting)}: the driver forgets clocks when its last client leaves. "
            f"Set persistence=true, or run nvidia-persistenced"
        )
    on_bus = len(nvidia_gpus(root))
    if on_bus > len(gpus):
        warnings.append(f"there are {on_bus} NVIDIA GPUs on the PCI bus, but the driver reports {len(gpus)}")
    if load is None:
        warnings.append(
            f"{root.at('/sys/module/nvidia')} does not exist, so locked clocks cannot be recorded and each run sets "
            f"them again"
        )
    return warnings


def _outcome(
    via: str, done: list[GpuOutcome], gpus: tuple[GpuFacts, ...], options: ClockOptions, warnings: list[str]
) -> Outcome:
    results, problems = [], []
    for one, gpu in zip(done, gpus):
        result = _result(one, gpu)
        results.append(result)
        unsupported = None if result["supported"] in (None, True) else f"not supported: {result['reason']}"
        if result["failed"]:
            problems.append(f"{one.plan.gpu.label}: {result['msg']}")
        elif unsupported and options.on_unsupported == "fail":
            problems.append(f"{one.plan.gpu.label}: {unsupported}")
        elif unsupported:
            warnings.append(f"{one.plan.gpu.label}: {unsupported}")
    return Outcome(
        via=via,
        gpus=tuple(results),
        changed=any(result["changed"] for result in results),
        problems=tuple(problems),
        warnings=tuple(warnings),
        diff=_diff([one.plan for one in done]),
    )


# Carry out the plan for one GPU.


@dataclass(frozen=True)
class GpuOutcome:
    """The result for one GPU.

    :ivar plan: the plan that was carried out; if application clocks were refused, the one for locked clocks.
    :ivar made: the changes that were made.
    :ivar record: what is known now about its locks; None if a failure left that unknown.
    :ivar unsupported: why the GPU or driver cannot do it, in the driver's words.
    :ivar problem: what failed.
    """

    plan: GpuPlan
    made: tuple[Action, ...] = ()
    record: Lock | None = None
    unsupported: str | None = None
    problem: str | None = None


def apply(made: GpuPlan, driver: Driver, options: ClockOptions) -> GpuOutcome:
    """Carry out a plan. Errors are returned, not raised, so that the other GPUs are handled too."""
    if made.problem:
        return GpuOutcome(made, record=made.before, problem=made.problem)
    done: list[Action] = []
    after = made.after
    for action in made.actions:
        try:
            driver.change(action.what, made.gpu.index, *action.values)
            done.append(action)
        except GpuError as error:
            if not error.lacking:
                return GpuOutcome(made, tuple(done), problem=f"{action.what}: {error}")
            if action.what == "set_application" and options.method == "auto":
                return _lock_instead(made, tuple(done), str(error), driver, options)
            if not action.may_lack:
                return GpuOutcome(made, tuple(done), record=made.before, unsupported=f"{action.what}: {error}")
            if action.what == "lock_memory" and after:
                after = replace(after, memory=None, memory_refused=str(error))
    return GpuOutcome(made, tuple(done), record=after, unsupported=made.unsupported)


def _lock_instead(
    made: GpuPlan, done: tuple[Action, ...], refused: str, driver: Driver, options: ClockOptions
) -> GpuOutcome:
    """Use locked clocks instead if the driver shows application clocks but refuses to set them."""
    recorded = replace(made.before or Lock(), application_refused=refused)
    instead = plan(made.gpu, recorded, options)
    tried = {action.what for action in done}
    rest = tuple(action for action in instead.actions if action.what not in tried)
    then = apply(replace(instead, actions=rest), driver, options)
    return replace(then, made=(*done, *then.made))


def _check(done: GpuOutcome, gpu: GpuFacts) -> GpuOutcome:
    """Compare the clocks that were set with those that the driver shows afterwards."""
    if done.problem or done.unsupported or not done.made:
        return done
    if gpu.problem:
        return replace(done, record=None, problem=f"after the change: {gpu.problem}")
    wrong = None
    if done.plan.method == APPLICATION and gpu.application != done.plan.target:
        wrong = f"the driver accepted {done.plan.target}, but shows {gpu.application}"
    if done.plan.target is None and gpu.application is not None and gpu.application != gpu.default:
        wrong = f"the driver accepted the reset, but still shows {gpu.application}"
    return replace(done, problem=wrong) if wrong else done


# The results for the GPUs as data and as a diff.


def _result(done: GpuOutcome, gpu: GpuFacts) -> dict[str, Any]:
    """Return the result for one GPU.

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
            "highest": _clocks_result(gpu.highest),
            "application": _clocks_result(gpu.application),
            "default_application": _clocks_result(gpu.default),
            "locked": _lock_result(record),
            "current": _clocks_result(gpu.current),
        },
        "memory_lock": _memory_lock(plan, record),
        "actions": [str(action) for action in done.made],
        "reasons": list(plan.reasons) if done.made else [],
    }


def _reason(plan: GpuPlan, unsupported: str | None) -> str | None:
    """Return the driver's words for everything that it cannot do."""
    application = None
    if plan.method == LOCKED:
        application = plan.gpu.application_reason or (plan.after and plan.after.application_refused)
    reasons = (f"application clocks: {application}" if application else None, unsupported)
    return "; ".join(reason for reason in reasons if reason) or None


def _memory_lock(plan: GpuPlan, record: Lock | None) -> str | None:
    """Return the state of the memory lock: ``locked``, or why the driver refused it; None if none was wanted."""
    if plan.method != LOCKED or record is None:
        return None
    return record.memory_refused or ("locked" if record.memory else None)


def _clocks_result(clocks: Clocks | None) -> dict[str, int | None] | None:
    return None if clocks is None else {"memory_mhz": clocks.memory, "graphics_mhz": clocks.graphics}


def _lock_result(lock: Lock | None) -> dict[str, int | None] | None:
    return None if lock is None else {"memory_mhz": lock.memory, "graphics_mhz": lock.graphics}


def _diff(plans: Sequence[GpuPlan]) -> dict[str, str]:
    """Return the change in the form of Ansible's diff: a few lines for each GPU that changes, nothing if none does."""
    changing = [plan for plan in plans if plan.actions and not plan.problem]
    if not changing:
        return {}
    return {
        "before": "".join(_before(plan) for plan in changing),
        "after": "".join(_after(plan) for plan in changing),
    }


def _before(plan: GpuPlan) -> str:
    locked = "unknown" if plan.before is None else _lock_words(plan.before)
    return _lines(plan, _persistence_words(plan.gpu.persistence), str(plan.gpu.application or "none"), locked, ())


def _after(plan: GpuPlan) -> str:
    switched = next((action.values[0] for action in plan.actions if action.what == "set_persistence"), None)
    persistence = plan.gpu.persistence if switched is None else bool(switched)
    application = plan.gpu.application
    if application is not None and plan.method != LOCKED:
        application = plan.target or plan.gpu.default
    locked = "unknown" if plan.after is None else _lock_words(plan.after)
    return _lines(plan, _persistence_words(persistence), str(application or "none"), locked, plan.reasons)


def _lines(plan: GpuPlan, persistence: str, application: str, locked: str, reasons: Sequence[str]) -> str:
    lines = [
        f"{plan.gpu.label}:",
        f"  persistence mode: {persistence}",
        f"  application clocks: {application}",
        f"  locked clocks: {locked}",
        *(f"  because {reason}" for reason in reasons),
    ]
    return "\n".join(lines) + "\n"


def _persistence_words(on: bool | None) -> str:
    return "unknown" if on is None else "on" if on else "off"


def _lock_words(lock: Lock) -> str:
    return str(Clocks(lock.memory, lock.graphics)) if lock.locked else "none"
