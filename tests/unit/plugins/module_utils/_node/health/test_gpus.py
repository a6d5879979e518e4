# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The GPUs of a run: asked once for all checks, a second time who does not answer, and never a third."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.gpus import CHECK_LIMIT_S, Gpus
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu import GpuError, GpuHealth, NvLinks
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

from .gpu_playing import LOST, gpu

SILENT = GpuError("no_answer", "the driver did not answer within 3 s")
MUTE = {"problem": "no answer", "problem_kind": "no_answer"}


class PlayedDriver:
    """A driver that remembers what it was asked, and answers in turn."""

    via = "nvml"

    def __init__(self, **answers: list[Any]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, tuple[int, ...]]] = []
        self.closed = 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def answer(only: Collection[int] = ()) -> Any:
            self.asked.append((name, tuple(only)))
            found = self.answers[name].pop(0)
            if isinstance(found, GpuError):
                raise found
            return found

        return answer

    def close(self) -> None:
        """Count it."""
        self.closed += 1


def asking(driver: PlayedDriver, *opening: GpuError) -> Gpus:
    """The GPUs of a driver, which can be opened after so many errors."""
    errors = list(opening)

    def open_driver(root: Root, limit_s: float) -> Any:
        if errors:
            raise errors.pop(0)
        return driver

    return Gpus(Root("/"), 3.0, open_driver)


def test_each_question_is_asked_once() -> None:
    found = (gpu(0), gpu(1, **LOST))
    driver = PlayedDriver(health=[found], links=[(NvLinks(0),)], inforoms=[{0: True}], versions=[("550", "12")])
    gpus = asking(driver)
    for _again in range(3):
        assert (gpus.all(), gpus.readable()) == (found, found[:1])
        assert (gpus.links(), gpus.inforoms(), gpus.versions()) == ((NvLinks(0),), {0: True}, ("550", "12"))
    # Who is lost is not asked for more.
    assert driver.asked == [("health", ()), ("links", (0,)), ("inforoms", (0,)), ("versions", ())]
    gpus.close()
    gpus.close()
    assert driver.closed == 1


def test_where_no_gpu_can_be_read_none_is_asked_for_more() -> None:
    driver = PlayedDriver(health=[(gpu(0, **LOST),)])
    gpus = asking(driver)
    assert (gpus.links(), gpus.inforoms()) == ((), {})
    assert driver.asked == [("health", ())]


@pytest.mark.parametrize(
    ("second", "kind"), [(gpu(1), None), (GpuHealth(1, problem="no answer", problem_kind="no_answer"), "no_answer")]
)
def test_a_gpu_that_does_not_answer_is_asked_a_second_time(second: GpuHealth, kind: str | None) -> None:
    driver = PlayedDriver(health=[(gpu(0), gpu(1, **MUTE)), (second,)])
    found = asking(driver).all()
    assert [(one.index, one.busid, one.problem_kind) for one in found] == [
        (0, "0001:00:00.0", None),
        (1, "0002:00:00.0", kind),
    ]
    assert driver.asked == [("health", ()), ("health", (1,))]


def test_a_driver_that_answers_the_second_time_is_as_it_should_be() -> None:
    gpus = asking(PlayedDriver(health=[(gpu(0),)]), SILENT)
    assert len(gpus.all()) == 1


def test_a_driver_that_does_not_answer_twice_is_not_asked_again() -> None:
    driver = PlayedDriver(health=[(gpu(0),)], versions=[("550", "12")])
    gpus = asking(driver, SILENT, SILENT)
    for question in (gpus.all, gpus.versions, gpus.links, gpus.facts):
        with pytest.raises(GpuError, match="did not answer"):
            question()
    assert driver.asked == []


def test_silence_in_the_midst_of_it_ends_all_questions_too() -> None:
    driver = PlayedDriver(versions=[("550", "12")], health=[SILENT, SILENT])
    gpus = asking(driver)
    assert gpus.versions() == ("550", "12")
    for question in (gpus.all, gpus.versions):
        with pytest.raises(GpuError, match="did not answer"):
            question()
    assert len(driver.asked) == 3


def test_another_error_is_told_each_time_and_asked_for_once() -> None:
    refused = GpuError("driver_not_loaded", "it is not loaded")
    driver = PlayedDriver(versions=[("550", "12")])
    gpus = asking(driver, refused)
    for _again in range(2):
        with pytest.raises(GpuError, match="not loaded"):
            gpus.all()
    # It concerns that question only.
    assert gpus.versions() == ("550", "12")


def test_another_machines_files_have_no_driver() -> None:
    gpus = Gpus(Root("/nonexistent"))
    with pytest.raises(GpuError, match="/nonexistent is not the running machine"):
        gpus.all()
    assert gpus.on_bus() == ()


def test_a_check_has_the_time_for_a_driver_that_is_silent_twice() -> None:
    # Twice the limit, and what it takes to give up a child that cannot be killed.
    assert 2 * (Gpus(Root("/")).limit_s + 0.1 + 3) < CHECK_LIMIT_S
