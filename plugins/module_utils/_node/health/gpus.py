# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The health of the machine's NVIDIA GPUs, read once through NVML for all checks of a run.

Whatever is asked is asked in a child process with a limit. A driver, or a GPU, that does not answer is asked once more;
if it does not answer then either, that is an answer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, TypeVar

from ..machine.gpu import Driver, GpuError, GpuFacts, GpuHealth, NvLinks, connect, nvidia_gpus
from ..machine.gpu.facts import NO_ANSWER, NO_LIBRARY
from ..machine.root import Root

LIMIT_S = 10.0
"""Seconds that one question may take: with persistence mode the driver answers in milliseconds, without it the first
question starts all the GPUs."""
CHECK_LIMIT_S = 2 * LIMIT_S + 8
"""Seconds that a check needs which may be the first to ask: twice the limit, and to give up who does not answer."""

_Answer = TypeVar("_Answer")
Connect = Callable[[Root, float], Driver]


class Gpus:
    """Reads at the first question. Each method raises ``GpuError`` (machine/gpu/facts.py) where the driver as a whole
    cannot be asked, and raises the same again at the next question.

    :param limit_s: seconds that one question to the driver may take.
    :param open_driver: finds the driver.
    """

    def __init__(self, root: Root, limit_s: float = LIMIT_S, open_driver: Connect = connect) -> None:
        self._root = root
        self._limit_s = limit_s
        self._open = open_driver
        self._driver: Driver | None = None
        self._known: dict[str, Any] = {}

    @property
    def limit_s(self) -> float:
        """Seconds that one question may take."""
        return self._limit_s

    def on_bus(self) -> tuple[str, ...]:
        """Return the PCI addresses of the NVIDIA GPUs that the bus shows, in their order; asks no driver."""
        return nvidia_gpus(self._root)

    def versions(self) -> tuple[str, str]:
        """Return the versions of the driver and of its library, the latter empty where it cannot be told."""
        return self._cached("versions", lambda driver: driver.versions())

    def all(self) -> tuple[GpuHealth, ...]:
        """Return the GPUs' health, by index; those that cannot be read have ``problem`` set."""
        return self._cached("health", _read_health)

    def readable(self) -> tuple[GpuHealth, ...]:
        """Return the health of those GPUs that could be read."""
        return tuple(gpu for gpu in self.all() if not gpu.problem)

    def links(self) -> tuple[NvLinks, ...]:
        """Return the state of the NVLinks of those GPUs that could be read."""
        indexes = [gpu.index for gpu in self.readable()]
        return self._cached("links", lambda driver: driver.links(indexes) if indexes else ())

    def inforoms(self) -> dict[int, bool | str | None]:
        """Return for each GPU that could be read whether its InfoROM is as it was written; None if that cannot be told,
        a text if asking failed."""
        indexes = [gpu.index for gpu in self.readable()]
        return self._cached("inforoms", lambda driver: driver.inforoms(indexes) if indexes else {})

    def facts(self) -> tuple[GpuFacts, ...]:
        """Return what ``gpu_clocks`` knows of the GPUs."""
        return self._cached("facts", lambda driver: driver.read())

    def close(self) -> None:
        """Let go of the driver."""
        if self._driver is not None:
            self._driver.close()
            self._driver = None

    def _cached(self, what: str, ask: Callable[[Driver], _Answer]) -> _Answer:
        if "driver" in self._known:
            raise self._known["driver"]
        if what not in self._known:
            try:
                self._known[what] = self._with_one_retry(ask)
            except GpuError as error:
                # Who did not answer twice is not asked again in this run, whatever the question.
                self._known["driver" if error.kind == NO_ANSWER else what] = error
        answer: _Answer | GpuError = self._known["driver" if "driver" in self._known else what]
        if isinstance(answer, GpuError):
            raise answer
        return answer

    def _with_one_retry(self, ask: Callable[[Driver], _Answer]) -> _Answer:
        try:
            return ask(self._connected())
        except GpuError as error:
            if error.kind != NO_ANSWER:
                raise
        return ask(self._connected())

    def _connected(self) -> Driver:
        if not self._root.is_this_machine:
            raise GpuError(NO_LIBRARY, f"{self._root.path} is not this machine: its driver cannot be asked")
        if self._driver is None:
            self._driver = self._open(self._root, self._limit_s)
        return self._driver


def _read_health(driver: Driver) -> tuple[GpuHealth, ...]:
    gpus = driver.health()
    silent = [gpu.index for gpu in gpus if gpu.problem_kind == NO_ANSWER]
    if not silent:
        return gpus
    again = {gpu.index: gpu for gpu in driver.health(silent)}
    return tuple(replace(again.get(gpu.index, gpu), busid=gpu.busid) for gpu in gpus)
