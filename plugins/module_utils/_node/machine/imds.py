# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Azure's instance metadata service: the one place that speaks to it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from .http_get import NoAnswer, Refused, Sleep, get

ENDPOINT = "http://169.254.169.254"
"""The same address on every Azure VM; it is not routed any further than the host."""
API_VERSION = "2021-02-01"
"""``userData`` is there since 2021-01-01."""
TOKEN_API_VERSION = "2018-02-01"
EVENTS_API_VERSION = "2020-07-01"
"""The first one with ``DurationInSeconds``."""
LIMIT_S = 2.0
"""Seconds for all attempts together, where nobody waits for a machine to finish booting."""

# 404 and 410 come while the host still sets the service up, 429 above five questions a second.
_PASSING = (404, 408, 410, 429)


class ImdsError(RuntimeError):
    """The service did not say what this machine is; the message tells why."""


class TokenRefused(ImdsError):
    """The service has no such identity for this machine; the message tells what it said."""


def read_compute(
    limit_s: float = LIMIT_S,
    endpoint: str = ENDPOINT,
    headers: Mapping[str, str] | None = None,
    sleep: Sleep = time.sleep,
) -> dict[str, Any]:
    """Return the ``compute`` part of this machine's instance document; all plain values in it are strings.

    Asks again after what may pass (no route yet, no answer, 404 and 410 while the host sets the service up, 429, 5xx)
    until ``limit_s`` seconds are over, all attempts together.

    :param headers: further headers; the simulator takes one that names the instance.
    :raises ImdsError: there is no such service here, or it does not answer in time.
    """
    path = f"/metadata/instance/compute?api-version={API_VERSION}"
    try:
        document = _read(endpoint, path, headers, limit_s, sleep)
    except Refused as refused:
        raise ImdsError(f"the metadata service at {endpoint} answered with {refused}.") from None
    if not isinstance(document, dict) or not isinstance(document.get("vmSize"), str) or not document["vmSize"]:
        raise ImdsError(f"what answers at {endpoint} is not Azure's metadata service: no vmSize in its answer.")
    return document


def read_token(
    resource: str,
    client_id: str | None = None,
    limit_s: float = LIMIT_S,
    endpoint: str = ENDPOINT,
    headers: Mapping[str, str] | None = None,
    sleep: Sleep = time.sleep,
) -> str:
    """Return an access token of this machine's managed identity. It is a secret: not for logs, arguments or files.

    :param resource: what it is for, such as ``https://vault.azure.net``.
    :param client_id: which identity, where the machine has several.
    :raises TokenRefused: the machine has no such identity, or several and none was named.
    :raises ImdsError: there is no such service here, or it does not answer in time.
    """
    question = {"api-version": TOKEN_API_VERSION, "resource": resource}
    if client_id:
        question["client_id"] = client_id
    try:
        answer = _read(endpoint, f"/metadata/identity/oauth2/token?{urlencode(question)}", headers, limit_s, sleep)
    except Refused as refused:
        said = _description(refused.body)
        raise TokenRefused(
            f"the metadata service gives this machine no identity token: {refused}{said and f' ({said})'}."
        ) from None
    token = answer.get("access_token") if isinstance(answer, dict) else None
    # Only what fits into one header line.
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or " " in token or not token:
        raise ImdsError(f"what answers at {endpoint} is not Azure's metadata service: no access_token in its answer.")
    return token


def read_events(
    limit_s: float = LIMIT_S,
    endpoint: str = ENDPOINT,
    headers: Mapping[str, str] | None = None,
    sleep: Sleep = time.sleep,
) -> dict[str, Any]:
    """Return the document of scheduled events, those of this machine's whole scale set or availability set.

    The first question of all may take the service two minutes, in which it turns the events on.

    :raises ImdsError: there is no such service here, or it does not answer in time.
    """
    path = f"/metadata/scheduledevents?api-version={EVENTS_API_VERSION}"
    try:
        document = _read(endpoint, path, headers, limit_s, sleep)
    except Refused as refused:
        raise ImdsError(f"the metadata service at {endpoint} answered with {refused}.") from None
    if not isinstance(document, dict) or not isinstance(document.get("Events"), list):
        raise ImdsError(f"what answers at {endpoint} is not Azure's metadata service: no Events in its answer.")
    return document


def start_event(
    event_id: str,
    limit_s: float = LIMIT_S,
    endpoint: str = ENDPOINT,
    headers: Mapping[str, str] | None = None,
    sleep: Sleep = time.sleep,
) -> None:
    """Tell the service that this event need wait no longer, for all machines that it names.

    :raises ImdsError: the service does not take it.
    """
    body = json.dumps({"StartRequests": [{"EventId": event_id}]}).encode()
    all_headers = {**(headers or {}), "Metadata": "true", "Content-Type": "application/json"}
    url = f"{endpoint}/metadata/scheduledevents?api-version={EVENTS_API_VERSION}"
    try:
        get(url, all_headers, limit_s, _PASSING, sleep, body=body)
    except (NoAnswer, Refused) as error:
        raise ImdsError(f"the metadata service at {endpoint} did not take the start of an event: {error}.") from None


def _read(endpoint: str, path: str, headers: Mapping[str, str] | None, limit_s: float, sleep: Sleep) -> Any:
    try:
        body = get(f"{endpoint}{path}", {**(headers or {}), "Metadata": "true"}, limit_s, _PASSING, sleep)
    except NoAnswer as error:
        raise ImdsError(f"the metadata service at {endpoint} gave no answer in {limit_s:.3g} s: {error}") from None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _description(body: bytes) -> str:
    """What an error of the token service says, on one line; it names identities, never secrets."""
    try:
        said = json.loads(body)["error_description"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return " ".join(str(said).split())[:200]
