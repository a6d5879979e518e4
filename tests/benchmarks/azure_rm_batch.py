# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The additional interfaces of Azure that azure_rm uses: the batch, a single interface, the clouds, a token.

azure_rm requests single resources, 100 in a batch, with ``POST /batch?api-version=2015-11-01``, which Azure does not
document. Here a batch takes as long as one request, which is the best case: for large batches, the real Azure makes
clients poll every 3 seconds.
"""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import unquote, urlsplit

from flask import Blueprint, Flask, Response, current_app, request

from simulator import TOKEN
from simulator.arm import lookup, network
from simulator.arm.context import JSON, context, one
from simulator.arm.errors import resource_not_found

INTERFACE = (
    "/subscriptions/<subscription>/resourcegroups/<group>/providers/microsoft.compute/virtualmachinescalesets/<name>"
    "/virtualmachines/<instance_id>/networkinterfaces/<interface>"
)
CLOUDS = "/metadata/endpoints"
TOKENS = "/identity/token"


def extend(app: Flask) -> None:
    """Add these interfaces to the simulated Resource Manager."""
    blueprint = Blueprint("azure_rm", __name__)
    blueprint.add_url_rule(INTERFACE, view_func=show_set_interface)
    blueprint.add_url_rule("/batch", view_func=Batch().answer, methods=["POST"], endpoint="batch")
    app.register_blueprint(blueprint)


def show_set_interface(subscription: str, group: str, name: str, instance_id: str, interface: str) -> Response:
    """The interface of a Uniform instance, by its name."""
    instance = lookup.member(group, name, instance_id)
    if not instance.has_interfaces or instance.interface_name.lower() != interface.lower():
        raise resource_not_found("Microsoft.Compute/virtualMachineScaleSets/networkInterfaces", interface, group)
    return one(network.encode_interface(instance))


class Batch:
    """Many requests in one.

    Answers are cached, because nothing changes during the benchmark, and it measures the client, not the simulator's
    speed. Each request is still counted.
    """

    def __init__(self) -> None:
        self._answers: dict[str, tuple[int, bytes]] = {}

    def answer(self) -> Response:
        """Handle one batch."""
        requests = request.get_json()["requests"]
        parts = [self._part(str(item["name"]), str(item["url"])) for item in requests]
        return Response(b'{"responses":[' + b",".join(parts) + b"]}", content_type=JSON)

    def _part(self, name: str, url: str) -> bytes:
        if url in self._answers:
            address = urlsplit(url)
            context().requests["arm"].add("GET", address.path, unquote(address.query), self._answers[url][0])
        else:
            headers = {"Authorization": request.headers["Authorization"]}
            answer = current_app.test_client().get(url, headers=headers)
            self._answers[url] = answer.status_code, answer.get_data()
        status, content = self._answers[url]
        head = json.dumps({"name": name, "httpStatusCode": status, "headers": {}, "contentLength": len(content)})
        return head[:-1].encode() + b',"content":' + content + b"}"


def clouds(resource_manager: str) -> list[dict[str, Any]]:
    """The list of clouds for Azure's clients, with only the simulated cloud."""
    login = {"loginEndpoint": "https://localhost", "audiences": [resource_manager], "tenant": "common"}
    return [{"name": "Simulated", "resourceManager": resource_manager, "authentication": login, "suffixes": {}}]


def token() -> dict[str, str]:
    """The token of a managed identity."""
    expires = str(int(time.time()) + 86400)
    return {"access_token": TOKEN, "expires_on": expires, "resource": "", "token_type": "Bearer"}
