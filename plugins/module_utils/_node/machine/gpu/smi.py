# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The driver through nvidia-smi, for machines without nvidia-ml-py.

nvidia-smi says less than NVML, and says it in words: a setting that the GPU does not support is "treated as warning",
with exit status 0 and "All done." at the end, so the words decide and not the status.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..pci import canonical_busid
from ..run import Result, Run
from .facts import (
    DEPRECATED,
    LOST,
    MISMATCH,
    NO_ANSWER,
    NO_DRIVER,
    NO_PERMISSION,
    NOT_SUPPORTED,
    UNKNOWN,
    GpuError,
    GpuFacts,
    facts_of,
)
from .health import GpuHealth, NvLinks
from .smi_health import FORMAT as _FORMAT
from .smi_health import read_health, read_links
from .smi_health import rows_of as _rows

_FIELDS = (
    "index",
    "uuid",
    "pci.bus_id",
    "name",
    "mig.mode.current",
    "persistence_mode",
    "clocks.max.memory",
    "clocks.max.graphics",
    "clocks.applications.memory",
    "clocks.applications.graphics",
    "clocks.default_applications.memory",
    "clocks.default_applications.graphics",
    "clocks.current.memory",
    "clocks.current.graphics",
)
_SWITCHES = {"enabled": True, "disabled": False}
# What nvidia-smi says, in order: the first that fits decides.
_WORDS = (
    (NO_PERMISSION, re.compile(r"insufficient permissions|does not have permission", re.IGNORECASE)),
    (DEPRECATED, re.compile(r"functionality has been deprecated", re.IGNORECASE)),
    (NOT_SUPPORTED, re.compile(r"not supported", re.IGNORECASE)),
    (LOST, re.compile(r"gpu is lost|unable to determine the device handle", re.IGNORECASE)),
    (MISMATCH, re.compile(r"driver/library version mismatch", re.IGNORECASE)),
    (NO_DRIVER, re.compile(r"couldn't communicate with the nvidia driver|driver not loaded", re.IGNORECASE)),
)
_OPTIONS = {
    "set_persistence": "--persistence-mode={}",
    "set_application": "--applications-clocks={},{}",
    "reset_application": "--reset-applications-clocks",
    "lock_graphics": "--lock-gpu-clocks={0},{0}",
    "unlock_graphics": "--reset-gpu-clocks",
    "lock_memory": "--lock-memory-clocks={0},{0}",
    "unlock_memory": "--reset-memory-clocks",
}


class SmiDriver:
    """The driver through the command nvidia-smi.

    :param run: runs a command with a limit; exit status 124 says that it did not end in time.
    :param pci: PCI addresses of the machine's GPUs in their order.
    """

    via = "nvidia-smi"

    def __init__(self, run: Run, pci: Sequence[str]) -> None:
        self._run = run
        self._pci = tuple(pci)
        self._busids: dict[int, str] = {}

    def read(self, only: Collection[int] = ()) -> tuple[GpuFacts, ...]:
        """Return all GPUs, or only these; those that cannot be read have ``problem`` set."""
        query = [f"--query-gpu={','.join(_FIELDS)}", _FORMAT]
        try:
            rows = _rows(self._ask(*query))
            problems: dict[str, GpuError] = {}
        except GpuError as error:
            # One GPU that is lost may silence the whole answer. Ask for each by itself then.
            if error.kind != LOST or not self._pci:
                raise
            rows, problems = self._read_each(query)
        supported = self._supported()
        found = {gpu.busid: gpu for gpu in (_facts(row, supported) for row in rows)}
        numbered = list(self._pci) if set(found) <= set(self._pci) else list(found)
        self._busids = {index: busid for index, busid in enumerate(numbered) if busid}
        return tuple(
            found.get(busid) or _unread(index, busid, problems.get(busid or ""))
            for index, busid in enumerate(numbered)
            if not only or index in only
        )

    def _read_each(self, query: Sequence[str]) -> tuple[list[list[str]], dict[str, GpuError]]:
        rows: list[list[str]] = []
        problems: dict[str, GpuError] = {}
        for busid in self._pci:
            try:
                rows += _rows(self._ask(f"--id={busid}", *query))
            except GpuError as error:
                problems[busid] = error
        return rows, problems

    def _supported(self) -> dict[str, dict[int, list[int]]]:
        """Return for each UUID the graphics clocks of each memory clock, as far as nvidia-smi says."""
        found: dict[str, dict[int, list[int]]] = {}
        answer = self._run(["nvidia-smi", "--query-supported-clocks=gpu_uuid,memory,graphics", _FORMAT])
        for row in _rows(answer.stdout):
            if len(row) == 3 and row[1].isdecimal() and row[2].isdecimal():
                found.setdefault(row[0], {}).setdefault(int(row[1]), []).append(int(row[2]))
        return found

    def health(self, only: Collection[int] = ()) -> tuple[GpuHealth, ...]:
        """Return the health of all GPUs, or only of these; those that cannot be read have ``problem`` set."""
        return tuple(gpu for gpu in read_health(self._ask, self._pci) if not only or gpu.index in only)

    def links(self, only: Collection[int] = ()) -> tuple[NvLinks, ...]:
        """Return the NVLinks of all GPUs, or only of these."""
        return tuple(links for links in read_links(self._ask) if not only or links.index in only)

    def inforoms(self, only: Collection[int] = ()) -> dict[int, bool | str | None]:
        """nvidia-smi compares no checksums unless it runs into a wrong one: it cannot be told."""
        return dict.fromkeys(only or range(len(self._pci)))

    def processes(self) -> dict[int, tuple[str, ...]] | None:
        """Return for each process that computes on GPUs the PCI addresses of these; None if that cannot be told."""
        used: dict[int, list[str]] = {}
        try:
            answer = self._ask("--query-compute-apps=pid,gpu_bus_id", _FORMAT)
        except GpuError:
            return None
        for row in _rows(answer):
            busid = canonical_busid(row[1]) if len(row) == 2 else None
            if busid is None or not row[0].isdecimal():
                return None
            if busid not in used.setdefault(int(row[0]), []):
                used[int(row[0])].append(busid)
        return {pid: tuple(busids) for pid, busids in used.items()}

    def versions(self) -> tuple[str, str]:
        """Return the driver's version, empty where no GPU or a lost one keeps it; never the library's."""
        try:
            rows = self._ask("--query-gpu=driver_version", _FORMAT).split()
        except GpuError as error:
            if error.kind != LOST:
                raise
            rows = []
        return next((row for row in rows if row[:1].isdecimal()), ""), ""

    def change(self, what: str, index: int, *values: int) -> None:
        """Change a GPU."""
        # Addresses stay when a GPU is lost; numbers may not.
        self._ask(f"--id={self._busids.get(index, index)}", _OPTIONS[what].format(*values))

    def close(self) -> None:
        """Nothing is held."""

    def _ask(self, *arguments: str) -> str:
        """Return what nvidia-smi says.

        :raises GpuError: it failed, did not answer, or says that it did not do what it was asked to.
        """
        result = self._run(["nvidia-smi", *arguments])
        if result.rc == 124:
            raise GpuError(NO_ANSWER, f"nvidia-smi: {result.stderr.strip()}")
        refused = _refusal(result, reading=any(argument.startswith(("--query", "nvlink")) for argument in arguments))
        if refused:
            raise refused
        return result.stdout


