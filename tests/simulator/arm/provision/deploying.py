# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Validation and execution of deployments, in the order of dependsOn."""

from __future__ import annotations

import functools
import threading
import time
import uuid
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from simulator.arm import versions
from simulator.arm.compute_payloads import timestamp
from simulator.arm.context import Context
from simulator.arm.errors import CODES, ArmError
from simulator.arm.provision import changes, interfaces
from simulator.arm.provision.expressions import with_references
from simulator.arm.provision.targets import DEPLOYMENTS, GROUPS
from simulator.arm.provision.templates import Step
from simulator.operations import Operation, OperationFailed
from simulator.resources import now

SERVICE = "deployment"
"""The service of fault rules for the resources of a deployment."""


@dataclass
class Deployment:
    """One deployment, which stays as a record of what it did."""

    id: str
    name: str
    group: str
    location: str
    template: dict[str, Any]
    steps: list[Step]
    tags: dict[str, str]
    started: datetime = field(default_factory=now)
    ended: datetime | None = None
    status: str = "Accepted"
    error: dict[str, Any] | None = None
    correlation: str = field(default_factory=lambda: str(uuid.uuid4()))
    operation: Operation | None = None
    canceled: threading.Event = field(default_factory=threading.Event)

    @property
    def active(self) -> bool:
        """Whether it has not ended."""
        return self.ended is None


def validate(state: Context, name: str, steps: list[Step]) -> None:
    """Raise ArmError with everything that Azure finds before it makes anything."""
    planned = {step.place.id.lower(): step.body for step in steps}
    cores: dict[str, int] = {}
    errors: list[dict[str, Any]] = []
    with state.model.lock:
        for step in steps:
            try:
                versions.check(step.place.kind, step.version)
                if step.place.kind == DEPLOYMENTS:
                    continue
                _apply_faults(state, "VALIDATE", step)
                if step.place.kind == GROUPS:
                    changes.check_group(state, step.place, step.body)
                    continue
                changes.prepared(state, step.place, step.body, planned, cores, step.version)
            except ArmError as error:
                errors.append(error.body | {"target": step.place.id})
    if errors:
        raise ArmError(
            400,
            "InvalidTemplateDeployment",
            f"The template deployment '{name}' is not valid according to the validation procedure. The tracking id is "
            f"'{uuid.uuid4()}'. See inner errors for details.",
            details=errors,
        )


def _apply_faults(state: Context, method: str, step: Step) -> None:
    fault = state.faults.applying(f"{method} {step.place.id}", SERVICE)
    if fault is None:
        return
    if fault.action == "hang":
        state.faults.released.wait(fault.delay_s)
    elif fault.action == "slow":
        time.sleep(fault.delay_s or 0)
    else:
        code, message = CODES.get(fault.status, CODES[500])
        raise ArmError(fault.status, fault.code or code, fault.message or message)


def execute(state: Context, deployment: Deployment) -> None:
    """Make the resources. Raises OperationFailed at the end if one failed; those that do not depend on it are made."""
    deployment.status = "Running"
    done: set[str] = set()
    running: dict[Future[None], Step] = {}
    with ThreadPoolExecutor(4) as pool:
        while True:
            while not deployment.canceled.is_set() and (step := _next(deployment.steps, done)) is not None:
                future = _start(state, pool, step, deployment.steps)
                if future is None:
                    done.add(step.place.id.lower())
                else:
                    running[future] = step
            if not running:
                break
            finished, _waiting = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                step = running.pop(future)
                _finish(step, _failure(future))
                done.add(step.place.id.lower())
    _conclude(deployment)


def _next(steps: list[Step], done: set[str]) -> Step | None:
    """The next resource: in the template's order, but machines last, because others may name what they need."""
    failed = {step.place.id.lower() for step in steps if step.state == "Failed"}
    ready = [
        step
        for step in steps
        if step.state == "Waiting" and set(step.depends) <= done and not set(step.depends) & failed
    ]
    quick = [step for step in ready if step.place.kind == GROUPS or not changes.kind(step.place.kind).asynchronous]
    return next(iter(quick or ready), None)


def _start(state: Context, pool: ThreadPoolExecutor, step: Step, steps: list[Step]) -> Future[None] | None:
    """Make a resource. Returns the part that takes time."""
    step.state, step.started = "Running", now()
    try:
        _apply_faults(state, "PUT", step)
        if step.place.kind == GROUPS:
            wanted = changes.check_group(state, step.place, step.body)
            state.model.add_group(step.place.name, wanted["location"], wanted.get("tags"))
            _finish(step, None)
            return None
        body = with_references(step.body, step.place.name, functools.partial(_properties, state, step, steps))
        made = changes.put(state, step.place, body, step.version)
    except ArmError as error:
        interfaces.reserve(state, step.body.get("properties") or {}, step.place.id)
        _finish(step, error)
        return None
    except Exception as error:  # the deployment must end after any error
        _finish(step, ArmError(500, "InternalServerError", f"The simulator failed: {error!r}"))
        return None
    step.created = made.created
    if made.work is None:
        _finish(step, None)
        return None
    return pool.submit(made.work)


