# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Templates, read into resources with ids and dependencies.

The resources of nested deployments stand beside those of the template, as in Azure's validation.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from simulator.arm.errors import ArmError
from simulator.arm.provision import changes
from simulator.arm.provision.expressions import invalid, literal, with_parameters
from simulator.arm.provision.targets import DEPLOYMENTS, GROUPS, PREFIX, Target, target

OWN = ("type", "apiVersion", "name", "dependsOn", "comments", "condition", "scope", "resources", "existing", "metadata")
"""Keys of a resource in a template that are not part of its body."""


@dataclass
class Step:
    """One resource of a template."""

    place: Target
    body: dict[str, Any]
    depends: list[str]
    """Lower-case ids."""
    version: str = ""
    """Its apiVersion."""
    state: str = "Waiting"
    started: datetime | None = None
    ended: datetime | None = None
    error: ArmError | None = None
    created: bool = True

    @property
    def about(self) -> dict[str, str]:
        """Its id, type and name, with the names of the resources above it."""
        name = "/".join(self.place.id.rpartition("/providers/")[2].split("/")[2::2])
        return {"id": self.place.id, "resourceType": self.place.kind, "resourceName": name}


def parse(scope: str, body: Any) -> tuple[dict[str, Any], list[Step]]:
    """The template in the body of a request, and its resources. Raises ArmError."""
    properties = (body or {}).get("properties") if isinstance(body, dict) else None
    if not isinstance(properties, dict) or not isinstance(properties.get("template"), dict):
        raise ArmError(400, "InvalidRequestContent", "The request content was invalid: properties.template is missing.")
    if properties.get("mode") != "Incremental":
        raise ArmError(400, "InvalidDeployment", f"This simulator has no mode {properties.get('mode')!r}: Incremental.")
    template = properties["template"]
    for key in ("$schema", "contentVersion", "resources"):
        if key not in template:
            raise invalid(f"The template has no '{key}'")
    listed = with_parameters(template["resources"], _parameters(template, properties))
    named = listed if isinstance(listed, dict) else {}
    steps: dict[str, Step] = {}
    symbols: dict[str, str] = {}
    for symbol, resource in named.items() if named else [("", item) for item in listed]:
        for step in _steps(scope, resource, "", ""):
            if step.place.id.lower() in steps:
                raise invalid(f"The resource '{step.place.id}' is defined multiple times in a template")
            steps[step.place.id.lower()] = step
            symbols.setdefault(symbol, step.place.id.lower())
    for step in steps.values():
        step.depends = [_resolve(name, steps, symbols if named else {}, step) for name in step.depends]
    _check_circles(steps)
    return template, list(steps.values())


def _parameters(template: dict[str, Any], properties: dict[str, Any]) -> dict[str, Any]:
    """The value of each parameter. Raises ArmError."""
    declared, given = template.get("parameters") or {}, properties.get("parameters") or {}
    unknown = [name for name in given if name not in declared]
    if unknown:
        raise invalid(
            f"The following parameters were supplied, but do not correspond to any parameters defined in the template: "
            f"'{', '.join(unknown)}'"
        )
    values = {name: given.get(name, {}).get("value", item.get("defaultValue")) for name, item in declared.items()}
    missing = [name for name, value in values.items() if value is None]
    if missing:
        raise invalid(f"The value for the template parameter '{missing[0]}' is not provided")
    return values


def _steps(scope: str, resource: Any, above_type: str, above_name: str) -> list[Step]:
    """A resource of a template and the resources nested in it."""
    for key in ("type", "apiVersion", "name"):
        if not isinstance(resource, dict) or not isinstance(resource.get(key), str):
            raise invalid(f"The template resource {resource!r:.80} has no '{key}'")
    inner = resource.get("resources") or []
    resource = {key: literal(item, resource["name"], key) for key, item in resource.items() if key != "resources"}
    if resource.get("condition") is False:
        return []
    if resource["type"].lower() == DEPLOYMENTS.lower():
        return _nested(scope, resource)
    kind = f"{above_type}/{resource['type']}" if above_type else resource["type"]
    name = f"{above_name}/{resource['name']}" if above_name else resource["name"]
    place = target(_id_in(scope, kind, name, resource.get("scope")), changes.NAMES)
    if place is None:
        raise invalid(f"The type '{kind}' and the name '{name}' have different numbers of segments")
    body = {key: value for key, value in resource.items() if key not in OWN}
    found = [Step(place, body, list(resource.get("dependsOn") or []), resource["apiVersion"])]
    for one in inner:
        found += _steps(scope, one, kind, name)
    return found


