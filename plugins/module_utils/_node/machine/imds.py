# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Azure's instance metadata service: instance data, tokens, scheduled events, user data. No other file queries it."""

from __future__ import annotations

import base64
import binascii
import calendar
import email.utils
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from .config import SCHEMA, ConfigError
from .http_get import NoAnswer, Refused, Sleep, get

ENDPOINT = "http://169.254.169.254"
"""The same address on every Azure VM; it is routed only to the physical host."""
API_VERSION = "2021-02-01"
"""``userData`` exists since 2021-01-01."""
TOKEN_API_VERSION = "2018-02-01"
EVENTS_API_VERSION = "2020-07-01"
"""The first version with ``DurationInSeconds``."""
LIMIT_S = 2.0
"""Timeout for all attempts together, for a machine that has finished booting."""

# 404 and 410 occur while the host still sets up the service, 429 above five requests per second.
_PASSING = (404, 408, 410, 429)


class ImdsError(RuntimeError):
    """The service did not return the requested data; the message says why."""


class TokenRefused(ImdsError):
    """The service has no such identity for this machine; the message contains its answer."""


def read_compute(
    limit_s: float = LIMIT_S,
    endpoint: str = ENDPOINT,
    headers: Mapping[str, str] | None = None,
    sleep: Sleep = time.sleep,
) -> dict[str, Any]:
    """Return the ``compute`` part of this machine's instance document; all plain values in it are strings.

    It retries after transient faults (no route yet, no answer, 404 and 410 while the host sets up the service, 429,
    5xx) until ``limit_s`` seconds are over for all attempts together.

    :param headers: further headers; for the simulator, one that names the instance.
    :raises ImdsError: there is no such service here, or it does not answer in time.
    """
    path = f"/metadata/instance/compute?api-version={API_VERSION}"
    try:
        document = _read(endpoint, path, headers, limit_s, sleep)
    except Refused as refused:
        raise ImdsError(f"the metadata service at {endpoint} answered with {refused}.") from None
    if not isinstance(document, dict) or not isinstance(document.get("vmSize"), str) or not document["vmSize"]:
        raise ImdsError(f"{endpoint} is not Azure's metadata service: no vmSize in its answer.")
    return document


def read_token(
    resource: str,
    client_id: str | None = None,
    limit_s: float = LIMIT_S,
    endpoint: str = ENDPOINT,
    headers: Mapping[str, str] | None = None,
    sleep: Sleep = time.sleep,
) -> str:
    """Return an access token of this machine's managed identity. It is a secret: never write it to logs, arguments or
    files.

    :param resource: the service that it is for, such as ``https://vault.azure.net``.
    :param client_id: which identity to use if the machine has several.
    :raises TokenRefused: the machine has no such identity, or several and none was named.
    :raises ImdsError: there is no such service here, or it does not answer in time.
    """
    question = {"api-version": TOKEN_API_VERSION, "resource": resource}
    if client_id:
        question["client_id"] = client_id
    try:
        answer = _read(endpoint, f"/metadata/identity/oauth2/token?{urlencode(question)}", headers, limit_s, sleep)
    except Refused as refused:
        description = _description(refused.body)
        more = f" ({description})" if description else ""
        raise TokenRefused(f"the metadata service refuses this machine an identity token: {refused}{more}.") from None
    token = answer.get("access_token") if isinstance(answer, dict) else None
    # Accept only a text that is valid in one header line.
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or " " in token or not token:
        raise ImdsError(f"{endpoint} is not Azure's metadata service: no access_token in its answer.")
    return token


def read_events(
    limit_s: float = LIMIT_S,
    endpoint: str = ENDPOINT,
    headers: Mapping[str, str] | None = None,
    sleep: Sleep = time.sleep,
) -> dict[str, Any]:
    """Return the document of scheduled events for all machines of this machine's scale set or availability set.

    The very first request may take two minutes, in which the service enables scheduled events.

    :raises ImdsError: there is no such service here, or it does not answer in time.
    """
    path = f"/metadata/scheduledevents?api-version={EVENTS_API_VERSION}"
    try:
        document = _read(endpoint, path, headers, limit_s, sleep)
    except Refused as refused:
        raise ImdsError(f"the metadata service at {endpoint} answered with {refused}.") from None
    if not isinstance(document, dict) or not isinstance(document.get("Events"), list):
        raise ImdsError(f"{endpoint} is not Azure's metadata service: no Events in its answer.")
    return document


