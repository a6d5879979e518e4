# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan for a GPU's clocks, from facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu import Clocks, GpuFacts
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.clocks import ClockOptions, GpuPlan, Lock, plan

SUPPORTED = {1215: tuple(range(1410, 209, -15))}
A100 = GpuFacts(
    index=0,
    uuid="GPU-0",
    busid="0001:00:00.0",
    name="NVIDIA A100-SXM4-40GB",
    mig=False,
    persistence=True,
    supported=SUPPORTED,
    highest=Clocks(1215, 1410),
    application=Clocks(1215, 1095),
    default=Clocks(1215, 1095),
    current=Clocks(1215, 1095),
    slowed=False,
)
WITHOUT_APPLICATION = replace(A100, application=None, default=None, application_reason="deprecated")
UNLOCKED = Lock()
LOCKED_AT_MAXIMUM = Lock(graphics=1410, memory_refused="Not Supported")


def actions(made: GpuPlan) -> list[str]:
    """The planned changes, as text."""
    return [str(action) for action in made.actions]


def planned(gpu: GpuFacts = A100, recorded: Lock | None = UNLOCKED, **options: Any) -> GpuPlan:
    """Plan the clocks of a GPU."""
    return plan(gpu, recorded, ClockOptions(**options))


def test_application_clocks_are_preferred_and_reported() -> None:
    made = planned()
    assert (made.method, made.target) == ("application", Clocks(1215, 1410))
    assert actions(made) == ["set_application 1215 1410"]
    assert made.reasons == ("application clocks are memory 1215 MHz, graphics 1095 MHz",)


def test_nothing_is_done_to_a_gpu_that_is_at_its_maximum() -> None:
    made = planned(replace(A100, application=Clocks(1215, 1410)))
    assert (actions(made), made.reasons) == ([], ())
    assert made.recorded is True


def test_unknown_locks_are_removed_because_they_would_take_precedence() -> None:
    made = planned(replace(A100, application=Clocks(1215, 1410)), recorded=None)
    assert actions(made) == ["unlock_graphics", "unlock_memory"]
    assert made.reasons == ("whether clocks are locked cannot be read",)
    assert (made.recorded, made.after) == (False, Lock())


def test_clocks_are_locked_if_there_are_no_application_clocks() -> None:
    made = planned(WITHOUT_APPLICATION)
    assert (made.method, actions(made)) == ("locked", ["lock_graphics 1410", "lock_memory 1215"])
    assert made.after == Lock(graphics=1410, memory=1215)
    assert [action.may_lack for action in made.actions] == [False, True]


def test_a_recorded_lock_needs_no_change() -> None:
    made = planned(replace(WITHOUT_APPLICATION, current=Clocks(1215, 1410)), LOCKED_AT_MAXIMUM)
    assert (actions(made), made.recorded, made.after, made.doubts) == ([], True, LOCKED_AT_MAXIMUM, ())


def test_another_recorded_lock_is_replaced() -> None:
    made = planned(replace(WITHOUT_APPLICATION, current=Clocks(1215, 1005)), Lock(1005, 1215))
    assert actions(made) == ["lock_graphics 1410", "lock_memory 1215"]
    assert made.reasons == ("our record says memory 1215 MHz, graphics 1005 MHz",)


def test_the_method_can_be_chosen() -> None:
    assert actions(planned(method="locked")) == ["lock_graphics 1410", "lock_memory 1215"]
    made = planned(WITHOUT_APPLICATION, method="application")
    assert (made.unsupported, actions(made)) == ("application clocks: deprecated", [])


def test_refused_application_clocks_are_not_tried_again() -> None:
    made = planned(recorded=replace(LOCKED_AT_MAXIMUM, application_refused="Not Supported"))
    assert (made.method, actions(made)) == ("locked", [])


def test_default_resets_application_and_locked_clocks() -> None:
    made = planned(replace(A100, application=Clocks(1215, 1410)), LOCKED_AT_MAXIMUM, state="default")
    assert actions(made) == ["reset_application", "unlock_graphics", "unlock_memory"]
    assert (made.target, made.method, made.after) == (None, None, Lock())


@pytest.mark.parametrize("persistence", [True, False, None])
def test_default_needs_no_change_if_nothing_is_set(persistence: bool | None) -> None:
    # A driver that forgets its settings leaves an unlocked GPU unlocked.
    made = planned(replace(A100, persistence=persistence), state="default")
    assert (actions(made), made.recorded, made.doubts) == ([], True, ())


