# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Error answers with Azure's codes and messages."""

from __future__ import annotations

import json
from typing import Any

from flask import Response

from simulator.faults import Fault

CODES = {
    401: ("InvalidAuthenticationToken", "The access token is invalid."),
    403: ("AuthorizationFailed", "The client does not have authorization to perform this action over this scope."),
    404: ("ResourceNotFound", "The resource was not found."),
    409: ("Conflict", "The request failed due to conflict with a concurrent request."),
    429: ("TooManyRequests", "The request is being throttled as the limit has been reached for operation type."),
    500: ("InternalServerError", "An internal error occurred."),
    503: ("ServiceUnavailable", "The service is temporarily unavailable."),
}


class ArmError(Exception):
    """A request that ends with an error body."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        headers: dict[str, str] | None = None,
        details: list[dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = headers or {}
        self.details = details or []

    @property
    def body(self) -> dict[str, Any]:
        """Code, message and details."""
        found: dict[str, Any] = {"code": self.code, "message": self.message}
        return found | {"details": self.details} if self.details else found

    def response(self) -> Response:
        """The HTTP answer."""
        return Response(
            json.dumps({"error": self.body}),
            status=self.status,
            content_type="application/json; charset=utf-8",
            headers=self.headers,
        )


def resource_not_found(kind: str, name: str, group: str) -> ArmError:
    """No such resource in an existing resource group."""
    return ArmError(
        404,
        "ResourceNotFound",
        f"The Resource '{kind}/{name}' under resource group '{group}' was not found. "
        "For more details please go to https://aka.ms/ARMResourceNotFoundFix",
    )


def group_not_found(group: str) -> ArmError:
    """No such resource group."""
    return ArmError(404, "ResourceGroupNotFound", f"Resource group '{group}' could not be found.")


def subscription_not_found(subscription: str) -> ArmError:
    """No such subscription."""
    return ArmError(404, "SubscriptionNotFound", f"The subscription '{subscription}' could not be found.")


def instance_not_found(instance_id: str) -> ArmError:
    """No such instance in an existing scale set."""
    return ArmError(
        404,
        "NotFound",
        f"The provided instanceId {instance_id} is not an active Virtual Machine Scale Set VM instanceId.",
    )


def bad_parameter(name: str, message: str) -> ArmError:
    """An invalid parameter."""
    return ArmError(400, "InvalidParameter", f"{name}: {message}")


def conflict(message: str) -> ArmError:
    """An operation that the state of the resource does not allow."""
    return ArmError(409, "OperationNotAllowed", message)


def refusal(fault: Fault) -> Response:
    """The error answer for a fault."""
    code, message = CODES.get(fault.status, ("InternalServerError", "An internal error occurred."))
    return ArmError(fault.status, fault.code or code, fault.message or message, fault.headers).response()
