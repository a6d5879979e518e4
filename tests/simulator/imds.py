# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The instance metadata service, which returns data about the calling machine at 169.254.169.254.

The source address identifies the caller. Without machines (backend none), the header ``X-Simulator-Instance`` names the
caller by Azure id, vmId or name.
"""

from __future__ import annotations

import ipaddress
import json
import re
import time
from typing import Any, cast

from flask import Blueprint, Flask, Response, current_app, request

from simulator.arm.network_payloads import mac_address
from simulator.faults import Fault, Faults
from simulator.front import Front
from simulator.model import Model
from simulator.requestlog import RequestLog
from simulator.resources import COMPUTE, Instance
from simulator.roles import principals_of
from simulator.tokens import AUDIENCES, SECONDS

VERSIONS = (
    "2017-04-02",
    "2018-02-01",
    "2019-06-01",
    "2020-07-01",
    "2020-09-01",
    "2021-02-01",
    "2021-12-13",
    "2023-07-01",
)
VAULT_URL = re.compile(r"https://[A-Za-z0-9-]+\.vault\.azure\.net/?")
API_VERSION = re.compile(r"\d{4}-\d{2}-\d{2}")
INSTANCE_HEADER = "X-Simulator-Instance"
USER_DATA_SINCE = "2021-01-01"


class ImdsError(Exception):
    """A request that ends with an error body."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(str(body))
        self.status = status
        self.body = body


blueprint = Blueprint("imds", __name__)


def create_app(
    model: Model, *, by_header: bool, faults: Faults | None = None, requests: RequestLog | None = None
) -> Flask:
    """The metadata service of one simulator. ``by_header``: INSTANCE_HEADER can name the caller."""
    app = Flask("imds", static_folder=None)
    app.config.update(model=model, by_header=by_header)
    app.register_blueprint(blueprint)
    Front("imds", _find_caller, _refusal, faults or Faults(), requests or RequestLog()).install(app)
    app.register_error_handler(ImdsError, lambda error: _json(error.body, error.status))
    app.register_error_handler(404, lambda error: _json({"error": "Not found"}, 404))
    return app


@blueprint.before_app_request
def check() -> None:
    """Refuse requests that Azure refuses because they may be forged through a proxy or a browser."""
    if request.headers.get("Metadata", "").lower() != "true":
        raise _bad("Bad request. Required metadata header not specified")
    if "X-Forwarded-For" in request.headers:
        raise _bad("Bad request. The request must not carry X-Forwarded-For")
    if request.path != "/metadata/versions" and not API_VERSION.fullmatch(request.args.get("api-version", "")):
        raise ImdsError(
            400,
            {
                "error": "Bad request. api-version was not specified in the request or is invalid. "
                "For more information refer to aka.ms/azureimds",
                "newest-versions": list(VERSIONS[:-4:-1]),
            },
        )


@blueprint.get("/metadata/versions")
def versions() -> Response:
    """The versions that Azure's service had when this was written."""
    return _json({"apiVersions": list(VERSIONS)})


@blueprint.get("/metadata/instance")
@blueprint.get("/metadata/instance/<path:path>")
def instance(path: str = "") -> Response:
    """The instance document, or a part of it."""
    found = document(_model(), _caller())
    if request.args["api-version"] < USER_DATA_SINCE:
        del found["compute"]["userData"]
    return _formatted(_walk(found, path))


@blueprint.get("/metadata/scheduledevents")
def events() -> Response:
    """The scheduled events of the caller."""
    caller = _caller()
    return _json({"DocumentIncarnation": caller.events_incarnation, "Events": caller.events})


@blueprint.post("/metadata/scheduledevents")
def acknowledge() -> Response:
    """Start the events that the caller acknowledges."""
    caller = _caller()
    wanted = {str(item.get("EventId")) for item in (request.get_json(silent=True) or {}).get("StartRequests", [])}
    known = {event["EventId"] for event in caller.events}
    if not wanted or wanted - known:
        raise _bad(f"Bad request. Unknown events: {', '.join(sorted(wanted - known)) or 'no StartRequests'}")
    caller.events = [
        event | {"EventStatus": "Started", "NotBefore": ""} if event["EventId"] in wanted else event
        for event in caller.events
    ]
    caller.events_incarnation += 1
    return Response(status=200)


@blueprint.get("/metadata/identity/oauth2/token")
def token() -> Response:
    """A token of the caller's managed identity. It is valid for one audience only."""
    caller = _caller()
    resource = request.args.get("resource")
    if not resource:
        raise ImdsError(
            400, {"error": "invalid_request", "error_description": "Required query variable 'resource' is missing"}
        )
    client_id = request.args.get("client_id", "")
    why = _why_none(caller, client_id)
    if why:
        raise ImdsError(400, {"error": "invalid_request", "error_description": why})
    if resource.rstrip("/") not in AUDIENCES and not VAULT_URL.fullmatch(resource):
        reason = f"AADSTS500011: The resource principal named {resource} was not found in the tenant."
        raise ImdsError(400, {"error": "invalid_resource", "error_description": reason})
    scale_set = caller.scale_set
    names = caller.all_names | ({scale_set.name} if scale_set is not None else set())
    principals = principals_of(scale_set.sent if scale_set is not None else caller.sent, client_id)
    now = int(time.time())
    return _json(
        {
            "access_token": _model().tokens.issue(resource, names | principals, frozenset(principals)),
            "client_id": client_id or next(iter(caller.client_ids if not caller.identity else ()), caller.vm_id),
            "expires_in": str(SECONDS),
            "expires_on": str(now + SECONDS),
            "ext_expires_in": str(SECONDS),
            "not_before": str(now - 300),
            "resource": resource,
            "token_type": "Bearer",
        }
    )


