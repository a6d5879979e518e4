# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Boot diagnostics with storage managed by Azure: Resource Manager returns signed URLs, and storage returns the logs.

The published example of ``retrieveBootDiagnosticsData`` has the two URLs and no error. According to a user's report,
Azure answers 409 OperationNotAllowed for a machine without boot diagnostics; Azure's documentation does not say so.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from urllib.parse import urlencode

from flask import Blueprint, Response, jsonify, request

from simulator import console
from simulator.arm import lookup, machines, set_instances
from simulator.arm.context import context
from simulator.arm.errors import bad_parameter, conflict
from simulator.arm.paging import query
from simulator.resources import Instance

blueprint = Blueprint("boot_diagnostics", __name__)
ACTION = "retrievebootdiagnosticsdata"
STORAGE = "/bootdiagnostics/"
"""Where the logs are, as on a separate storage account: access requires the signature, not a token."""
_KEY = secrets.token_bytes(32)
_LONGEST_MINUTES = 1440


@blueprint.post(f"{machines.GROUP}/<name>/{ACTION}")
def of_machine(subscription: str, group: str, name: str) -> Response:
    """The URLs of a virtual machine's logs."""
    return _addresses(lookup.machine(group, name))


@blueprint.post(f"{set_instances.ALL}/<instance_id>/{ACTION}")
def of_instance(subscription: str, group: str, name: str, instance_id: str) -> Response:
    """The URLs of an instance's logs."""
    return _addresses(lookup.member(group, name, instance_id))


@blueprint.get(f"{STORAGE}<vm_id>/<name>.serialconsole.log")
def log(vm_id: str, name: str) -> Response:
    """The log of a serial console, for requests with its signed URL."""
    parameters = request.args
    signed = hmac.compare_digest(_signature(vm_id, parameters.get("se", "")), parameters.get("sig", ""))
    if "Authorization" in request.headers or not signed or float(parameters["se"]) < time.time():
        return _refused(403, "AuthenticationFailed", "Server failed to authenticate the request.")
    machine = context().model.find_caller(vm_id)
    if machine is None:
        return _refused(404, "BlobNotFound", "The specified blob does not exist.")
    return Response(console.log(machine), content_type="application/octet-stream")


def _addresses(machine: Instance) -> Response:
    minutes = query().get("sasuriexpirationtimeinminutes") or "120"
    if not minutes.isdigit() or not 1 <= int(minutes) <= _LONGEST_MINUTES:
        raise bad_parameter("sasUriExpirationTimeInMinutes", f"'{minutes}' is not between 1 and {_LONGEST_MINUTES}")
    if not machine.boot_diagnostics:
        raise conflict(f"Boot diagnostics is not enabled for the VM '{machine.name}'.")
    end = str(int(time.time()) + 60 * int(minutes))
    signed = urlencode({"sv": "2018-03-28", "sr": "b", "sp": "r", "se": end, "sig": _signature(machine.vm_id, end)})
    base = f"{request.host_url.rstrip('/')}{STORAGE}{machine.vm_id}/{machine.name}"
    return jsonify(
        {
            "consoleScreenshotBlobUri": f"{base}.screenshot.bmp?{signed}",
            "serialConsoleLogBlobUri": f"{base}.serialconsole.log?{signed}",
        }
    )


def _signature(vm_id: str, end: str) -> str:
    return hmac.new(_KEY, f"{vm_id.lower()} {end}".encode(), hashlib.sha256).hexdigest()


def _refused(status: int, code: str, message: str) -> Response:
    """An error in the format of Azure Storage."""
    text = f'<?xml version="1.0" encoding="utf-8"?><Error><Code>{code}</Code><Message>{message}</Message></Error>'
    return Response(text, status=status, content_type="application/xml", headers={"x-ms-error-code": code})
