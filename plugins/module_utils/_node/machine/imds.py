# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Azure's instance metadata service: the one place that speaks to it."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Callable

ENDPOINT = "http://169.254.169.254"
"""The same address on every Azure VM; it is not routed any further than the host."""
API_VERSION = "2021-02-01"
LIMIT_S = 2.0
"""Seconds for all attempts together, where nobody waits for a machine to finish booting."""

_PATH = f"/metadata/instance/compute?api-version={API_VERSION}"
# 404 and 410 come while the host still sets the service up, 429 above five questions a second.
_PASSING = (404, 408, 410, 429)
_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 5.0)
_LONGEST_ANSWER = 1 << 20


class ImdsError(RuntimeError):
    """The service did not say what this machine is; the message tells why."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Azure's service never redirects; what does is something else at that address."""

    def redirect_request(self, *_arguments: Any, **_named: Any) -> None:
        return None


# Without proxies, whatever the environment says: a proxy would ask about the machine that it runs on itself.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())


def read_compute(
    limit_s: float = LIMIT_S,
    endpoint: str = ENDPOINT,
    headers: Mapping[str, str] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Return the ``compute`` part of this machine's instance document; all plain values in it are strings.

    Asks again after what may pass (no route yet, no answer, 404 and 410 while the host sets the service up, 429, 5xx)
    until ``limit_s`` seconds are over, all attempts together.

    :param headers: further headers; the simulator takes one that names the instance.
    :raises ImdsError: there is no such service here, or it does not answer in time.
    """
    deadline = time.monotonic() + limit_s
    for attempt in range(1_000_000):
        try:
            return _ask(endpoint, dict(headers or {}), deadline)
        except _PassingFault as fault:
            pause = fault.retry_after or _PAUSES_S[min(attempt, len(_PAUSES_S) - 1)]
            if time.monotonic() + pause >= deadline:
                raise ImdsError(
                    f"the metadata service at {endpoint} gave no answer in {limit_s:g} s: {fault}"
                ) from None
        sleep(pause)
    raise AssertionError("unreachable")


class _PassingFault(Exception):
    """Something that may be gone with the next attempt."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


def _ask(endpoint: str, headers: dict[str, str], deadline: float) -> dict[str, Any]:
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise _PassingFault("no time left")
    request = urllib.request.Request(f"{endpoint}{_PATH}", headers={**headers, "Metadata": "true"})
    try:
        with _OPENER.open(request, timeout=remaining) as answer:
            body = _read(answer, deadline)
    except urllib.error.HTTPError as error:
        if error.code in _PASSING or error.code >= 500:
            raise _PassingFault(f"HTTP status {error.code}", _seconds(error.headers.get("Retry-After"))) from None
        raise ImdsError(f"the metadata service at {endpoint} answered with HTTP status {error.code}.") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise _PassingFault(str(reason) or type(error).__name__) from None
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict) or not isinstance(document.get("vmSize"), str) or not document["vmSize"]:
        raise ImdsError(f"what answers at {endpoint} is not Azure's metadata service: no vmSize in its answer.")
    return document


def _read(answer: http.client.HTTPResponse, deadline: float) -> bytes:
    """Read the body by the deadline; the socket's own timeout starts anew with each byte."""
    body = b""
    while len(body) <= _LONGEST_ANSWER:
        part = answer.read1(65536)
        if not part:
            break
        body += part
        if time.monotonic() > deadline:
            raise _PassingFault("the answer did not end")
    return body


def _seconds(retry_after: str | None) -> float | None:
    try:
        return max(0.0, float(retry_after or ""))
    except ValueError:
        return None
