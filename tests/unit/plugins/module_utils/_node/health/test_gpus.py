# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The GPUs of a run: queried once for all checks, again only after a timeout, and never a third time."""

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
    """A stand-in for the driver, which records what it is asked, and gives the answers of a test in order."""

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
        """Count the calls."""
        self.closed += 1


def gpus_of(driver: PlayedDriver, *opening: GpuError) -> Gpus:
    """Return the GPUs of a driver, which fails with these errors before it can be opened."""
    errors = list(opening)

    def open_driver(root: Root, limit_s: float) -> Any:
        if errors:
            raise errors.pop(0)
        return driver

    return Gpus(Root("/"), 3.0, open_driver)


def test_each_question_is_asked_once() -> None:
    found = (gpu(0), gpu(1, **LOST))
    driver = PlayedDriver(health=[found], links=[(NvLinks(0),)], inforoms=[{0: True}], versions=[("550", "12")])
    gpus = gpus_of(driver)
    for _again in range(3):
        assert (gpus.all(), gpus.readable()) == (found, found[:1])
        assert (gpus.links(), gpus.inforoms(), gpus.versions()) == ((NvLinks(0),), {0: True}, ("550", "12"))
    # A lost GPU is not asked for more.
    assert driver.asked == [("health", ()), ("links", (0,)), ("inforoms", (0,)), ("versions", ())]
    gpus.close()
    gpus.close()
    assert driver.closed == 1


def test_gpus_that_cannot_be_read_are_not_asked_for_more() -> None:
    driver = PlayedDriver(health=[(gpu(0, **LOST),)])
    gpus = gpus_of(driver)
    assert (gpus.links(), gpus.inforoms()) == ((), {})
    assert driver.asked == [("health", ())]


@pytest.mark.parametrize(
    ("second", "kind"), [(gpu(1), None), (GpuHealth(1, problem="no answer", problem_kind="no_answer"), "no_answer")]
)
def test_a_gpu_that_does_not_answer_is_asked_a_second_time(second: GpuHealth, kind: str | None) -> None:
    driver = PlayedDriver(health=[(gpu(0), gpu(1, **MUTE)), (second,)])
    found = gpus_of(driver).all()
    assert [(one.index, one.busid, one.problem_kind) for one in found] == [
        (0, "0001:00:00.0", None),
        (1, "0002:00:00.0", kind),
    ]
    assert driver.asked == [("health", ()), ("health", (1,))]


def test_a_driver_that_answers_the_second_time_is_good() -> None:
    gpus = gpus_of(PlayedDriver(health=[(gpu(0),)]), SILENT)
    assert len(gpus.all()) == 1


def test_a_driver_that_does_not_answer_twice_is_not_asked_again() -> None:
    driver = PlayedDriver(health=[(gpu(0),)], versions=[("550", "12")])
    gpus = gpus_of(driver, SILENT, SILENT)
    for question in (gpus.all, gpus.versions, gpus.links, gpus.facts):
        with pytest.raises(GpuError, match="did not answer"):
            question()
    assert driver.asked == []


def test_a_driver_that_stops_answering_is_not_asked_again() -> None:
    driver = PlayedDriver(versions=[("550", "12")], health=[SILENT, SILENT])
    gpus = gpus_of(driver)
    assert gpus.versions() == ("550", "12")
    for question in (gpus.all, gpus.versions):
        with pytest.raises(GpuError, match="did not answer"):
            question()
    assert len(driver.asked) == 3


def test_another_error_is_raised_again_without_asking_again() -> None:
    refused = GpuError("driver_not_loaded", "it is not loaded")
    driver = PlayedDriver(versions=[("550", "12")])
    gpus = gpus_of(driver, refused)
    for _again in range(2):
        with pytest.raises(GpuError, match="not loaded"):
            gpus.all()
    # Other questions are not affected.
    assert gpus.versions() == ("550", "12")


def test_another_root_folder_has_no_driver() -> None:
    gpus = Gpus(Root("/nonexistent"))
    with pytest.raises(GpuError, match="/nonexistent is not the running machine"):
        gpus.all()
    assert gpus.on_bus() == ()


def test_a_checks_time_limit_covers_two_timeouts_of_the_driver() -> None:
    # Twice the timeout, and the time to give up a child process that cannot be killed.
    assert 2 * (Gpus(Root("/")).limit_s + 0.1 + 3) < CHECK_LIMIT_S