def start_event(
    event_id: str,
    limit_s: float = LIMIT_S,
    endpoint: str = ENDPOINT,
    headers: Mapping[str, str] | None = None,
    sleep: Sleep = time.sleep,
) -> None:
    """Ask the service to start this event now, for all machines that it affects.

    :raises ImdsError: the service does not accept it.
    """
    body = json.dumps({"StartRequests": [{"EventId": event_id}]}).encode()
    all_headers = {**(headers or {}), "Metadata": "true", "Content-Type": "application/json"}
    url = f"{endpoint}/metadata/scheduledevents?api-version={EVENTS_API_VERSION}"
    try:
        get(url, all_headers, limit_s, _PASSING, sleep, body=body)
    except (NoAnswer, Refused) as error:
        raise ImdsError(f"the metadata service at {endpoint} did not start the event: {error}.") from None


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
    """Return the token service's error message on one line; it contains names of identities, but never secrets."""
    try:
        description = json.loads(body)["error_description"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return " ".join(str(description).split())[:200]


PREEMPT, TERMINATE, REDEPLOY, REBOOT, FREEZE = "Preempt", "Terminate", "Redeploy", "Reboot", "Freeze"
ENDING = (PREEMPT, TERMINATE, REDEPLOY, REBOOT)
"""The events that end the machine's processes. A freeze only pauses them for seconds."""
STARTED = "Started"


@dataclass(frozen=True)
class ScheduledEvent:
    """An announced event.

    :ivar resources: names of the machines that it affects.
    :ivar not_before: its earliest time, in seconds since 1970; None after it has started.
    """

    id: str
    kind: str
    resources: tuple[str, ...]
    status: str
    not_before: float | None
    duration_s: int

    @property
    def is_ending(self) -> bool:
        """Whether it ends the machine's processes."""
        return self.kind in ENDING

    def meets(self, machine: str) -> bool:
        """Whether it affects a machine. Azure's names are case-insensitive."""
        return machine.lower() in (one.lower() for one in self.resources)

    @property
    def is_for_one(self) -> bool:
        """Whether it affects only one machine: only then may that machine start it early."""
        return len(self.resources) == 1


def events_of(document: Mapping[str, Any], machine: str) -> list[ScheduledEvent]:
    """Return the events of a document that affect a machine, the next one first."""
    found = [_event(given) for given in document.get("Events") or [] if isinstance(given, Mapping)]
    meeting = [event for event in found if event.meets(machine)]
    return sorted(meeting, key=lambda event: (event.not_before or 0.0, event.id))


def _event(given: Mapping[str, Any]) -> ScheduledEvent:
    resources, duration = given.get("Resources"), given.get("DurationInSeconds")
    return ScheduledEvent(
        id=str(given.get("EventId") or ""),
        kind=str(given.get("EventType") or ""),
        resources=tuple(str(one) for one in resources) if isinstance(resources, list) else (),
        status=str(given.get("EventStatus") or ""),
        not_before=_event_time(str(given.get("NotBefore") or "")),
        duration_s=duration if isinstance(duration, int) else -1,
    )


def _event_time(text: str) -> float | None:
    """Return seconds since 1970 of a date such as ``Mon, 19 Sep 2016 18:29:47 GMT``; None if there is none."""
    found = email.utils.parsedate_tz(text)
    return float(calendar.timegm((*found[:6], 0, 0, 0)) - (found[9] or 0)) if found else None


USER_DATA_KEY = "hpcai"
"""The key of the cluster's settings in the user data."""
_LONGEST_USER_DATA = 87384
"""Limit in characters: 64 KiB, the maximum in Azure, in base64."""

_IN_USER_DATA = f"'{USER_DATA_KEY}' in the machine's user data"
_CURE = "correct the user data of the scale set (guide_joining) and restart the machine"


def settings_in(user_data: str) -> tuple[Mapping[str, Any] | None, str]:
    """Return the settings for this collection without the schema version, or None and why there are none.

    The site may use user data for other purposes: a shell script, YAML or no user data is not an error. Settings must
    be JSON; lines before it that start with ``#``, such as ``#cloud-config``, are ignored.

    :param user_data: base64, as the metadata service returns it.
    :raises ConfigError: there are settings, but they are invalid.
    """
    if not user_data.strip():
        return None, "the machine has no user data"
    if len(user_data) > _LONGEST_USER_DATA:
        return None, "the user data is longer than 64 KiB"
    try:
        text = base64.b64decode("".join(user_data.split()), validate=True).decode("utf-8-sig")
    except (binascii.Error, ValueError):
        return None, "the user data is not valid base64 text"
    lines = text.splitlines()
    while lines and (not lines[0].strip() or lines[0].startswith("#")):
        del lines[0]
    text = "\n".join(lines)
    if not text.startswith("{"):
        yaml = any(line.startswith(f"{USER_DATA_KEY}:") for line in lines)
        return None, f"the user data is not JSON{f': write {USER_DATA_KEY} as JSON, not as YAML' if yaml else ''}"
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        if f'"{USER_DATA_KEY}"' in text:
            # Show the position, not the text: user data may contain secrets.
            position = f" (line {error.lineno} of the JSON)" if isinstance(error, json.JSONDecodeError) else ""
            raise ConfigError(f"{_IN_USER_DATA} is not valid JSON{position}: {_CURE}.") from None
        return None, "the user data is not JSON"
    if USER_DATA_KEY not in document:
        return None, f"the user data has no '{USER_DATA_KEY}'"
    return _settings_of(document[USER_DATA_KEY]), ""


def _settings_of(stated: Any) -> Mapping[str, Any]:
    if not isinstance(stated, dict):
        raise ConfigError(f"{_IN_USER_DATA} is not a JSON object: {_CURE}.")
    schema = stated.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise ConfigError(f"{_IN_USER_DATA} has no schema version: {_CURE}.")
    if schema > SCHEMA:
        raise ConfigError(
            f"{_IN_USER_DATA} has schema {schema}, but this hpcnode supports at most {SCHEMA}: bake a new image with "
            f"the version of the collection that wrote the user data."
        )
    return {key: value for key, value in stated.items() if key != "schema"}
