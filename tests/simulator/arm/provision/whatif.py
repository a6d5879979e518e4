# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a deployment would change."""

from __future__ import annotations

from typing import Any

from simulator.arm.context import Context
from simulator.arm.provision import changes, schema
from simulator.arm.provision.kinds import id_of
from simulator.arm.provision.targets import GROUPS
from simulator.arm.provision.templates import Step

SECRETS = "Microsoft.KeyVault/vaults/secrets"
SILENT = ("id", "name", "type", "etag", "systemData")


def preview(state: Context, group: str, steps: list[Step]) -> dict[str, Any]:
    """The answer of whatIf: a change for each resource of the template and of the group."""
    found: list[dict[str, Any]] = []
    with state.model.lock:
        for step in steps:
            old = changes.find(state, step.place.id)
            after: dict[str, Any] = {
                "apiVersion": step.version,
                "id": step.place.id,
                "name": step.place.name,
                "type": step.place.kind,
            }
            after |= step.body
            if step.place.kind == SECRETS:
                # Azure shows no value of a secret.
                after["properties"] = {key: value for key, value in step.body["properties"].items() if key != "value"}
            if old is None or step.place.kind == GROUPS:
                found.append({"resourceId": step.place.id, "changeType": "Create", "after": after})
                continue
            before = {"apiVersion": step.version} | changes.answer(state, old)
            delta = compared(schema.writable(step.place.kind, before), step.body)
            change: dict[str, Any] = {"resourceId": step.place.id, "changeType": "Modify" if delta else "NoChange"}
            change |= {"before": before, "after": after}
            found.append(change | {"delta": delta} if delta else change)
        named = {step.place.id.lower() for step in steps}
        for item in changes.resources(state, group) if group else []:
            if id_of(item).lower() not in named:
                before = changes.answer(state, item)
                found.append({"resourceId": id_of(item), "changeType": "Ignore", "before": before, "after": before})
    return {"status": "Succeeded", "properties": {"changes": found}}


def compared(before: Any, after: dict[str, Any]) -> list[dict[str, Any]]:
    """The differences. As in Azure, an omitted property is a deletion, even if it only has its default."""
    changed: list[dict[str, Any]] = []
    for key in sorted({*before, *after} - set(SILENT)):
        changed += _differences(key, before.get(key), after.get(key))
    return changed


def _differences(path: str, before: Any, after: Any) -> list[dict[str, Any]]:
    if _same(before, after):
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        found: list[dict[str, Any]] = []
        for key in sorted({*before, *after}):
            found += _differences(f"{path}.{key}", before.get(key), after.get(key))
        return found
    if isinstance(before, list) and isinstance(after, list):
        children = _items(before, after)
        return [{"path": path, "propertyChangeType": "Array", "children": children}] if children else []
    if after is None:
        return [{"path": path, "propertyChangeType": "Delete", "before": before}]
    if before is None:
        return [{"path": path, "propertyChangeType": "Create", "after": after}]
    return [{"path": path, "propertyChangeType": "Modify", "before": before, "after": after}]


def _items(before: list[Any], after: list[Any]) -> list[dict[str, Any]]:
    """The differences of two lists. Items with names are matched by them."""

    def key(item: Any, number: int) -> str:
        return str(item.get("name") or number).lower() if isinstance(item, dict) else str(item)

    old = {key(item, number): (number, item) for number, item in enumerate(before)}
    new = {key(item, number): (number, item) for number, item in enumerate(after)}
    found: list[dict[str, Any]] = []
    for name, (number, item) in old.items():
        if name not in new:
            found.append({"path": str(number), "propertyChangeType": "Delete", "before": item})
            continue
        other = new[name][1]
        inner = compared(item, other) if isinstance(item, dict) and isinstance(other, dict) else []
        if inner:
            found.append({"path": str(number), "propertyChangeType": "Modify", "children": inner})
    for name, (number, item) in new.items():
        if name not in old:
            found.append({"path": str(number), "propertyChangeType": "Create", "after": item})
    return found


def _same(before: Any, after: Any) -> bool:
    if isinstance(before, str) and isinstance(after, str):
        return before.lower() == after.lower()
    return bool(before == after)
