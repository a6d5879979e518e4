# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Deployments: validation, what-if, execution, records."""

from __future__ import annotations

import json
from typing import Any

from flask import Blueprint, Response, request

from simulator.arm import lookup
from simulator.arm.context import context, many, one
from simulator.arm.errors import ArmError
from simulator.arm.longrunning import accepted, answer_for
from simulator.arm.provision import deploying, rights, templates, whatif
from simulator.arm.provision.deploying import Deployment
from simulator.arm.provision.targets import DEPLOYMENTS as KIND
from simulator.arm.provision.templates import Step
from simulator.operations import Operation

blueprint = Blueprint("deployments", __name__)
AT_SUBSCRIPTION = f"/subscriptions/<subscription>/providers/{KIND.lower()}"
AT_GROUP = f"/subscriptions/<subscription>/resourcegroups/<group>/providers/{KIND.lower()}"

OF_GROUP = "/subscriptions/<subscription>/resourcegroups/<group>/deployments/<name>/operations"
"""Where the SDK looks for the operations of a group's deployment."""


def _scope(group: str | None) -> str:
    model = context().model
    lookup.group(group)
    found = model.resource_groups.get(group.lower()) if group else None
    return found.id if found is not None else f"/subscriptions/{model.subscription}"


def _id(group: str | None, name: str) -> str:
    return f"{_scope(group)}/providers/{KIND}/{name}"


def _own_name() -> str:
    """The deployment's name as the client wrote it."""
    parts = request.environ["simulator.path"].rstrip("/").split("/")
    return str(parts[[part.lower() for part in parts].index("deployments") + 1])


def _find(group: str | None, name: str) -> Deployment:
    found: Deployment | None = context().model.deployments.get(_id(group, name).lower())
    if found is None:
        raise ArmError(404, "DeploymentNotFound", f"Deployment '{name}' could not be found.")
    return found


def _read(group: str | None, *, nested: bool = False) -> tuple[dict[str, Any], list[Step]]:
    """The template of a request and its resources, with ``nested`` also those of nested deployments."""
    scope, sent = _scope(group), request.get_json(silent=True)
    template, steps = templates.parse(scope, sent)
    templates.check_location(scope, _own_name(), sent)
    inner = [step.place.name for step in steps if step.place.kind == KIND]
    if inner and not nested:
        raise templates.invalid(f"this simulator only validates nested deployments: {inner[0]}")
    return template, steps


def _location(group: str | None) -> str:
    found = context().model.resource_groups.get(group.lower()) if group else None
    return found.location if found is not None else str((request.get_json(silent=True) or {}).get("location", ""))


def _encode(payload: dict[str, Any]) -> bytes:
    return json.dumps(payload).encode()


@blueprint.post(f"{AT_SUBSCRIPTION}/<name>/validate")
@blueprint.post(f"{AT_GROUP}/<name>/validate")
def validate(subscription: str, name: str, group: str | None = None) -> Response:
    """Check a template without making anything."""
    template, steps = _read(group, nested=True)
    rights.check_action(context(), f"{KIND}/validate/action", _scope(group))
    deploying.validate(context(), _own_name(), steps)
    shown = Deployment(_id(group, _own_name()), _own_name(), group or "", "", template, steps, {})
    payload = deploying.payload(shown)
    payload["properties"]["provisioningState"] = "Succeeded"
    payload["properties"]["validatedResources"] = [{"id": step.place.id} for step in steps]
    return one(_encode(payload))


@blueprint.post(f"{AT_SUBSCRIPTION}/<name>/whatif")
@blueprint.post(f"{AT_GROUP}/<name>/whatif")
def what_if(subscription: str, name: str, group: str | None = None) -> Response:
    """What a template would change."""
    _template, steps = _read(group)
    rights.check_action(context(), f"{KIND}/whatIf/action", _scope(group))
    deploying.validate(context(), _own_name(), steps)
    result = _encode(whatif.preview(context(), group or "", steps))
    return accepted(
        f"what-if {name}", _location(group) or "global", lambda: None, provider="Microsoft.Resources", result=result
    )


