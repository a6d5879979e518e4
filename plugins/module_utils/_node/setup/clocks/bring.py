# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Bring the GPUs' clocks to what is wanted: read, plan, apply, check, record."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...machine.gpu import Driver, DriverLoad, GpuError, GpuFacts, nvidia_gpus, read_load
from ...machine.lock import only_one
from ...machine.root import Root
from .apply import Done, apply, check
from .plan import GpuPlan, plan
from .record import LOCK_PATH, Lock, read_record, write_record
from .report import diff, result
from .wanted import Wanted, chosen

_PATIENCE = 10
"""How long another run is waited for, in questions to the driver: it may meet GPUs that do not answer."""


@dataclass(frozen=True)
class Outcome:
    """What became of all the GPUs.

    :ivar via: how the driver was asked: ``nvml``.
    :ivar gpus: a result for each GPU that was meant.
    :ivar changed: whether any GPU was changed, or would be.
    :ivar problems: one line for each GPU that failed.
    :ivar warnings: what will not last, or is doubtful.
    :ivar diff: texts ``before`` and ``after``; empty where nothing changes.
    """

    via: str
    gpus: tuple[dict[str, Any], ...]
    changed: bool
    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    diff: Mapping[str, str]


def bring(root: Root, driver: Driver, wanted: Wanted, check_mode: bool = False) -> Outcome:
    """Bring the clocks to what is wanted; in check mode only say what that takes.

    :param root: where the record lies and the driver's load is read.
    :raises GpuError: the driver fails as a whole.
    :raises ValueError: the GPUs that are named do not exist.
    :raises Locked: another run changes clocks and does not come to an end.
    :raises OSError: the record cannot be written.
    """
    alone = only_one(root.at(LOCK_PATH), timeout_s=_PATIENCE * wanted.timeout)
    with contextlib.nullcontext() if check_mode else alone:
        gpus = driver.read()
        if not gpus:
            raise GpuError("not_found", "the driver knows no GPU: is this a GPU size, and does lspci show them?")
        meant = chosen(gpus, wanted.gpus)
        load = read_load(root)
        record = read_record(root, load)
        plans = [plan(gpu, record.get(gpu.uuid or ""), wanted) for gpu in meant]
        if check_mode:
            done = [Done(one, made=one.actions, record=one.before) for one in plans]
        else:
            done = [apply(one, driver, wanted) for one in plans]
            done, meant = _checked(done, meant, driver)
            _remember(root, load, record, done)
    return _outcome(driver.via, done, meant, wanted, _warnings(root, load, gpus, plans))


def _checked(done: list[Done], meant: tuple[GpuFacts, ...], driver: Driver) -> tuple[list[Done], tuple[GpuFacts, ...]]:
    """Look at the GPUs that were changed once more."""
    indices = [one.plan.gpu.index for one in done if one.made and not one.problem]
    if not indices:
        return done, meant
    now = {gpu.index: gpu for gpu in driver.read(indices)}
    looked = tuple(now.get(gpu.index, gpu) for gpu in meant)
    return [check(one, gpu) for one, gpu in zip(done, looked)], looked


def _remember(root: Root, load: DriverLoad | None, record: Mapping[str, Lock], done: list[Done]) -> None:
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
    there = len(nvidia_gpus(root))
    if there > len(gpus):
        warnings.append(f"there are {there} NVIDIA GPUs on the PCI bus, and the driver knows {len(gpus)}")
    if load is None:
        warnings.append(
            f"{root.at('/sys/module/nvidia')} is not there: no record of locked clocks can be kept, so that each run "
            f"sets them again"
        )
    return warnings


def _outcome(via: str, done: list[Done], gpus: tuple[GpuFacts, ...], wanted: Wanted, warnings: list[str]) -> Outcome:
    results, problems = [], []
    for one, gpu in zip(done, gpus):
        told = result(one, gpu)
        results.append(told)
        unsupported = None if told["supported"] in (None, True) else f"not supported: {told['reason']}"
        if told["failed"]:
            problems.append(f"{one.plan.gpu.label}: {told['msg']}")
        elif unsupported and wanted.on_unsupported == "fail":
            problems.append(f"{one.plan.gpu.label}: {unsupported}")
        elif unsupported:
            warnings.append(f"{one.plan.gpu.label}: {unsupported}")
    return Outcome(
        via=via,
        gpus=tuple(results),
        changed=any(told["changed"] for told in results),
        problems=tuple(problems),
        warnings=tuple(warnings),
        diff=diff([one.plan for one in done]),
    )