def _properties(state: Context, step: Step, steps: list[Step], azure_id: str, version: str) -> dict[str, Any]:
    """What a reference reads. Without a dependency, nothing says that a resource of the template is made before."""
    made = {other.place.id.lower(): other for other in steps}
    waiting = list(step.depends)
    before: set[str] = set()
    while waiting:
        above = waiting.pop()
        before.add(above)
        waiting += [other for other in made[above].depends if other not in before]
    if azure_id.lower() in made.keys() - before:
        raise changes.no_reference(azure_id, version)
    return changes.properties_of(state, azure_id, version)


def _failure(future: Future[None]) -> ArmError | None:
    error = future.exception()
    if error is None:
        return None
    code = error.code if isinstance(error, OperationFailed) else "InternalExecutionError"
    return ArmError(409, code, str(error) or repr(error))


def _finish(step: Step, error: ArmError | None) -> None:
    step.ended, step.error = now(), error
    step.state = "Succeeded" if error is None else "Failed"


def _conclude(deployment: Deployment) -> None:
    failed = [step for step in deployment.steps if step.error is not None]
    deployment.ended = now()
    if deployment.canceled.is_set():
        deployment.status = "Canceled"
        raise OperationFailed("DeploymentCanceled", f"The deployment '{deployment.name}' was canceled.")
    if not failed:
        deployment.status = "Succeeded"
        return
    details = [step.error.body | {"target": step.place.id} for step in failed if step.error is not None]
    message = (
        "At least one resource deployment operation failed. Please list deployment operations for details. Please see "
        "https://aka.ms/arm-deployment-operations for usage details."
    )
    deployment.status = "Failed"
    deployment.error = {"code": "DeploymentFailed", "message": message, "details": details}
    raise OperationFailed("DeploymentFailed", message, details)


def payload(deployment: Deployment) -> dict[str, Any]:
    """A deployment as a GET returns it."""
    end = deployment.ended or now()
    known = {step.place.id.lower(): step for step in deployment.steps}
    types: dict[str, list[dict[str, Any]]] = {}
    for step in deployment.steps:
        namespace, _slash, kind = step.place.kind.partition("/")
        locations = [step.body["location"]] if step.body.get("location") else []
        entries = types.setdefault(namespace, [])
        if kind not in [entry["resourceType"] for entry in entries]:
            entries.append({"resourceType": kind, "locations": locations})
    properties: dict[str, Any] = {
        "mode": "Incremental",
        "provisioningState": deployment.status,
        "timestamp": timestamp(end),
        "duration": f"PT{(end - deployment.started).total_seconds():.3f}S",
        "correlationId": deployment.correlation,
        "providers": [{"namespace": name, "resourceTypes": entries} for name, entries in types.items()],
        "dependencies": [
            step.about | {"dependsOn": [known[other].about for other in step.depends]}
            for step in deployment.steps
            if step.depends
        ],
    }
    if deployment.status == "Succeeded":
        outputs = deployment.template.get("outputs") or {}
        properties["outputs"] = {
            name: {"type": str(output.get("type", "string")).capitalize(), "value": output.get("value")}
            for name, output in outputs.items()
        }
        properties["outputResources"] = [{"id": step.place.id} for step in deployment.steps]
    if deployment.error is not None:
        properties["error"] = deployment.error
    answer: dict[str, Any] = {
        "id": deployment.id,
        "name": deployment.name,
        "type": "Microsoft.Resources/deployments",
        "properties": properties,
    }
    if deployment.tags:
        answer["tags"] = deployment.tags
    if deployment.location:
        answer["location"] = deployment.location
    return answer


def operations(deployment: Deployment) -> list[dict[str, Any]]:
    """What a deployment did, a resource each, in the order of their start."""
    found: list[dict[str, Any]] = []
    begun = [step for step in deployment.steps if step.started is not None]
    for step in sorted(begun, key=lambda item: item.started or now()):
        number = uuid.uuid5(uuid.NAMESPACE_URL, deployment.correlation + step.place.id).hex[:16].upper()
        end = step.ended or now()
        properties: dict[str, Any] = {
            "provisioningOperation": "Create",
            "provisioningState": step.state,
            "timestamp": timestamp(end),
            "duration": f"PT{(end - (step.started or end)).total_seconds():.3f}S",
            "serviceRequestId": str(uuid.uuid5(uuid.NAMESPACE_URL, step.place.id)),
            "targetResource": step.about,
        }
        if step.error is not None:
            properties["statusCode"] = {400: "BadRequest", 403: "Forbidden", 404: "NotFound", 409: "Conflict"}.get(
                step.error.status, "InternalServerError"
            )
            properties["statusMessage"] = {"status": "Failed", "error": step.error.body}
        elif step.ended is not None:
            properties["statusCode"] = "Created" if step.created else "OK"
        found.append({"id": f"{deployment.id}/operations/{number}", "operationId": number, "properties": properties})
    return found
