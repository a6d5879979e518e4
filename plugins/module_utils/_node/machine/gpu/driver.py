# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The GPUs' driver, asked through NVML or else through nvidia-smi."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from ..pci import read_pci
from ..root import Root
from ..run import Run, run
from .facts import NO_ANSWER, NO_BINDINGS, NO_LIBRARY, GpuError, GpuFacts, facts_of
from .health import GpuHealth, NvLinks, health_of, links_of
from .nvml_health import open_session
from .smi import SmiDriver
from .worker import Worker

LIMIT_S = 30.0
"""Seconds that one question to the driver may take. Without persistence mode the first one starts all the GPUs."""

_SILENT_ENOUGH = 2
"""GPUs that do not answer one after the other: then it is the driver, and the others would only take their time too."""


_Gpu = TypeVar("_Gpu", GpuFacts, GpuHealth)


class Driver(Protocol):
    """What can be asked of the GPUs' driver. GPUs are named by their index.

    :ivar via: ``nvml`` or ``nvidia-smi``.

    Each method raises ``GpuError``.
    """

    via: str

    def read(self, only: Collection[int] = ()) -> tuple[GpuFacts, ...]:
        """Return all GPUs, or only these; those that cannot be read have ``problem`` set."""

    def health(self, only: Collection[int] = ()) -> tuple[GpuHealth, ...]:
        """Return the health of all GPUs, or only of these; those that cannot be read have ``problem`` set."""

    def links(self, only: Collection[int] = ()) -> tuple[NvLinks, ...]:
        """Return the NVLinks of all GPUs, or only of these; those that cannot be read have ``problem`` set."""

    def inforoms(self, only: Collection[int] = ()) -> dict[int, bool | str | None]:
        """Return for each GPU whether its InfoROM is as it was written; None if that cannot be told, a text if asking
        failed."""

    def processes(self) -> dict[int, tuple[str, ...]] | None:
        """Return for each process that computes on GPUs the PCI addresses of these; None if that cannot be told."""

    def versions(self) -> tuple[str, str]:
        """Return the versions of the driver and of the library, the latter empty where it cannot be told."""

    def change(self, what: str, index: int, *values: int) -> None:
        """Change a GPU: ``set_persistence`` (0, 1), ``set_application`` (memory MHz, graphics MHz),
        ``reset_application``, ``lock_graphics`` (MHz), ``unlock_graphics``, ``lock_memory`` (MHz), ``unlock_memory``.
        """

    def close(self) -> None:
        """Let go of the driver."""


class NvmlDriver:
    """The driver through NVML, in a child process."""

    via = "nvml"

    def __init__(self, limit_s: float = LIMIT_S, pci: Sequence[str] = ()) -> None:
        """Ask nothing yet.

        :param pci: PCI addresses of the GPUs in their order, to tell where a GPU sits that NVML cannot read.
        """
        self._worker = Worker(open_session, limit_s)
        self._pci = tuple(pci)

    def read(self, only: Collection[int] = ()) -> tuple[GpuFacts, ...]:
        """See ``Driver``. Where two GPUs in turn do not answer, the rest is not asked."""
        found = [
            GpuFacts(index=index, problem=str(answer), problem_kind=answer.kind)
            if isinstance(answer, GpuError)
            else facts_of(answer)
            for index, answer in self._each("read", only).items()
        ]
        return tuple(found) if only else tuple(self._seated(found))

    def health(self, only: Collection[int] = ()) -> tuple[GpuHealth, ...]:
        """See ``Driver``. Where two GPUs in turn do not answer, the rest is not asked."""
        found = [
            GpuHealth(index=index, problem=str(answer), problem_kind=answer.kind)
            if isinstance(answer, GpuError)
            else health_of(answer)
            for index, answer in self._each("health", only).items()
        ]
        return tuple(found) if only else tuple(self._seated(found))

    def links(self, only: Collection[int] = ()) -> tuple[NvLinks, ...]:
        """See ``Driver``."""
        return tuple(
            NvLinks(index, problem=str(answer)) if isinstance(answer, GpuError) else links_of(index, answer)
            for index, answer in self._each("links", only).items()
        )

    def inforoms(self, only: Collection[int] = ()) -> dict[int, bool | str | None]:
        """See ``Driver``."""
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
        """See ``Driver``. A GPU that cannot be read has no processes that anybody could tell of."""
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
        """See ``Driver``."""
        self._worker.ask(what, index, *values)

    def versions(self) -> tuple[str, str]:
        """See ``Driver``."""
        driver, library = self._worker.ask("versions")
        return driver, library

    def close(self) -> None:
        """See ``Driver``."""
        self._worker.close()


def nvidia_gpus(root: Root) -> tuple[str, ...]:
    """Return the PCI addresses of the NVIDIA GPUs, in their order."""
    return tuple(device.busid for device in read_pci(root) if device.is_gpu and device.vendor == 0x10DE)


def connect(root: Root, limit_s: float = LIMIT_S, run_command: Any = run) -> Driver:
    """Return the driver of this machine: through NVML, or through nvidia-smi where nvidia-ml-py or the library is
    missing.

    :raises GpuError: neither is there, the driver is not loaded, or it does not answer.
    """
    pci = nvidia_gpus(root)
    nvml = NvmlDriver(limit_s, pci)
    try:
        nvml.versions()
        return nvml
    except GpuError as error:
        nvml.close()
        if error.kind not in (NO_BINDINGS, NO_LIBRARY):
            raise
        first = error
    limited: Run = lambda command: run_command(command, timeout_s=limit_s)  # noqa: E731
    if not any(os.access(os.path.join(folder, "nvidia-smi"), os.X_OK) for folder in os.get_exec_path()):
        raise GpuError(
            first.kind, f"{first}, and there is no nvidia-smi: install NVIDIA's driver (is this a GPU size?)"
        )
    return SmiDriver(limited, pci)


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