def _why_none(item: Instance, client_id: str) -> str:
    """Why the machine gets no token; empty if it gets one.

    Without a client id, it gets one of its system-assigned identity or else of its only user-assigned one.
    """
    if not client_id and not item.identity and len(item.client_ids) > 1:
        # As quoted in https://github.com/Azure/aad-pod-identity/issues/1152.
        return (
            "Multiple user assigned identities exist, please specify the clientId / resourceId of the identity in the "
            "token request"
        )
    known = client_id in item.client_ids if client_id else item.identity or bool(item.client_ids)
    return "" if known else "Identity not found"


def document(model: Model, item: Instance) -> dict[str, Any]:
    """The instance document. All plain values are strings, as in Azure's."""
    tags = item.tags or (item.scale_set.tags if item.scale_set is not None else {})
    user, keys = model.login(item)
    home = f"/home/{user}/.ssh/authorized_keys"
    scale_set = item.scale_set
    subnet = ipaddress.ip_network(item.subnet.prefix)
    compute: dict[str, Any] = {
        "azEnvironment": "AzurePublicCloud",
        "customData": "",
        "evictionPolicy": "",
        "isHostCompatibilityLayerVm": "false",
        "licenseType": "",
        "location": item.location,
        "name": item.name,
        "offer": item.image.offer,
        "osProfile": {
            "adminUsername": user,
            "computerName": item.computer_name,
            "disablePasswordAuthentication": "true",
        },
        "osType": "Linux",
        "placementGroupId": item.placement_group or "",
        "plan": {"name": "", "product": "", "publisher": ""},
        "platformFaultDomain": str(item.fault_domain),
        "platformUpdateDomain": str(item.fault_domain),
        "priority": item.priority or "",
        "provider": COMPUTE,
        "publicKeys": [{"path": home, "keyData": key} for key in keys],
        "publisher": item.image.publisher,
        "resourceGroupName": item.resource_group,
        "resourceId": item.id,
        "sku": item.image.sku,
        "subscriptionId": item.subscription,
        "tags": ";".join(f"{name}:{value}" for name, value in tags.items()),
        "tagsList": [{"name": name, "value": value} for name, value in tags.items()],
        "userData": model.user_data(item),
        "version": item.image.exact_version,
        "virtualMachineScaleSet": {"id": scale_set.id if scale_set is not None else ""},
        "vmId": item.vm_id,
        "vmScaleSetName": scale_set.name if scale_set is not None else "",
        "vmSize": item.vm_size,
        "zone": item.zone or "",
    }
    interface = {
        "ipv4": {
            "ipAddress": [
                {"privateIpAddress": item.private_ipv4 or "", "publicIpAddress": item.public_ipv4 or ""},
            ],
            "subnet": [{"address": str(subnet.network_address), "prefix": str(subnet.prefixlen)}],
        },
        "ipv6": {"ipAddress": []},
        "macAddress": mac_address(item).replace("-", ""),
    }
    return {"compute": compute, "network": {"interface": [interface]}}


def _model() -> Model:
    return cast(Model, current_app.config["model"])


def _find_caller() -> Instance | None:
    named = request.headers.get(INSTANCE_HEADER) if current_app.config["by_header"] else None
    found = _model().find_caller(named) if named else None
    return found or _model().by_address.get(request.remote_addr or "")


def _caller() -> Instance:
    found = _find_caller()
    if found is None:
        hint = f"; name one in the header {INSTANCE_HEADER}" if current_app.config["by_header"] else ""
        raise ImdsError(404, {"error": f"Not found: no instance has the address {request.remote_addr}{hint}"})
    return found


def _walk(value: Any, path: str) -> Any:
    for part in filter(None, path.split("/")):
        if isinstance(value, dict):
            match = {key.lower(): key for key in value}.get(part.lower())
            if match is None:
                raise ImdsError(404, {"error": "Not found"})
            value = value[match]
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            raise ImdsError(404, {"error": "Not found"})
    return value


def _formatted(value: Any) -> Response:
    if request.args.get("format", "json").lower() != "text":
        return _json(value)
    if isinstance(value, dict):
        lines = [f"{key}/" if isinstance(below, dict | list) else key for key, below in value.items()]
    elif isinstance(value, list):
        lines = [f"{number}/" for number in range(len(value))]
    else:
        lines = [str(value)]
    return Response("\n".join(lines), content_type="text/plain; charset=utf-8")


def _json(body: Any, status: int = 200) -> Response:
    return Response(json.dumps(body), status=status, content_type="application/json; charset=utf-8")


def _bad(message: str) -> ImdsError:
    return ImdsError(400, {"error": message})


def _refusal(fault: Fault) -> Response:
    response = _json({"error": fault.message or fault.code or "The service is not available"}, fault.status)
    response.headers.update(fault.headers)
    return response
