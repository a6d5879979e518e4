# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated Azure Resource Manager: one Flask application, its routes split by kind of resource."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import unquote

from flask import Flask, Response, g, request
from werkzeug.exceptions import HTTPException

from simulator import admin, misbehaviour
from simulator.arm import (
    authorization,
    boot_diagnostics,
    catalog,
    deployments,
    documents,
    galleries,
    impacts,
    longrunning,
    machines,
    network,
    prices,
    scale_sets,
    set_instances,
    storage,
    versions,
)
from simulator.arm.context import Context, context
from simulator.arm.errors import ArmError, refusal, subscription_not_found
from simulator.arm.paging import query
from simulator.arm.provision import rights
from simulator.tokens import MANAGERS

log = logging.getLogger(__name__)
ADMIN = "/_simulator"
_WITHOUT_TOKEN = (boot_diagnostics.STORAGE, storage.DATA, prices.PATH)
"""Beginnings of the paths that belong to services other than Resource Manager."""
API_VERSION = re.compile(r"\d{4}-\d{2}-\d{2}(-preview)?")


class LowerCasePaths:
    """Ignores the case of paths, as Resource Manager does: routes and the keys of lookups are in lower case."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Handle one request."""
        path = environ["PATH_INFO"].encode("latin-1").decode("utf-8", "replace")
        environ["simulator.path"] = path
        environ["PATH_INFO"] = path.lower().rstrip("/").encode("utf-8").decode("latin-1")
        return self._application(environ, start_response)


def create_app(state: Context) -> Flask:
    """The application for one simulator."""
    app = Flask("simulator", static_folder=None)
    app.config["context"] = state
    parts = (boot_diagnostics, scale_sets, set_instances, machines, galleries, network, impacts, longrunning, admin)
    for part in (*parts, deployments, catalog, prices, authorization, storage, documents):
        app.register_blueprint(part.blueprint)
    app.wsgi_app = LowerCasePaths(app.wsgi_app)  # type: ignore[method-assign]
    app.before_request(_begin)
    app.after_request(_finish)
    app.register_error_handler(ArmError, ArmError.response)
    app.register_error_handler(HTTPException, _unknown)
    app.register_error_handler(Exception, _broken)
    return app


def _begin() -> Response | None:
    """Apply latency and faults, and check the request before any resource is looked up."""
    if request.path.startswith(ADMIN):
        return None
    text = f"{request.method} {request.environ['simulator.path']}"
    if request.query_string:
        text += f"?{unquote(request.query_string.decode())}"
    misbehaviour.delay(context().options.latency_ms / 1000)
    g.fault = context().faults.applying(text)
    answer = misbehaviour.before(g.fault, context().faults, refusal) if g.fault else None
    if answer is None and not request.path.startswith(_WITHOUT_TOKEN):
        _check_request()
    return answer


def _finish(response: Response) -> Response:
    """Apply a fault to the answer, and log the request."""
    if request.path.startswith(ADMIN):
        return response
    fault = g.get("fault")
    if fault is not None:
        response = misbehaviour.after(fault, response)
    response.headers["x-ms-request-id"] = str(uuid.uuid4())
    response.headers["x-ms-correlation-request-id"] = str(uuid.uuid4())
    dropped = bool(g.get("dropped"))
    status = 0 if dropped else response.status_code
    # The query of a boot log's URL contains its signature, which gives access to the log.
    logged_query = "" if request.path.startswith(boot_diagnostics.STORAGE) else unquote(request.query_string.decode())
    context().requests["arm"].add(request.method, request.environ["simulator.path"], logged_query, status)
    if dropped:
        misbehaviour.drop()
    return response


def _unknown(error: HTTPException) -> Response:
    if error.code == 405:
        message = f"The requested resource does not support http method '{request.method}'."
        return ArmError(405, "HttpMethodNotAllowed", message).response()
    path = request.environ["simulator.path"]
    return ArmError(404, "InvalidResourceType", f"The resource type could not be found: {path}").response()


def _broken(error: Exception) -> Response:
    log.exception("%s %s", request.method, request.path)
    return ArmError(500, "InternalServerError", f"The simulator failed: {error!r}").response()


def _check_request() -> None:
    """Check the token, the api-version and the subscription before anything else, as Azure does."""
    authorization = request.headers.get("Authorization", "")
    if not authorization:
        raise _unauthorized("AuthenticationFailed", "Authentication failed. The 'Authorization' header is missing.")
    scheme, _blank, token = authorization.partition(" ")
    grant = context().model.tokens.find(token)
    if scheme != "Bearer" or grant is None or grant.audience not in MANAGERS:
        raise _unauthorized("InvalidAuthenticationToken", "The access token is invalid.")
    version = query().get("api-version")
    if not version:
        raise ArmError(
            400,
            "MissingApiVersionParameter",
            "The api-version query parameter (?api-version=) is required for all requests.",
        )
    if not API_VERSION.fullmatch(version):
        raise ArmError(
            400,
            "InvalidApiVersionParameter",
            f"The api-version '{version}' is invalid. The supported versions are of the form 'yyyy-MM-dd'.",
        )
    versions.check(versions.type_of(request.method, request.path), version)
    subscription = (request.view_args or {}).get("subscription")
    if subscription is not None and subscription.lower() != context().model.subscription.lower():
        raise subscription_not_found(subscription)
    if grant.principals:
        path, expand = request.environ["simulator.path"], query().get("$expand") or ""
        rights.check_identity(context(), grant.principals, request.method, path, expand)


def _unauthorized(code: str, message: str) -> ArmError:
    return ArmError(
        401, code, message, {"WWW-Authenticate": f'Bearer error="invalid_token", error_description="{message}"'}
    )
