# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode sku: what a VM size has, or which VM sizes are known."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..machine.config import read_config
from ..machine.root import Root
from ..machine.vm_size import size_facts
from ..sku import SOURCES, VmSize, all_sizes, facts_of
from .command import GOOD, Answer, Command, UsageError

_UNKNOWN = "unknown"
_NONE = "none"
_SHOWN_SEPARATELY = ("name", "thresholds", "contradictions", "sources")

_DESCRIPTION = """\
Shows what a virtual machine of one size has: CPUs and NUMA nodes, GPUs and InfiniBand adapters with their PCI
addresses, clocks, local disks, and the limits of the health checks. It shows the collection's data for the VM size, and
does not inspect the machine.

Without SIZE, it shows this machine's size, which comes from /etc/hpcai/node.json, else from the metadata service, else
from that service's last answer. Sizes in vm_sizes in /etc/hpcai/node.json override the built-in table.

A fact without a source is shown as unknown. --sources shows the source of each fact, which facts are not verified, and
where sources disagree.

It changes nothing.

Exit status: 0 good, 2 the size of this machine, or the named size, is not known.
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("size", metavar="SIZE", nargs="?", help="a VM size, e.g. nd96asr_v4 (default: this machine's)")
    parser.add_argument("--all", action="store_true", help="list all known sizes instead")
    parser.add_argument("--sources", action="store_true", help="show the source of each fact, and contradictions")


def _execute(args: argparse.Namespace) -> Answer:
    root = Root(args.root)
    if args.all:
        if args.size:
            raise UsageError(f"--all lists all sizes: leave out {args.size} or --all.")
        sizes = all_sizes((read_config(root, "node") or {}).get("vm_sizes"))
        data: dict[str, Any] = {"sizes": {name: facts_of(size) for name, size in sizes.items()}}
        text = _columns(_overview(sizes.values()))
    else:
        size, vm_size = size_facts(root, args.size)
        data = {"vm_size": size.name, "origin": vm_size.origin, "facts": facts_of(size)}
        text = _one(size, vm_size.origin, args.sources)
    if args.sources:
        data["sources"] = dict(SOURCES)
        if args.all:
            text += "\n\n" + _letters(SOURCES)
    return Answer(GOOD, text, data)


def _overview(sizes: Iterable[VmSize]) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = [("SIZE", "CPUS", "NUMA NODES", "MEMORY MIB", "GPUS", "INFINIBAND", "NVME")]
    for size in sizes:
        rows.append(
            (
                size.name,
                _value(size.vcpus),
                _UNKNOWN if size.numa_nodes is None else str(len(size.numa_nodes)),
                _value(size.memory_mib),
                _times(size.gpu_count, size.gpu_model),
                _times(size.hca_count, None if size.ib_rate_gbps is None else f"{size.ib_rate_gbps} Gb/s"),
                _NONE if size.nvme_count == 0 else _value(size.nvme_count),
            )
        )
    return rows


def _times(count: int | None, what: str | None) -> str:
    if count is None or count == 0:
        return _UNKNOWN if count is None else _NONE
    return f"{count} x {what}" if what else str(count)


def _one(size: VmSize, origin: str, with_sources: bool) -> str:
    facts = facts_of(size)
    rows: list[Sequence[str]] = []
    for key, value in facts.items():
        if key not in _SHOWN_SEPARATELY:
            first, *others = _lines(key, value)
            rows.append((key, first, size.sources.get(key, "") if with_sources else ""))
            rows += [("", line, "") for line in others]
    parts = [f"{size.name} ({origin})", _columns(rows)]
    if size.thresholds:
        limits = [
            (name, _limit(limit), limit["source"] if with_sources else "")
            for name, limit in facts["thresholds"].items()
        ]
        parts.append("Limits of health checks:\n" + _columns(limits))
    if with_sources:
        if size.contradictions:
            parts.append("Where sources disagree:\n" + "\n".join(map(_contradiction, facts["contradictions"])))
        parts.append(_letters(_used(size)))
    return "\n\n".join(parts)


def _lines(key: str, value: Any) -> list[str]:
    """Return a value as one or more lines."""
    if value in ([], {}):
        return [_NONE]
    if key == "cpu" and value:
        return [f"{value['vendor']} family {value['family']} model {value['model']} ({value['arch']})"]
    if isinstance(value, Mapping):
        return [f"{name}={item}" for name, item in value.items()]
    if isinstance(value, list):
        return [_slot(number, item) for number, item in enumerate(value)]
    return [_value(value)]


def _slot(number: int, item: Mapping[str, Any]) -> str:
    if "cpus" in item:
        return f"{item['id']}: CPUs {item['cpus']}"
    switch = "" if item["switch"] is None else f", switch {item['switch']}"
    return f"{number}: {item['busid']}, NUMA node {item['numa_node']}{switch}"


def _limit(limit: Mapping[str, Any]) -> str:
    words = f"at {'most' if limit['at_most'] else 'least'} {_number(limit['limit'])} {limit['unit']}"
    extras = [limit["at"]] if limit["at"] else []
    extras += [f"{key} {_number(limit[key])}" for key in ("warn", "typical") if limit[key] is not None]
    return f"{words} ({', '.join(extras)})" if extras else words


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


def _contradiction(entry: Mapping[str, Any]) -> str:
    statements = "; ".join(f"{letter}: {words}" for letter, words in entry["says"].items())
    choice = f"{entry['taken']} is used" if entry["taken"] else "none is used"
    return f"  {entry['about']}: {statements}. Here {choice}: {entry['why']}"


def _used(size: VmSize) -> dict[str, str]:
    letters: set[str] = set()
    for source in (*size.sources.values(), *(limit.source for limit in size.thresholds.values())):
        letters.update(source.split(", "))
    for contradiction in size.contradictions:
        letters.update(contradiction.says)
    return {letter: words for letter, words in SOURCES.items() if letter in letters}


def _letters(sources: Mapping[str, str]) -> str:
    return "Sources:\n" + "\n".join(f"  {letter}: {words}" for letter, words in sources.items())


def _value(value: Any) -> str:
    return _UNKNOWN if value is None else str(value)


def _columns(rows: Iterable[Sequence[str]]) -> str:
    listed = list(rows)
    widths = [max(len(row[column]) for row in listed) for column in range(len(listed[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in listed)


COMMAND = Command(
    name="sku",
    summary="what a VM of this or another size has",
    description=_DESCRIPTION,
    add_arguments=_add_arguments,
    execute=_execute,
)