@blueprint.put(f"{AT_SUBSCRIPTION}/<name>")
@blueprint.put(f"{AT_GROUP}/<name>")
def put(subscription: str, name: str, group: str | None = None) -> Response:
    """Start a deployment."""
    template, steps = _read(group)
    state, azure_id = context(), _id(group, _own_name())
    rights.check_action(state, f"{KIND}/write", _scope(group))
    rights.check_locks(state, azure_id, KIND, deletes=False)
    tags = (request.get_json(silent=True) or {}).get("tags") or {}
    with state.model.lock:
        before: Deployment | None = state.model.deployments.get(azure_id.lower())
        if before is not None and before.active:
            raise ArmError(
                409,
                "DeploymentActive",
                f"Unable to edit or replace deployment '{name}': previous deployment from "
                f"'{before.started:%m/%d/%Y %H:%M:%S}' is still active (expiration time is later). Please see "
                "https://aka.ms/arm-deploy for usage details.",
            )
        deploying.validate(state, _own_name(), steps)
        location = "" if group else _location(group)
        deployment = Deployment(azure_id, _own_name(), group or "", location, template, steps, tags)
        state.model.deployments[azure_id.lower()] = deployment
    accepted_as = _encode(deploying.payload(deployment))
    operation = state.operations.start(
        f"deployment {name}", _location(group) or "global", lambda: deploying.execute(state, deployment)
    )
    deployment.operation = operation
    return _started(operation, accepted_as, 201 if before is None else 200)


def _started(operation: Operation, body: bytes, status: int) -> Response:
    return answer_for(operation, body, status, final=False, provider="Microsoft.Resources")


@blueprint.get(f"{AT_SUBSCRIPTION}/<name>")
@blueprint.get(f"{AT_GROUP}/<name>")
def show(subscription: str, name: str, group: str | None = None) -> Response:
    """One deployment."""
    return one(_encode(deploying.payload(_find(group, name))))


@blueprint.get(AT_SUBSCRIPTION)
@blueprint.get(AT_GROUP)
def list_deployments(subscription: str, group: str | None = None) -> Response:
    """The deployments of a group or of the subscription, the newest first."""
    prefix = f"{_scope(group)}/providers/{KIND}/".lower()
    found = [item for key, item in context().model.deployments.items() if key.startswith(prefix)]
    return many([_encode(deploying.payload(item)) for item in reversed(found)], None)


@blueprint.delete(f"{AT_SUBSCRIPTION}/<name>")
@blueprint.delete(f"{AT_GROUP}/<name>")
def remove(subscription: str, name: str, group: str | None = None) -> Response:
    """Delete the record of a deployment. What it made stays."""
    found = _find(group, name)
    if found.active:
        raise ArmError(409, "DeploymentActive", f"Unable to delete deployment '{name}': it is still active.")

    def forget() -> None:
        state.model.deployments.pop(found.id.lower(), None)

    state = context()
    return accepted(f"delete deployment {name}", "global", forget, provider="Microsoft.Resources")


@blueprint.post(f"{AT_SUBSCRIPTION}/<name>/cancel")
@blueprint.post(f"{AT_GROUP}/<name>/cancel")
def cancel(subscription: str, name: str, group: str | None = None) -> Response:
    """Start no more resources. Those that are being made get finished."""
    found = _find(group, name)
    if not found.active:
        raise ArmError(409, "DeploymentCannotBeCancelled", f"The deployment '{name}' cannot be cancelled.")
    found.canceled.set()
    return Response(status=204)


@blueprint.get(f"{AT_SUBSCRIPTION}/<name>/operations")
@blueprint.get(f"{AT_GROUP}/<name>/operations")
@blueprint.get(OF_GROUP)
def list_operations(subscription: str, name: str, group: str | None = None) -> Response:
    """What a deployment has done so far."""
    return many([_encode(item) for item in deploying.operations(_find(group, name))], None)
