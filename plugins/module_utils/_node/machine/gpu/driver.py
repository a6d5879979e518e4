# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Queries the GPUs' driver through NVML in a child process, because a call that hangs in the kernel cannot be ended."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Callable, TypeVar

from ..child import Child, Died, Overdue
from ..pci import read_pci
from ..root import Root
from .facts import DIED, NO_ANSWER, NOT_ASKED, GpuError, GpuFacts, facts_of
from .health import GpuHealth, NvLinks, health_of, links_of
from .nvml_health import open_session

LIMIT_S = 30.0
"""Timeout of one request to the driver. Without persistence mode, the first request initializes all GPUs."""

_SILENT_ENOUGH = 2
"""After this many consecutive GPUs without an answer, the driver counts as hanging, and the rest is not queried."""
_KILLED = f"signal {int(signal.SIGKILL)}"
"""Only another process sends this signal, such as the kernel if memory runs out."""


_Gpu = TypeVar("_Gpu", GpuFacts, GpuHealth)


Serve = Callable[[str, Sequence[Any]], Any]
"""Executes a request with its name and arguments; the result must be serializable as JSON."""


class Worker:
    """A child process that executes requests one after the other. The first request starts it, as does the first one
    after a failure.

    :param make: called in the child before its first request; an exception that it raises is the answer to the request.
    :param limit_s: timeout of a request in seconds.
    """

    def __init__(self, make: Callable[[], Serve], limit_s: float) -> None:
        self._make = make
        self._limit_s = limit_s
        self._child: Child | None = None
        self._requests = -1

    def ask(self, request: str, *arguments: Any) -> Any:
        """Send a request to the child, and return its answer.

        :raises GpuError: the child raised it; ``no_answer`` if it did not answer in time, ``died`` if it ended,
            ``not_asked`` if the child failed before the driver could answer.
        """
        child = self._child or self._start()
        line = json.dumps({"request": request, "arguments": arguments}).encode() + b"\n"
        try:
            # If the child has ended, the write fails; the missing answer then shows how it ended.
            with contextlib.suppress(BrokenPipeError):
                os.write(self._requests, line)
            answer = child.answer(self._limit_s)
        except Died as error:
            self._let_go(failed=True)
            if error.how == _KILLED:
                raise GpuError(NOT_ASKED, "the process that queried the driver was killed") from None
            words = f"the driver's library ended the process that called it ({error.how})"
            raise GpuError(DIED, words) from None
        except Overdue:
            self._let_go(failed=True)
            raise GpuError(NO_ANSWER, f"the driver did not answer within {self._limit_s:g} s") from None
        if "error" in answer:
            raise GpuError(*answer["error"])
        return answer["result"]

    def close(self) -> None:
        """End the child."""
        if self._child:
            self._let_go()

    def _start(self) -> Child:
        reads, self._requests = os.pipe()
        # If this process has no standard input, a pipe may have descriptor 0.
        kept = fcntl.fcntl(reads, fcntl.F_DUPFD_CLOEXEC, 3)
        try:
            self._child = Child(lambda: _answers(kept, self._make), kept)
        except BaseException:
            os.close(self._requests)
            raise
        finally:
            os.close(reads)
            os.close(kept)
        return self._child

    def _let_go(self, failed: bool = False) -> None:
        os.close(self._requests)
        child, self._child = self._child, None
        if child:
            child.close(failed)


def _answers(requests: int, make: Callable[[], Serve]) -> Iterator[Mapping[str, Any]]:
    """Run as the child: execute each request."""
    serve: Serve | None = None
    with os.fdopen(requests, encoding="utf-8") as lines:
        for line in lines:
            asked = json.loads(line)
            try:
                serve = serve or make()
                answer = {"result": serve(asked["request"], asked["arguments"])}
            except GpuError as error:
                answer = {"error": [error.kind, str(error)]}
            except Exception as error:
                answer = {"error": [NOT_ASKED, f"{type(error).__name__}: {error}: this is a defect of hpcnode"]}
            yield answer


