# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Carry out the plan for a GPU."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...machine.gpu import Driver, GpuError, GpuFacts
from .plan import APPLICATION, Action, GpuPlan, plan
from .record import Lock
from .wanted import Wanted


@dataclass(frozen=True)
class Done:
    """What became of a GPU.

    :ivar plan: the plan that was carried out; where application clocks were refused, the one for locked clocks.
    :ivar made: the changes that were made.
    :ivar record: what is known now of its locks; None where a failure left that open.
    :ivar unsupported: why the GPU or driver could not do it, in the driver's words.
    :ivar problem: what failed.
    """

    plan: GpuPlan
    made: tuple[Action, ...] = ()
    record: Lock | None = None
    unsupported: str | None = None
    problem: str | None = None


def apply(made: GpuPlan, driver: Driver, wanted: Wanted) -> Done:
    """Carry out a plan. Nothing is raised: what went wrong is in the answer, so that the other GPUs get their turn."""
    if made.problem:
        return Done(made, record=made.before, problem=made.problem)
    done: list[Action] = []
    after = made.after
    for action in made.actions:
        try:
            driver.change(action.what, made.gpu.index, *action.values)
            done.append(action)
        except GpuError as error:
            if not error.lacking:
                return Done(made, tuple(done), problem=f"{action.what}: {error}")
            if action.what == "set_application" and wanted.method == "auto":
                return _lock_instead(made, tuple(done), str(error), driver, wanted)
            if not action.may_lack:
                return Done(made, tuple(done), record=made.before, unsupported=f"{action.what}: {error}")
            if action.what == "lock_memory" and after:
                after = replace(after, memory=None, memory_refused=str(error))
    return Done(made, tuple(done), record=after, unsupported=made.unsupported)


def _lock_instead(made: GpuPlan, done: tuple[Action, ...], refused: str, driver: Driver, wanted: Wanted) -> Done:
    """Go on with locked clocks where the driver shows application clocks, but does not set them."""
    recorded = replace(made.before or Lock(), application_refused=refused)
    instead = plan(made.gpu, recorded, wanted)
    tried = {action.what for action in done}
    rest = tuple(action for action in instead.actions if action.what not in tried)
    then = apply(replace(instead, actions=rest), driver, wanted)
    return replace(then, made=(*done, *then.made))


def check(done: Done, gpu: GpuFacts) -> Done:
    """Compare what was set with what the driver shows afterwards."""
    if done.problem or done.unsupported or not done.made:
        return done
    if gpu.problem:
        return replace(done, record=None, problem=f"after the change: {gpu.problem}")
    wrong = None
    if done.plan.method == APPLICATION and gpu.application != done.plan.target:
        wrong = f"the driver took {done.plan.target} and has {gpu.application}"
    if done.plan.target is None and gpu.application is not None and gpu.application != gpu.default:
        wrong = f"the driver took the reset and still has {gpu.application}"
    return replace(done, problem=wrong) if wrong else done