def _nested(scope: str, resource: dict[str, Any]) -> list[Step]:
    """The resources of a nested deployment, and the deployment itself, which depends on them."""
    name, group = resource["name"], resource.get("resourceGroup")
    if resource.get("subscriptionId") or resource.get("scope"):
        raise invalid(f"this simulator deploys in one subscription, but '{name}' names a scope")
    found = PREFIX.match(scope)
    if group and found is not None:
        scope = f"/subscriptions/{found['subscription']}/resourceGroups/{group}"
    check_location(scope, name, resource)
    options = (resource.get("properties") or {}).get("expressionEvaluationOptions") or {}
    if str(options.get("scope", "outer")).lower() != "outer":
        raise invalid(f"this simulator evaluates the parameters of '{name}' in the outer scope only")
    _template, steps = parse(scope, resource)
    needs = list(resource.get("dependsOn") or [])
    for step in steps:
        step.depends += needs
    place = Target(f"{scope}/providers/{DEPLOYMENTS}/{name}", DEPLOYMENTS, group or "", name, "", scope)
    return [*steps, Step(place, {}, [*needs, *(step.place.id for step in steps)], resource["apiVersion"])]


def check_location(scope: str, name: str, deployment: Any) -> None:
    """Raise ArmError if a deployment has no location although its scope has none, or one beside that of its group."""
    given = isinstance(deployment, dict) and bool(deployment.get("location"))
    of_group = "/resourcegroups/" in scope.lower()
    if given == of_group:
        wrong = f"is not allowed for '{name}' at resource group scope" if given else f"must be specified for '{name}'"
        raise ArmError(
            400,
            "InvalidDeployment",
            f"The 'location' property {wrong}. Please see https://aka.ms/arm-deployment-subscription for usage "
            "details.",
        )


def _id_in(scope: str, kind: str, name: str, own_scope: str | None) -> str:
    """The id of a resource of a template."""
    if kind.lower() == GROUPS.lower():
        return f"{scope}/resourceGroups/{name}"
    if own_scope:
        scope = own_scope if own_scope.startswith("/") else _id_of(scope, *_split(own_scope))
    above, _providers, extension = kind.lower().rpartition("/providers/")
    if above:
        # The older way: Microsoft.KeyVault/vaults/providers/roleAssignments with the name vault/Microsoft.X/guid.
        number = above.count("/")
        parts = name.split("/")
        return _id_of(
            _id_of(scope, kind[: len(above)], "/".join(parts[:number])),
            f"{parts[number]}/{extension}",
            "/".join(parts[number + 1 :]),
        )
    return _id_of(scope, kind, name)


def _split(relative: str) -> tuple[str, str]:
    parts = relative.split("/")
    return "/".join([parts[0], *parts[1::2]]), "/".join(parts[2::2])


def _id_of(scope: str, kind: str, name: str) -> str:
    namespace, *words = kind.split("/")
    names = name.split("/")
    if len(words) != len(names):
        raise invalid(
            f"The template resource '{name}' of type '{kind}' has incorrect segment lengths. A nested resource type "
            "must have identical number of segments as its resource name"
        )
    pairs = "/".join(f"{word}/{part}" for word, part in zip(words, names, strict=True))
    return f"{scope}/providers/{namespace}/{pairs}"


def _resolve(name: str, steps: dict[str, Step], symbols: dict[str, str], step: Step) -> str:
    wanted = name.lower()
    if symbols.get(name):
        return symbols[name]
    if wanted in steps:
        return wanted
    if "/" in name and not name.startswith("/"):
        relative = "/" + "/".join(["providers", name]).lower()
        found = [key for key in steps if key.endswith(relative)]
    else:
        found = [key for key, other in steps.items() if other.place.name.lower() == wanted]
    if len(found) != 1:
        raise invalid(
            f"The resource '{name}' is not defined in the template, but '{step.place.id}' depends on it. Please see "
            "https://aka.ms/arm-template for usage details"
        )
    return found[0]


def _check_circles(steps: dict[str, Step]) -> None:
    left = dict(steps)
    while left:
        ready = [key for key, step in left.items() if not set(step.depends) & set(left)]
        if not ready:
            raise invalid(f"Circular dependency detected on resource: '{next(iter(left.values())).place.id}'")
        for key in ready:
            del left[key]
