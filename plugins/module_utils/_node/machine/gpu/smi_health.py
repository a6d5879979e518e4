# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The GPUs' health through nvidia-smi, for machines without nvidia-ml-py. What it does not say stays unknown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..pci import canonical_busid
from .facts import LOST, UNKNOWN, GpuError
from .health import FABRIC_STATES, GpuHealth, NvLinks, health_of

Ask = Callable[..., str]
"""Runs nvidia-smi with arguments and returns what it prints; raises ``GpuError``."""

FORMAT = "--format=csv,noheader,nounits"
# Our name, nvidia-smi's name, what the value is. Drivers know different ones: what a driver refuses is left out.
_QUERY: tuple[tuple[str, str, str], ...] = (
    ("index", "index", "number"),
    ("uuid", "uuid", "text"),
    ("busid", "pci.bus_id", "text"),
    ("name", "name", "text"),
    ("serial", "serial", "text"),
    ("vbios", "vbios_version", "text"),
    ("persistence", "persistence_mode", "switch"),
    ("mig", "mig.mode.current", "switch"),
    ("reasons", "clocks_event_reasons.active", "bits"),
    ("temperature", "temperature.gpu", "number"),
    ("power", "power.draw", "decimal"),
    ("power_limit", "enforced.power.limit", "decimal"),
    ("power_default", "power.default_limit", "decimal"),
    ("graphics_mhz", "clocks.current.graphics", "number"),
    ("memory_mhz", "clocks.current.memory", "number"),
    ("memory_used", "memory.used", "decimal"),
    ("pcie.width", "pcie.link.width.current", "number"),
    ("pcie.generation", "pcie.link.gen.current", "number"),
    ("pcie.highest_width", "pcie.link.width.max", "number"),
    ("pcie.highest_generation", "pcie.link.gen.max", "number"),
    ("pcie.own_generation", "pcie.link.gen.gpumax", "number"),
    ("ecc.enabled", "ecc.mode.current", "switch"),
    *(
        (f"ecc.{where}_{kind}_{since}", f"ecc.errors.{kind}.{since}.{where}", "number")
        for where in ("sram", "dram")
        for kind in ("uncorrected", "corrected")
        for since in ("volatile", "aggregate")
    ),
    ("pages.single", "retired_pages.sbe", "number"),
    ("pages.double", "retired_pages.dbe", "number"),
    ("pages.pending", "retired_pages.pending", "switch"),
    ("fabric.state", "fabric.state", "text"),
    ("fabric.status", "fabric.status", "text"),
)
_OLDER = {"clocks_event_reasons.active": "clocks_throttle_reasons.active"}
_REFUSED = re.compile(r'Field "([^"]+)" is not a valid field')
_SWITCHES = {"enabled": True, "disabled": False, "yes": True, "no": False}
_ROWS = ("correctable", "uncorrectable", "pending", "failure")
_GPU_LINE = re.compile(r"^GPU (\d+):")
_LINK_LINE = re.compile(r"^\s+Link (\d+): (.*)$")


def rows_of(answer: str) -> list[list[str]]:
    """Return the fields of each line of CSV; a name of a GPU holds no comma."""
    return [[field.strip() for field in line.split(",")] for line in answer.splitlines() if "," in line]


def read_health(ask: Ask, pci: Sequence[str]) -> tuple[GpuHealth, ...]:
    """Return the health of all GPUs; those that cannot be read have ``problem`` set.

    :param pci: PCI addresses of the machine's GPUs in their order.
    """
    problems: dict[str, GpuError] = {}
    try:
        read = _query(ask)
    except GpuError as error:
        # One GPU that is lost may silence the whole answer. Ask for each by itself then.
        if error.kind != LOST or not pci:
            raise
        read = []
        for busid in pci:
            try:
                read += _query(ask, f"--id={busid}")
            except GpuError as own:
                problems[busid] = own
    rows, pids = _remapped(ask), _processes(ask)
    found = {one["busid"]: _health(one, rows, pids) for one in read}
    numbered = list(pci) if set(found) <= set(pci) else list(found)
    return tuple(found.get(busid) or _unread(at, busid, problems.get(busid)) for at, busid in enumerate(numbered))


def _unread(index: int, busid: str, error: GpuError | None) -> GpuHealth:
    error = error or GpuError(UNKNOWN, "nvidia-smi does not show it")
    return GpuHealth(index=index, busid=busid, problem=str(error), problem_kind=error.kind)


def _query(ask: Ask, *which: str) -> list[dict[str, Any]]:
    """Return what nvidia-smi says of each GPU, without the fields that this driver does not know."""
    wanted = {name: (asked, kind) for name, asked, kind in _QUERY}
    while True:
        try:
            said = ask(*which, f"--query-gpu={','.join(asked for asked, _kind in wanted.values())}", FORMAT)
            break
        except GpuError as error:
            refused = _REFUSED.search(str(error))
            name = next((name for name, (asked, _kind) in wanted.items() if refused and asked == refused[1]), None)
            if name is None:
                raise
            asked, kind = wanted.pop(name)
            if asked in _OLDER:
                wanted[name] = (_OLDER[asked], kind)
    return [_values(row, wanted) for row in rows_of(said)]


