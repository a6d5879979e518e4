# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply faults: change, delay, replace or drop an answer."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Callable

from flask import Response, g, request

from simulator.faults import Fault, Faults, strip

JSON = "application/json; charset=utf-8"


def delay(seconds: float) -> None:
    """Add latency."""
    if seconds > 0:
        time.sleep(seconds)


def before(fault: Fault, faults: Faults, refuse: Callable[[Fault], Response]) -> Response | None:
    """The answer that replaces the real one, or None if the fault only changes or delays it.

    ``refuse`` makes an error answer in the service's own format.
    """
    if fault.action == "hang":
        faults.released.wait(fault.delay_s)
        return _dropped()
    delay(fault.delay_s or 0)
    if fault.action == "drop":
        return _dropped()
    if fault.action == "garbage":
        return Response(b'{"value": [{"name": "<html>502 Bad', content_type=JSON)
    return refuse(fault) if fault.action == "status" else None


def after(fault: Fault, response: Response) -> Response:
    """The real answer, changed by the fault."""
    if fault.action not in ("strip", "repeat_next_link") or response.status_code >= 300:
        return response
    body = json.loads(response.get_data())
    if fault.action == "repeat_next_link":
        body["nextLink"] = request.url if "://" in request.url else ""
    else:
        for path in fault.fields:
            strip(body.get("value", body) if fault.service == "arm" else body, path)
    response.set_data(json.dumps(body))
    return response


def drop() -> None:
    """Close the connection without an answer. It is a reset, so that the client cannot read it as a normal end."""
    connection: socket.socket = request.environ["werkzeug.socket"]
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.shutdown(socket.SHUT_RDWR)


def _dropped() -> Response:
    """An answer that is not sent: the connection is closed after the request was logged."""
    g.dropped = True
    return Response(b"", status=500)
