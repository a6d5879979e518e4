# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starting and polling of long-running operations."""

from __future__ import annotations

import json
from typing import Any

from flask import Blueprint, Response, request

from simulator.arm.compute_payloads import timestamp
from simulator.arm.context import JSON, context
from simulator.arm.errors import ArmError
from simulator.arm.paging import base_url, query
from simulator.effects import Work
from simulator.operations import Operation

blueprint = Blueprint("operations", __name__)
PATH = "/subscriptions/<subscription>/providers/<provider>/locations/<location>/operations/<operation_id>"


def accepted(
    what: str,
    location: str,
    work: Work,
    body: bytes | None = None,
    status: int = 202,
    *,
    final: bool = True,
    provider: str = "Microsoft.Compute",
    result: bytes = b"",
) -> Response:
    """Start ``work``, and answer with the URL of its state.

    Azure answers a PATCH with the resource (200) and Azure-AsyncOperation, and a POST or DELETE with 202 and also
    Location. ``result`` is the body that Location has in the end.
    """
    operation = context().operations.start(what, location, work, result)
    return answer_for(operation, body, status, final=final, provider=provider)


def answer_for(
    operation: Operation, body: bytes | None, status: int, *, final: bool = True, provider: str = "Microsoft.Compute"
) -> Response:
    """The answer with the URL of an operation's state."""
    version = query()["api-version"]
    subscription = context().model.subscription
    base = (
        f"{base_url()}/subscriptions/{subscription}/providers/{provider}/locations/{operation.location}"
        f"/operations/{operation.id}"
    )
    headers = {"Azure-AsyncOperation": f"{base}?api-version={version}", "Azure-AsyncNotification": "Enabled"}
    if final:
        headers["Location"] = f"{base}?monitor=true&api-version={version}"
    return Response(body or b"", status=status, content_type=JSON, headers=headers | _wait())


@blueprint.get(PATH)
def show(subscription: str, provider: str, location: str, operation_id: str) -> Response:
    """The state of an operation."""
    operation = context().operations.find(operation_id)
    if operation is None:
        raise ArmError(404, "NotFound", f"The operation '{operation_id}' was not found in {location}.")
    done = operation.finished.is_set()
    if query().get("monitor") == "true":
        return _monitor(operation, done)
    body: dict[str, Any] = {"startTime": timestamp(operation.started), "status": operation.status, "name": operation.id}
    if operation.ended is not None:
        body["endTime"] = timestamp(operation.ended)
    if operation.error is not None:
        body["error"] = operation.error
    return Response(json.dumps(body), content_type=JSON, headers={} if done else _wait())


def _monitor(operation: Operation, done: bool) -> Response:
    if not done:
        return Response(b"", status=202, headers=_wait() | {"Location": request.url})
    if operation.error is not None:
        raise ArmError(409, operation.error["code"], operation.error["message"])
    if operation.result:
        return Response(operation.result, content_type=JSON)
    return Response(b"", status=204)


def _wait() -> dict[str, str]:
    """Retry-After in whole seconds, as Azure sends it, or in milliseconds if a test sets less than a second."""
    poll_ms = context().options.poll_ms
    if poll_ms < 1000:
        return {"Retry-After-Ms": str(max(1, poll_ms))}
    return {"Retry-After": str(round(poll_ms / 1000))}
