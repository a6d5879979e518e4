# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The health of the machine's NVIDIA GPUs, read once through NVML for all checks of a run.

Each query runs in a child process with a timeout. A driver or GPU that does not answer is queried a second time; if it
does not answer again, that is the result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, TypeVar

from ..machine.gpu import Driver, GpuError, GpuFacts, GpuHealth, NvLinks, connect, nvidia_gpus
from ..machine.gpu.facts import NO_ANSWER, NO_LIBRARY
from ..machine.root import Root

LIMIT_S = 10.0
"""Timeout of one query in seconds. With persistence mode the driver answers in milliseconds; without it, the first
query has to initialise all GPUs."""
CHECK_LIMIT_S = 2 * LIMIT_S + 8
"""Timeout in seconds of a check that may be the first to query: two query timeouts, and time to stop the child."""

_Answer = TypeVar("_Answer")
Connect = Callable[[Root, float], Driver]


class Gpus:
    """Reads each fact at the first query. Each method raises ``GpuError`` (machine/gpu/facts.py) if the driver as a
    whole cannot be queried, and raises the same error at later queries.

    :param limit_s: timeout of one query in seconds.
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
        """Timeout of one query in seconds."""
        return self._limit_s

    def on_bus(self) -> tuple[str, ...]:
        """Return the PCI addresses of the NVIDIA GPUs on the bus, in order, without the driver."""
        return nvidia_gpus(self._root)

    def versions(self) -> tuple[str, str]:
        """Return the versions of the driver and of its library; the latter is empty if it is not known."""
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
        """Return for each GPU that could be read whether its InfoROM is intact; None if that is not known, an error
        message if the query failed."""
        indexes = [gpu.index for gpu in self.readable()]
        return self._cached("inforoms", lambda driver: driver.inforoms(indexes) if indexes else {})

    def facts(self) -> tuple[GpuFacts, ...]:
        """Return the facts of the GPUs that ``gpu_clocks`` reads."""
        return self._cached("facts", lambda driver: driver.read())

    def close(self) -> None:
        """Close the driver."""
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
                # A driver that did not answer twice is not queried again in this run.
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
            raise GpuError(NO_LIBRARY, f"{self._root.path} is not the running machine: no driver can be queried")
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