@pytest.mark.parametrize(
    ("gpu", "words"),
    [
        (replace(WITHOUT_APPLICATION, persistence=False), "persistence mode is off"),
        (replace(WITHOUT_APPLICATION, current=Clocks(1215, 1425)), "graphics clock is 1425 MHz, above"),
    ],
)
def test_a_recorded_lock_that_cannot_be_true_is_set_again(gpu: GpuFacts, words: str) -> None:
    made = planned(gpu, LOCKED_AT_MAXIMUM)
    assert actions(made) == ["lock_graphics 1410", "lock_memory 1215"]
    assert words in made.reasons[-1]


@pytest.mark.parametrize(("slowed", "doubts"), [(False, 1), (True, 0), (None, 0)])
def test_a_clock_below_the_lock_is_reported_only_without_a_slowdown(slowed: bool | None, doubts: int) -> None:
    made = planned(replace(WITHOUT_APPLICATION, current=Clocks(1215, 300), slowed=slowed), LOCKED_AT_MAXIMUM)
    assert (actions(made), len(made.doubts)) == ([], doubts)


@pytest.mark.parametrize(
    ("is_on", "requested", "expected"),
    [
        (True, None, []),
        (False, None, []),
        (True, True, []),
        (False, True, ["set_persistence 1"]),
        (True, False, ["set_persistence 0"]),
        (None, True, []),
    ],
)
def test_persistence_mode_is_switched_first_and_on_request(
    is_on: bool | None, requested: bool | None, expected: list[str]
) -> None:
    made = planned(replace(A100, persistence=is_on), persistence=requested)
    assert actions(made) == [*expected, "set_application 1215 1410"]


def test_a_persistence_mode_that_cannot_be_read_is_reported() -> None:
    assert (
        "does not report its persistence mode" in planned(replace(A100, persistence=None), persistence=True).doubts[0]
    )


def test_explicit_clocks_use_the_highest_memory_clock_by_default() -> None:
    gpu = replace(A100, supported={2619: (1980, 1965), 1593: (1980, 1200)}, highest=Clocks(2619, 1980))
    assert planned(gpu, state="explicit", graphics_mhz=1965).target == Clocks(2619, 1965)
    assert planned(gpu, state="explicit", memory_mhz=1593, graphics_mhz=1200).target == Clocks(1593, 1200)
    assert planned(gpu, state="explicit", memory_mhz=1593).target == Clocks(1593, 1980)


def test_a_memory_clock_below_the_highest_must_be_locked() -> None:
    gpu = replace(WITHOUT_APPLICATION, supported={2619: (1980, 1965), 1593: (1980, 1200)}, highest=Clocks(2619, 1980))
    insisted = planned(gpu, state="explicit", memory_mhz=1593, graphics_mhz=1200)
    assert [(str(action), action.may_lack) for action in insisted.actions][1] == ("lock_memory 1593", False)
    highest = planned(gpu, state="explicit", memory_mhz=2619, graphics_mhz=1965)
    assert [(str(action), action.may_lack) for action in highest.actions][1] == ("lock_memory 2619", True)


@pytest.mark.parametrize(
    ("clocks", "words"),
    [
        ({"graphics_mhz": 1400}, "1400 MHz is not a graphics clock of GPU 0 (0001:00:00.0) at memory 1215 MHz"),
        ({"graphics_mhz": 1400}, "the nearest are 1395 and 1410"),
        ({"graphics_mhz": 2000}, "the nearest is 1410"),
        ({"graphics_mhz": 100}, "the nearest is 210"),
        ({"memory_mhz": 1000}, "1000 MHz is not a memory clock of GPU 0 (0001:00:00.0): the nearest is 1215"),
    ],
)
def test_unsupported_clocks_are_refused_with_the_nearest_ones(clocks: dict[str, Any], words: str) -> None:
    made = plan(A100, UNLOCKED, ClockOptions(state="explicit", **clocks))
    assert made.problem
    assert words in made.problem
    assert actions(made) == []


def test_a_gpu_that_cannot_be_read_is_left_alone() -> None:
    made = planned(GpuFacts(index=3, problem="GPU is lost"))
    assert (made.problem, actions(made)) == ("GPU is lost", [])


def test_a_gpu_without_a_list_of_clocks_is_a_problem() -> None:
    made = planned(GpuFacts(index=3, persistence=True, application_reason="Not Supported"))
    assert made.problem == "the driver does not list the clocks of GPU 3"