class Driver:
    """The GPUs' driver. GPUs are identified by their index. Each method raises ``GpuError``.

    :ivar via: the interface to the driver: ``nvml``.
    """

    via = "nvml"

    def __init__(self, limit_s: float = LIMIT_S, pci: Sequence[str] = ()) -> None:
        """Prepare the worker; this makes no request.

        :param pci: PCI addresses of the GPUs in order, to find the address of a GPU that NVML cannot read.
        """
        self._worker = Worker(open_session, limit_s)
        self._pci = tuple(pci)

    def read(self, only: Collection[int] = ()) -> tuple[GpuFacts, ...]:
        """Return all GPUs, or only these; those that cannot be read have ``problem`` set.

        If two consecutive GPUs do not answer, the rest is not queried.
        """
        found = [
            GpuFacts(index=index, problem=str(answer), problem_kind=answer.kind)
            if isinstance(answer, GpuError)
            else facts_of(answer)
            for index, answer in self._each("read", only).items()
        ]
        return tuple(found) if only else tuple(self._seated(found))

    def health(self, only: Collection[int] = ()) -> tuple[GpuHealth, ...]:
        """Return the health of all GPUs, or only of these; those that cannot be read have ``problem`` set.

        If two consecutive GPUs do not answer, the rest is not queried.
        """
        found = [
            GpuHealth(index=index, problem=str(answer), problem_kind=answer.kind)
            if isinstance(answer, GpuError)
            else health_of(answer)
            for index, answer in self._each("health", only).items()
        ]
        return tuple(found) if only else tuple(self._seated(found))

    def links(self, only: Collection[int] = ()) -> tuple[NvLinks, ...]:
        """Return the NVLinks of all GPUs, or only of these; those that cannot be read have ``problem`` set."""
        return tuple(
            NvLinks(index, problem=str(answer)) if isinstance(answer, GpuError) else links_of(index, answer)
            for index, answer in self._each("links", only).items()
        )

    def inforoms(self, only: Collection[int] = ()) -> dict[int, bool | str | None]:
        """Return for each GPU whether its InfoROM is valid; None if unknown, an error text if the query failed."""
        answers = self._each("inforom", only)
        return {index: str(answer) if isinstance(answer, GpuError) else answer for index, answer in answers.items()}

    def _each(self, request: str, only: Collection[int]) -> dict[int, Any]:
        """Return each GPU's answer to a request, or its error."""
        answers: dict[int, Any] = {}
        for index in sorted(set(only)) if only else range(self._worker.ask("count")):
            last = list(answers.values())[-_SILENT_ENOUGH:]
            if len(last) == _SILENT_ENOUGH and all(isinstance(one, GpuError) and one.kind == NO_ANSWER for one in last):
                words = f"not queried, because the driver did not answer for the {_SILENT_ENOUGH} GPUs before it"
                answers[index] = GpuError(NO_ANSWER, words)
                continue
            try:
                answers[index] = self._worker.ask(request, index)
            except GpuError as error:
                answers[index] = error
        return answers

    def _seated(self, found: list[_Gpu]) -> list[_Gpu]:
        # NVML guarantees no order, but has so far numbered GPUs by PCI address: use it only if all readable GPUs match.
        if len(found) == len(self._pci) and all(gpu.busid in (None, busid) for gpu, busid in zip(found, self._pci)):
            return [replace(gpu, busid=busid) for gpu, busid in zip(found, self._pci)]
        return found

    def processes(self) -> dict[int, tuple[str, ...]] | None:
        """Return the PCI addresses of the GPUs that each compute process uses, by process id; None if that is unknown.

        Processes of a GPU that cannot be read are not included.
        """
        used: dict[int, list[str]] = {}
        for index in range(self._worker.ask("count")):
            try:
                pids = self._worker.ask("processes", index)
                busid = self._worker.ask("busid", index)
            except GpuError:
                continue
            if pids is None or busid is None:
                return None
            for pid in pids:
                used.setdefault(pid, []).append(busid)
        return {pid: tuple(busids) for pid, busids in used.items()}

    def change(self, what: str, index: int, *values: int) -> None:
        """Change a GPU: ``set_persistence`` (0, 1), ``set_application`` (memory MHz, graphics MHz),
        ``reset_application``, ``lock_graphics`` (MHz), ``unlock_graphics``, ``lock_memory`` (MHz), ``unlock_memory``.
        """
        self._worker.ask(what, index, *values)

    def versions(self) -> tuple[str, str]:
        """Return the versions of the driver and of the NVML library."""
        driver, library = self._worker.ask("versions")
        return driver, library

    def close(self) -> None:
        """End the worker."""
        self._worker.close()


def nvidia_gpus(root: Root) -> tuple[str, ...]:
    """Return the PCI addresses of the NVIDIA GPUs, in order."""
    return tuple(device.busid for device in read_pci(root) if device.is_gpu and device.vendor == 0x10DE)


def connect(root: Root, limit_s: float = LIMIT_S) -> Driver:
    """Return the driver of this machine.

    :raises GpuError: its library is missing, the driver is not loaded, or it does not answer.
    """
    driver = Driver(limit_s, nvidia_gpus(root))
    try:
        driver.versions()
    except GpuError:
        driver.close()
        raise
    return driver


_PROCESSES_LIMIT_S = 10.0


def compute_processes(root: Root, limit_s: float = _PROCESSES_LIMIT_S) -> Mapping[int, tuple[str, ...]] | None:
    """Return the PCI addresses, in Linux's format, of the GPUs that each compute process uses, by process id.

    A process on a MIG instance counts for the instance's GPU. The process ids are those of the machine's own namespace.
    A lost GPU is skipped.

    :param limit_s: timeout of one request to the driver in seconds.
    :return: None if unknown: no driver, no answer, or ``root`` is not this machine.
    """
    if not root.is_this_machine:
        return None
    try:
        driver = connect(root, limit_s)
    except GpuError:
        return None
    try:
        return driver.processes()
    except GpuError:
        return None
    finally:
        driver.close()
