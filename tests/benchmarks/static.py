# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A static inventory with the hosts, groups and variables of a listed one, for comparison with a cached answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

VOLATILE = ("source", "fetched_at", "from_cache", "age_seconds")
REPORT = "azure_inventory"


def load(path: Path) -> dict[str, Any]:
    """The output of `ansible-inventory --list`, without Ansible's marks for texts that are not templates."""
    return dict(_plain(json.loads(path.read_text(encoding="utf-8"))))


def hosts(path: Path) -> int:
    """The number of hosts in such an output."""
    return len(json.loads(path.read_text(encoding="utf-8"))["_meta"]["hostvars"])


def write(exported: dict[str, Any], json_file: Path, yaml_file: Path, in_yaml: bool) -> None:
    """Write the output of `--list --export` in the format of Ansible's YAML inventory, which may also be JSON."""
    document = {"all": _group("all", exported, set())}
    document["all"]["hosts"] = exported["_meta"]["hostvars"]
    json_file.write_text(json.dumps(document), encoding="utf-8")
    if not in_yaml:
        return
    with yaml_file.open("w", encoding="utf-8") as file:
        yaml.dump(document, file, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False)


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The first differences of two outputs, without the source and time of the report."""
    return [place for place, _found in zip(_differences(_settled(one), _settled(other), ""), range(5), strict=False)]


def _differences(one: Any, other: Any, place: str) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(set(one) | set(other)):
            if key not in one or key not in other:
                yield f"{place}.{key} (only in one)"
            else:
                yield from _differences(one[key], other[key], f"{place}.{key}")
    elif one != other:
        yield f"{place}: {str(one)[:60]!r}, {str(other)[:60]!r}"


def _settled(listed: dict[str, Any]) -> dict[str, Any]:
    """The output with sorted lists of hosts and groups, and without values that change with each run."""
    for group in listed.values():
        for kind in ("hosts", "children"):
            if isinstance(group.get(kind), list):
                group[kind] = sorted(group[kind])
    for variables in listed["_meta"]["hostvars"].values():
        for source in variables.get(REPORT, {}).get("sources", []):
            for key in VOLATILE:
                source.pop(key, None)
    return listed


def _group(name: str, exported: dict[str, Any], seen: set[str]) -> dict[str, Any]:
    listed = exported.get(name, {})
    group: dict[str, Any] = {}
    if name not in seen:
        # The members of a group are written only once.
        seen.add(name)
        if listed.get("vars"):
            group["vars"] = listed["vars"]
        if listed.get("hosts"):
            group["hosts"] = {host: {} for host in listed["hosts"]}
        if children := [child for child in listed.get("children", ()) if child != "ungrouped"]:
            group["children"] = {child: _group(child, exported, seen) for child in children}
    return group


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"__ansible_unsafe"}:
            return value["__ansible_unsafe"]
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