def _refusal(result: Result, reading: bool) -> GpuError | None:
    lines = [line.strip() for line in f"{result.stdout}\n{result.stderr}".splitlines() if line.strip()]
    if reading and result.rc == 0:
        # "[Not Supported]" is the value of a field there, not an answer to the whole.
        lines = [line for line in lines if line.lower().startswith("unable to determine the device handle")]
    elif reading and "No devices were found" in lines:
        return None
    for kind, words in _WORDS:
        said = next((line for line in lines if words.search(line)), None)
        if said:
            return GpuError(kind, f"nvidia-smi: {said}")
    if result.rc:
        return GpuError(UNKNOWN, f"nvidia-smi: {lines[0] if lines else f'exit status {result.rc}'}")
    return None


def _unread(index: int, busid: str | None, error: GpuError | None) -> GpuFacts:
    problem = (str(error), error.kind) if error else ("nvidia-smi does not show it", UNKNOWN)
    return GpuFacts(index=index, busid=busid, problem=problem[0], problem_kind=problem[1])


def _facts(row: Sequence[str], supported: Mapping[str, Mapping[int, Sequence[int]]]) -> GpuFacts:
    value = dict(zip(_FIELDS, row))
    if len(row) != len(_FIELDS) or not value["index"].isdecimal():
        raise GpuError(UNKNOWN, f"nvidia-smi answered something else than {len(_FIELDS)} fields: {', '.join(row)}")
    lost = next((field for field in row if field.lower() == "[gpu is lost]"), None)
    busid = canonical_busid(value["pci.bus_id"])
    if lost:
        return _unread(int(value["index"]), busid, GpuError(LOST, "nvidia-smi: GPU is lost"))
    application = _pair(value, "clocks.applications")
    read: dict[str, Any] = {
        "index": int(value["index"]),
        "uuid": value["uuid"],
        "busid": busid,
        "name": value["name"],
        "mig": _SWITCHES.get(value["mig.mode.current"].lower()),
        "mig_instances": (),
        "persistence": _SWITCHES.get(value["persistence_mode"].lower()),
        "supported": supported.get(value["uuid"], {}),
        "highest": _pair(value, "clocks.max"),
        "application": application if application and None not in application else None,
        "application_reason": None if application else f"nvidia-smi: {value['clocks.applications.graphics']}",
        "default": _pair(value, "clocks.default_applications"),
        "current": _pair(value, "clocks.current"),
        "slowed": None,
    }
    return facts_of(read)


def _pair(value: Mapping[str, str], name: str) -> list[int | None] | None:
    memory, graphics = (value[f"{name}.{which}"] for which in ("memory", "graphics"))
    pair = [int(text) if text.isdecimal() else None for text in (memory, graphics)]
    return None if pair == [None, None] else pair
