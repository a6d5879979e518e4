# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Plan the changes that bring a GPU's clocks to the wanted state. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...machine.gpu import Clocks, GpuFacts
from .options import ClockOptions
from .record import Lock

APPLICATION, LOCKED = "application", "locked"


@dataclass(frozen=True)
class Action:
    """A change of a GPU, named as in ``Driver.change``.

    :ivar may_lack: it is not a failure if the GPU or driver does not support this.
    """

    what: str
    values: tuple[int, ...] = ()
    may_lack: bool = False

    def __str__(self) -> str:
        return " ".join((self.what, *map(str, self.values)))


@dataclass(frozen=True)
class GpuPlan:
    """What to do to one GPU.

    :ivar gpu: the GPU as it is.
    :ivar method: ``application`` or ``locked``; None if neither is needed or possible.
    :ivar target: the clocks to set; None for the defaults.
    :ivar actions: the changes, in order.
    :ivar reasons: why each is needed.
    :ivar recorded: only our record says that (part of) the state needs no change; the driver does not show it.
    :ivar before: the GPU's locks according to our record; None if it has none, or cannot be trusted.
    :ivar after: the record after all changes.
    :ivar doubts: signs that the record may be wrong, without proof.
    :ivar unsupported: why the GPU or driver cannot do it, in the driver's words; then there is nothing to do.
    :ivar problem: why nothing can be done to this GPU.
    """

    gpu: GpuFacts
    method: str | None = None
    target: Clocks | None = None
    actions: tuple[Action, ...] = ()
    reasons: tuple[str, ...] = ()
    recorded: bool = False
    before: Lock | None = None
    after: Lock | None = None
    doubts: tuple[str, ...] = ()
    unsupported: str | None = None
    problem: str | None = None

    @property
    def fleeting(self) -> bool:
        """Whether the driver will forget the clocks when its last client leaves."""
        switched_on = Action("set_persistence", (1,)) in self.actions
        return self.gpu.persistence is False and not switched_on and self.target is not None


def plan(gpu: GpuFacts, recorded: Lock | None, options: ClockOptions) -> GpuPlan:
    """Return what to do to a GPU.

    :param recorded: its entry in the record for this load of the driver.
    """
    if gpu.problem:
        return GpuPlan(gpu, problem=gpu.problem)
    lock, distrust = _trusted(gpu, recorded)
    actions, reasons = _persistence(gpu, options)
    doubts = _doubts(gpu, lock, options)
    if options.state == "default":
        more, why = _undo(gpu, lock)
        return GpuPlan(
            gpu,
            actions=(*actions, *more),
            reasons=(*reasons, *why),
            recorded=not more,
            before=lock,
            after=Lock(),
            doubts=doubts,
        )
    target, problem = _target(gpu, options)
    if target is None:
        return GpuPlan(gpu, before=lock, problem=problem)
    refused = _application_refused(gpu, recorded, target)
    if options.method == APPLICATION and refused:
        return GpuPlan(
            gpu,
            APPLICATION,
            target,
            actions,
            reasons,
            before=lock,
            after=lock,
            doubts=doubts,
            unsupported=f"application clocks: {refused}",
        )
    if options.method == LOCKED or refused:
        method, after = LOCKED, Lock(target.graphics, target.memory, None, refused if gpu.application else None)
        more, why = _lock(lock, target, options, gpu)
    else:
        method, after = APPLICATION, Lock()
        more, why = _set_application(gpu, lock, target)
    return GpuPlan(
        gpu,
        method,
        target,
        actions=(*actions, *more),
        reasons=(*reasons, *why, *((distrust,) if more and distrust else ())),
        recorded=not any(action.what.startswith(("lock", "unlock")) for action in more),
        before=lock,
        after=lock if method == LOCKED and not more else after,
        doubts=doubts,
    )


def _trusted(gpu: GpuFacts, recorded: Lock | None) -> tuple[Lock | None, str | None]:
    """Return the record if it can be true, else None and the reason why not."""
    if recorded is None or not recorded.locked:
        # A driver can forget locks, but it cannot gain one by forgetting.
        return recorded, None
    if gpu.persistence is False:
        return None, "persistence mode is off: the driver forgets a lock when its last client leaves"
    for name, running, locked in (
        ("graphics", gpu.current.graphics, recorded.graphics),
        ("memory", gpu.current.memory, recorded.memory),
    ):
        if running is not None and locked is not None and running > locked:
            return None, f"the {name} clock is {running} MHz, above the recorded lock at {locked} MHz"
    return recorded, None


