# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Report about a source: the group variable `azure_inventory`, and a summary of one line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypedDict

from .facts import ScaleSetFacts, VirtualNetwork
from .hosts import Host
from .resources import name_of
from .selection import Scope
from .source import Outcome

VERSION = 1

# Only these facts, because Ansible copies group variables to each host when it prints an inventory. Host variables such
# as azure_vmss_id give the other facts. The size of the set's model is that of its next instance, which may differ from
# that of its hosts.
_SCALE_SET_VARIABLE = ("vm_size", "capacity", "found", "single_placement_group", "accelerated_networking")


class SourceReport(TypedDict):
    """One source in `azure_inventory`."""

    source: str
    scope: Scope
    fetched_at: str
    from_cache: bool
    age_seconds: int
    complete: bool
    hosts: int
    left_out: dict[str, int]
    errors: list[str]
    scale_sets: list[ScaleSetFacts]
    virtual_networks: list[VirtualNetwork]


def report_source(source: str, scope: Scope, outcome: Outcome, now: float) -> SourceReport:
    """Return the report of one source."""
    hosts = outcome.hosts.hosts
    scale_sets = [_completed(scale_set, hosts) for scale_set in outcome.answer["scale_sets"]]
    return {
        "source": source,
        "scope": scope,
        "fetched_at": datetime.fromtimestamp(outcome.fetched_at, UTC).isoformat(timespec="seconds"),
        "from_cache": outcome.from_cache,
        "age_seconds": max(0, int(now - outcome.fetched_at)),
        "complete": not outcome.problems,
        "hosts": len(hosts),
        "left_out": outcome.hosts.left_out,
        "errors": outcome.problems,
        "scale_sets": scale_sets,
        "virtual_networks": _used_networks(outcome.answer["virtual_networks"], scale_sets, hosts),
    }


def merge_reports(before: Any, report: SourceReport) -> dict[str, Any]:
    """Return `azure_inventory` with this source added, or with its earlier report replaced."""
    earlier = [other for other in (before or {}).get("sources", []) if other["source"] != report["source"]]
    networks = [{"id": item["id"], "address_prefixes": item["address_prefixes"]} for item in report["virtual_networks"]]
    scale_sets = [_set_line(entry) for entry in report["scale_sets"]]
    sources = [*earlier, {**report, "scale_sets": scale_sets, "virtual_networks": networks}]
    return {"version": VERSION, "complete": all(source["complete"] for source in sources), "sources": sources}


def scale_set_variable(scale_set: ScaleSetFacts) -> dict[str, Any]:
    """Return `azure_scale_set`, the variable of the group of a set."""
    return {key: value for key, value in scale_set.items() if key in _SCALE_SET_VARIABLE}


def _set_line(entry: ScaleSetFacts) -> str:
    return (
        f"{entry['name']}: {entry['found']} of {_known(entry['capacity'])} {_known(entry['vm_size'])}, "
        f"{entry['orchestration_mode']}, "
        f"single placement group {_yes_no(entry['single_placement_group'])}, "
        f"accelerated networking {_yes_no(entry['accelerated_networking'])}"
    )


def _known(value: int | str | None) -> str:
    return "unknown" if value is None else str(value)


def _yes_no(value: bool | None) -> str:
    return "unknown" if value is None else "yes" if value else "no"


def summary(report: SourceReport, outcome: Outcome, seconds: float) -> str:
    """Return one line with the number of hosts, and how many were left out and why."""
    hosts = outcome.hosts.hosts
    phrases = [f"{report['source']}: {_count(len(hosts), 'host')}, {_ready(hosts)} ready"]
    if outcome.from_cache:
        phrases.append(f"from the cache, {report['age_seconds']} s old")
    else:
        phrases.append(f"{_count(outcome.answer['requests'], 'request')} in {seconds:.1f} s")
    unreachable = sum(host.address is None for host in hosts)
    if unreachable:
        phrases.append(f"without address: {unreachable}")
    if report["left_out"]:
        reasons = ", ".join(f"{count} ({reason})" for reason, count in sorted(report["left_out"].items()))
        phrases.append(f"left out: {reasons}")
    short = [
        f"{scale_set['name']} {scale_set['found']} of {scale_set['capacity']}"
        for scale_set in report["scale_sets"]
        if scale_set["capacity"] is not None and scale_set["found"] != scale_set["capacity"]
    ]
    if short:
        phrases.append(f"instances found: {', '.join(short)}")
    return "; ".join(phrases)


def _completed(scale_set: ScaleSetFacts, hosts: list[Host]) -> ScaleSetFacts:
    """Fill in missing facts of a set's model from its instances, because a Flexible set may have no model."""
    entry = scale_set.copy()
    if entry["accelerated_networking"] is not None and entry["virtual_networks"]:
        return entry
    key = entry["id"].lower()
    members = [host.facts for host in hosts if (host.facts["azure_vmss_id"] or "").lower() == key]
    if entry["accelerated_networking"] is None:
        known = {facts["azure_accelerated_networking"] for facts in members} - {None}
        # False if one instance lacks it, because that instance slows down all others.
        entry["accelerated_networking"] = all(known) if known else None
    if not entry["virtual_networks"]:
        networks = {network.lower(): network for facts in members if (network := facts["azure_virtual_network"])}
        entry["virtual_networks"] = [networks[key] for key in sorted(networks)]
    return entry


def _used_networks(
    listed: list[VirtualNetwork], scale_sets: list[ScaleSetFacts], hosts: list[Host]
) -> list[VirtualNetwork]:
    used = {network.lower(): network for scale_set in scale_sets for network in scale_set["virtual_networks"]}
    for host in hosts:
        network = host.facts["azure_virtual_network"]
        if network:
            used.setdefault(network.lower(), network)
    by_id = {network["id"].lower(): network for network in listed}
    return [
        by_id.get(key) or {"id": used[key], "name": name_of(used[key]), "address_prefixes": None}
        for key in sorted(used)
    ]


def _ready(hosts: list[Host]) -> int:
    return sum(host.facts["azure_ready"] for host in hosts)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
