# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults and request log for the services that machines use (metadata, key vaults)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import unquote

from flask import Flask, Response, g, request

from simulator import misbehaviour
from simulator.faults import Fault, Faults
from simulator.requestlog import RequestLog
from simulator.resources import Instance


@dataclass(frozen=True)
class Front:
    """Applies faults to the requests of one service, and logs them.

    :ivar service: its name in fault rules.
    :ivar caller: returns the machine that sends the request, or None if it is unknown.
    :ivar refuse: returns an error answer for a fault in the service's own format.
    """

    service: str
    caller: Callable[[], Instance | None]
    refuse: Callable[[Fault], Response]
    faults: Faults = field(default_factory=Faults)
    requests: RequestLog = field(default_factory=RequestLog)

    def install(self, app: Flask) -> None:
        """Handle every request of an application here first, before all of its own checks."""
        app.before_request_funcs.setdefault(None, []).insert(0, self._begin)
        app.after_request(self._finish)

    def _begin(self) -> Response | None:
        caller = self.caller()
        g.caller = caller.name if caller is not None else ""
        text = f"{request.method} {request.path}"
        if request.query_string:
            text += f"?{unquote(request.query_string.decode())}"
        g.fault = self.faults.applying(text, self.service, caller.all_names if caller is not None else frozenset())
        return misbehaviour.before(g.fault, self.faults, self.refuse) if g.fault else None

    def _finish(self, response: Response) -> Response:
        fault = g.get("fault")
        if fault is not None:
            response = misbehaviour.after(fault, response)
        dropped = bool(g.get("dropped"))
        status = 0 if dropped else response.status_code
        query = unquote(request.query_string.decode())
        self.requests.add(request.method, request.path, query, status, caller=g.get("caller", ""))
        if dropped:
            misbehaviour.drop()
        return response