def _doubts(gpu: GpuFacts, lock: Lock | None, options: ClockOptions) -> tuple[str, ...]:
    found = []
    running = gpu.current.graphics
    if lock and lock.graphics and running and running < lock.graphics and gpu.slowed is False:
        found.append(
            f"{gpu.label} runs at {running} MHz, below the recorded lock at {lock.graphics} MHz, and the driver gives "
            f"no reason. Another program may have undone the lock. To be sure, run state=default, then this again."
        )
    if gpu.persistence is None and options.persistence is not None:
        found.append(f"{gpu.label} does not report its persistence mode, so it is left unchanged.")
    return tuple(found)


def _persistence(gpu: GpuFacts, options: ClockOptions) -> tuple[tuple[Action, ...], tuple[str, ...]]:
    if options.persistence is None or gpu.persistence in (None, options.persistence):
        return (), ()
    return (
        (Action("set_persistence", (int(options.persistence),)),),
        (f"persistence mode is {'on' if gpu.persistence else 'off'}",),
    )


def _unlock(lock: Lock | None) -> tuple[tuple[Action, ...], tuple[str, ...]]:
    if lock is not None and not lock.locked:
        return (), ()
    why = "our record says that clocks are locked" if lock else "whether clocks are locked cannot be read"
    return (Action("unlock_graphics", may_lack=True), Action("unlock_memory", may_lack=True)), (why,)


def _application_refused(gpu: GpuFacts, recorded: Lock | None, target: Clocks) -> str | None:
    """Return why application clocks cannot be used; None if they can."""
    if gpu.application is None:
        return gpu.application_reason or "the driver does not support them"
    if target.memory is None:
        return "the driver does not list its memory clocks"
    return recorded.application_refused if recorded else None


def _undo(gpu: GpuFacts, lock: Lock | None) -> tuple[tuple[Action, ...], tuple[str, ...]]:
    actions, reasons = _unlock(lock)
    if gpu.application is not None and gpu.application != gpu.default:
        actions = (Action("reset_application", may_lack=True), *actions)
        reasons = (f"application clocks are {gpu.application}; the default is {gpu.default}", *reasons)
    return actions, reasons


def _set_application(gpu: GpuFacts, lock: Lock | None, target: Clocks) -> tuple[tuple[Action, ...], tuple[str, ...]]:
    # A lock takes precedence over application clocks, whoever set it.
    actions, reasons = _unlock(lock)
    if gpu.application != target:
        actions = (Action("set_application", (target.memory or 0, target.graphics or 0)), *actions)
        reasons = (f"application clocks are {gpu.application}", *reasons)
    return actions, reasons


def _lock(
    lock: Lock | None, target: Clocks, options: ClockOptions, gpu: GpuFacts
) -> tuple[tuple[Action, ...], tuple[str, ...]]:
    memory_is = lock and (lock.memory == target.memory or lock.memory_refused)
    if lock and lock.graphics == target.graphics and (memory_is or target.memory is None):
        return (), ()
    actions = [Action("lock_graphics", (target.graphics or 0,))]
    if target.memory is not None:
        # GPUs with HBM have only one memory clock and refuse it. That is an error only if the user set another one.
        insisted = options.memory_mhz is not None and options.memory_mhz != gpu.highest.memory
        actions.append(Action("lock_memory", (target.memory,), may_lack=not insisted))
    if lock is None:
        return tuple(actions), ("our record has no lock",)
    return tuple(actions), (f"our record says {Clocks(lock.memory, lock.graphics) if lock.locked else 'unlocked'}",)


def _target(gpu: GpuFacts, options: ClockOptions) -> tuple[Clocks | None, str | None]:
    """Return the clocks to reach, or an error if they cannot be reached."""
    memory = options.memory_mhz or gpu.highest.memory
    if gpu.supported and memory not in gpu.supported:
        return None, f"{memory} MHz is not a memory clock of {gpu.label}: {_nearest(memory or 0, tuple(gpu.supported))}"
    graphics_clocks = gpu.supported.get(memory or 0, ())
    graphics = options.graphics_mhz or max(graphics_clocks, default=gpu.highest.graphics)
    if graphics is None:
        return None, f"the driver does not list the clocks of {gpu.label}"
    if graphics_clocks and graphics not in graphics_clocks:
        return None, (
            f"{graphics} MHz is not a graphics clock of {gpu.label} at memory {memory} MHz: "
            f"{_nearest(graphics, graphics_clocks)}"
        )
    return Clocks(memory, graphics), None


def _nearest(mhz: int, clocks: Sequence[int]) -> str:
    below = max((clock for clock in clocks if clock < mhz), default=None)
    above = min((clock for clock in clocks if clock > mhz), default=None)
    near = [str(clock) for clock in (below, above) if clock is not None]
    return f"the nearest {'is' if len(near) == 1 else 'are'} {' and '.join(near)}"
