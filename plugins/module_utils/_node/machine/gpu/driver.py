# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The GPUs' driver, asked through NVML in a child process: a call that hangs sits in the kernel and cannot be ended."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Callable, TypeVar

from ..child import Child, Died, Overdue
from ..pci import read_pci
from ..root import Root
from .facts import DIED, NO_ANSWER, UNKNOWN, GpuError, GpuFacts, facts_of
from .health import GpuHealth, NvLinks, health_of, links_of
from .nvml_health import open_session

LIMIT_S = 30.0
"""Seconds that one question to the driver may take. Without persistence mode the first one starts all the GPUs."""

_SILENT_ENOUGH = 2
"""GPUs that do not answer one after the other: then it is the driver, and the others would only take their time too."""


_Gpu = TypeVar("_Gpu", GpuFacts, GpuHealth)


Serve = Callable[[str, Sequence[Any]], Any]
"""Carries out a request: its name and arguments; what it returns must go through JSON."""


class Worker:
    """A child process that carries out requests one after the other. The first one starts it, and so does the next one
    after it had to be given up.

    :param make: called in the child before its first request; what it raises is the answer to that request.
    :param limit_s: seconds a request may take.
    """

    def __init__(self, make: Callable[[], Serve], limit_s: float) -> None:
        self._make = make
        self._limit_s = limit_s
        self._child: Child | None = None
        self._requests = -1

    def ask(self, request: str, *arguments: Any) -> Any:
        """Return what the child answers.

        :raises GpuError: what the child raised; ``no_answer`` if it did not answer in time, ``died`` if it ended.
        """
        child = self._child or self._start()
        line = json.dumps({"request": request, "arguments": arguments}).encode() + b"\n"
        try:
            # One that has ended takes no request; the missing answer says how it ended.
            with contextlib.suppress(BrokenPipeError):
                os.write(self._requests, line)
            answer = child.answer(self._limit_s)
        except Died as error:
            self._let_go(failed=True)
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
        # Where we have no standard input, a pipe may have taken its number.
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
    """Be the child: carry out each request."""
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
                answer = {"error": [UNKNOWN, f"{type(error).__name__}: {error}"]}
            yield answer


class Driver:
    """The GPUs' driver. GPUs are named by their index. Each method raises ``GpuError``.

    :ivar via: how it is asked: ``nvml``.
    """

    via = "nvml"

    def __init__(self, limit_s: float = LIMIT_S, pci: Sequence[str] = ()) -> None:
        """Ask nothing yet.

        :param pci: PCI addresses of the GPUs in their order, to tell where a GPU sits that NVML cannot read.
        """
        self._worker = Worker(open_session, limit_s)
        self._pci = tuple(pci)

    def read(self, only: Collection[int] = ()) -> tuple[GpuFacts, ...]:
        """Return all GPUs, or only these; those that cannot be read have ``problem`` set.

        Where two GPUs in turn do not answer, the rest is not asked.
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

        Where two GPUs in turn do not answer, the rest is not asked.
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
        """Return for each GPU whether its InfoROM is as it was written; None if that cannot be told, a text if asking
        failed.
        """
        answers = self._each("inforom", only)
        return {index: str(answer) if isinstance(answer, GpuError) else answer for index, answer in answers.items()}

    def _each(self, request: str, only: Collection[int]) -> dict[int, Any]:
        """Return what each GPU answers to a request, an error where that is its answer."""
        answers: dict[int, Any] = {}
        for index in sorted(set(only)) if only else range(self._worker.ask("count")):
            last = list(answers.values())[-_SILENT_ENOUGH:]
            if len(last) == _SILENT_ENOUGH and all(isinstance(one, GpuError) and one.kind == NO_ANSWER for one in last):
                words = f"not asked, since the driver did not answer for the {_SILENT_ENOUGH} before it"
                answers[index] = GpuError(NO_ANSWER, words)
                continue
            try:
                answers[index] = self._worker.ask(request, index)
            except GpuError as error:
                answers[index] = error
        return answers

    def _seated(self, found: list[_Gpu]) -> list[_Gpu]:
        # NVML promises no order, and has so far numbered GPUs by PCI address: concluded only where all others agree.
        if len(found) == len(self._pci) and all(gpu.busid in (None, busid) for gpu, busid in zip(found, self._pci)):
            return [replace(gpu, busid=busid) for gpu, busid in zip(found, self._pci)]
        return found

    def processes(self) -> dict[int, tuple[str, ...]] | None:
        """Return for each process that computes on GPUs the PCI addresses of these; None if that cannot be told.

        A GPU that cannot be read has none.
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
        """Return the versions of the driver and of the library, the latter empty where it cannot be told."""
        driver, library = self._worker.ask("versions")
        return driver, library

    def close(self) -> None:
        """Let go of the driver."""
        self._worker.close()


def nvidia_gpus(root: Root) -> tuple[str, ...]:
    """Return the PCI addresses of the NVIDIA GPUs, in their order."""
    return tuple(device.busid for device in read_pci(root) if device.is_gpu and device.vendor == 0x10DE)


def connect(root: Root, limit_s: float = LIMIT_S) -> Driver:
    """Return the driver of this machine.

    :raises GpuError: its library is not there, the driver is not loaded, or it does not answer.
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
    """Return for each process that computes on GPUs the PCI addresses of these, in Linux's spelling.

    A process on a MIG instance counts for the GPU that the instance is part of. The process ids are those of the
    machine's own namespace. A GPU that is lost is passed over.

    :param limit_s: seconds that one question to the driver may take.
    :return: None where it cannot be told: no driver, no answer, or ``root`` is not this machine.
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