def _values(row: Sequence[str], wanted: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    if len(row) != len(wanted):
        raise GpuError(UNKNOWN, f"nvidia-smi answered something else than {len(wanted)} fields: {', '.join(row)}")
    if any(field.lower() == "[gpu is lost]" for field in row):
        raise GpuError(LOST, "nvidia-smi: GPU is lost")
    values = {name: _value(text, kind) for (name, (_asked, kind)), text in zip(wanted.items(), row)}
    return {**values, "busid": canonical_busid(values["busid"] or "")}


def _value(text: str, kind: str) -> Any:
    """Return a field's value; None for ``[N/A]`` and the like, and for what is none of its kind."""
    if text.startswith("[") or text in ("", "N/A"):
        return None
    if kind == "switch":
        return _SWITCHES.get(text.lower())
    convert: dict[str, Callable[[str], Any]] = {"number": int, "decimal": float, "bits": _bits, "text": str}
    try:
        return convert[kind](text)
    except ValueError:
        return None


def _bits(text: str) -> int:
    return int(text, 16)


def _remapped(ask: Ask) -> dict[str | None, dict[str, Any]]:
    """Return the remapped rows by PCI address; none where the driver or the GPUs do not have any."""
    try:
        said = ask(f"--query-remapped-rows=gpu_bus_id,{','.join(f'remapped_rows.{name}' for name in _ROWS)}", FORMAT)
    except GpuError:
        return {}
    found: dict[str | None, dict[str, Any]] = {}
    for row in rows_of(said):
        numbers = [{"yes": 1, "no": 0}.get(text.lower(), _value(text, "number")) for text in row[1:]]
        if len(numbers) == len(_ROWS) and None not in numbers:
            corrected, uncorrected, pending, failure = numbers
            found[canonical_busid(row[0])] = {
                "corrected": corrected,
                "uncorrected": uncorrected,
                "pending": bool(pending),
                "failure": bool(failure),
            }
    return found


def _processes(ask: Ask) -> dict[str | None, list[int]] | None:
    """Return the processes by the PCI address of their GPU; None if that cannot be told."""
    try:
        said = ask("--query-compute-apps=pid,gpu_bus_id", FORMAT)
    except GpuError:
        return None
    found: dict[str | None, list[int]] = {}
    for row in rows_of(said):
        if len(row) != 2 or not row[0].isdecimal():
            return None
        found.setdefault(canonical_busid(row[1]), []).append(int(row[0]))
    return found


def _health(
    one: Mapping[str, Any],
    rows: Mapping[str | None, Mapping[str, Any]],
    pids: Mapping[str | None, Sequence[int]] | None,
) -> GpuHealth:
    read: dict[str, Any] = {name: value for name, value in one.items() if "." not in name}
    for name, value in one.items():
        part, dot, field = name.partition(".")
        if dot:
            read.setdefault(part, {})[field] = value
    read["rows"] = rows.get(one["busid"])
    pages = read.get("pages", {})
    complete = len(pages) == 3 and None not in pages.values()
    read["pages"] = pages if complete and read["rows"] is None else None
    read["fabric"] = _fabric(read.get("fabric", {}))
    read["processes"] = None if pids is None else sorted(set(pids.get(one["busid"], ())))
    return health_of(read)


def _fabric(said: Mapping[str, str | None]) -> dict[str, Any] | None:
    state = (said.get("state") or "").lower()
    if state not in FABRIC_STATES[1:]:
        return None
    # nvidia-smi has words where NVML has codes: any but success is an error that has none of them.
    return {"state": state, "status": 0 if (said.get("status") or "success").lower() == "success" else 999}


def read_links(ask: Ask) -> tuple[NvLinks, ...]:
    """Return the NVLinks of all GPUs, with the sums of their errors."""
    states: dict[int, list[bool]] = {}
    for index, _link, said in _links(ask("nvlink", "--status")):
        states.setdefault(index, []).append("inactive" not in said.lower())
    errors: dict[int, dict[str, int]] = {}
    kinds = {"replay errors": "replay", "recovery errors": "recovery", "crc errors": "crc_flit"}
    for index, _link, said in _links(ask("nvlink", "--errorcounters")):
        words, _colon, number = said.rpartition(":")
        kind = kinds.get(words.strip().lower())
        if kind and number.strip().isdecimal():
            own = errors.setdefault(index, {})
            own[kind] = own.get(kind, 0) + int(number)
    return tuple(NvLinks(index, tuple(own), errors.get(index, {})) for index, own in sorted(states.items()))


def _links(answer: str) -> list[tuple[int, int, str]]:
    """Return (GPU, link, the rest) of each line that is about a link."""
    found = []
    index = -1
    for line in answer.splitlines():
        gpu, link = _GPU_LINE.match(line), _LINK_LINE.match(line)
        if gpu:
            index = int(gpu[1])
        elif link and index >= 0:
            found.append((index, int(link[1]), link[2].strip()))
    return found
