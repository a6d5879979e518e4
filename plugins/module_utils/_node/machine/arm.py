# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Requests to Azure Resource Manager with this machine's identity: lists, changes, and operations."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Callable
from urllib.parse import urlsplit

from .http_get import Exchanged, NoAnswer, exchange

LIMIT_S = 20.0
"""Timeout of one request."""
TOKEN_S = 1800.0
"""A token is valid for at least an hour (Azure: 1 to 24 hours); a new one is fetched after this time."""
MOST_PAGES = 100
"""No scale set has so many pages; a list that refers to itself would never end."""


class ArmError(RuntimeError):
    """A request failed; the message is one line, without any part of the token.

    :ivar status: HTTP status; 0 without an answer.
    :ivar code: Azure's innermost error code; empty without one.
    :ivar retry_s: how long Azure asks to wait; 0 if it does not.
    :ivar words: Azure's own message for that code; empty without one.
    """

    def __init__(self, message: str, status: int = 0, code: str = "", retry_s: float = 0.0, words: str = "") -> None:
        super().__init__(message)
        self.status, self.code, self.retry_s, self.words = status, code, retry_s, words


class ForeignHost(ArmError):
    """A link leads to another host, which must not get the token. Nothing was sent."""


@dataclass(frozen=True)
class Answer:
    """An answer.

    :ivar body: the JSON object; empty if there is none.
    :ivar headers: with names in lower case.
    """

    body: Mapping[str, Any]
    headers: Mapping[str, str]

    @property
    def etag(self) -> str:
        """The resource's etag."""
        return str(self.body.get("etag") or self.headers.get("etag") or "")


class ResourceManager:
    """Azure Resource Manager of one cloud.

    :param endpoint: its URL without a path.
    :param fetch_token: fetches a token for it.
    """

    def __init__(
        self,
        endpoint: str,
        fetch_token: Callable[[], str],
        clock: Callable[[], float] = time.monotonic,
        send: Callable[..., Exchanged] = exchange,
    ) -> None:
        self.endpoint = endpoint.rstrip("/")
        self._fetch_token, self._clock, self._send = fetch_token, clock, send
        self._token: tuple[str, float] | None = None

    def get(self, path: str) -> Answer:
        """Return a resource.

        :param path: with its query; or a complete URL, as in nextLink, which must be of this endpoint.
        :raises ArmError: no answer, or a refusal.
        """
        return self._ask("GET", path)

    def pages(self, path: str) -> Iterator[Mapping[str, Any]]:
        """Yield all resources of a list.

        :raises ArmError: a page is missing, so the list is not complete.
        """
        following: str = path
        for _number in range(MOST_PAGES):
            body = self._ask("GET", following).body
            if not isinstance(body.get("value"), list):
                raise ArmError(f"{self._at(following)} is not a list of Resource Manager")
            yield from body["value"]
            following = str(body.get("nextLink") or "")
            if not following:
                return
        raise ArmError(f"{self._at(path)} has more than {MOST_PAGES} pages")

    def change(self, method: str, path: str, body: Mapping[str, Any], etag: str = "") -> Answer:
        """Change a resource, and return the answer. It is never repeated.

        :param etag: the change is refused with status 412 if the resource has another etag.
        :raises ArmError: no answer, or a refusal.
        """
        return self._ask(method, path, json.dumps(body).encode(), {"If-Match": etag} if etag else {})

    def _ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        url = self._at(path)
        sent = {"Authorization": f"Bearer {self._fresh_token()}", "Accept": "application/json", **(headers or {})}
        if body is not None:
            sent["Content-Type"] = "application/json"
        where = f"{method} {urlsplit(url).path}"
        try:
            answered = self._send(method, url, sent, LIMIT_S, body)
        except NoAnswer as error:
            raise ArmError(f"{where}: no answer: {error}") from None
        parsed = _json(answered.body)
        if answered.status == 401:
            self._token = None
        if not 200 <= answered.status < 300:
            code, message = innermost(parsed.get("error"))
            retry_s = _seconds(answered.headers.get("retry-after")) if answered.status in (429, 503) else 0.0
            retry_s = max(retry_s, 1.0) if answered.status == 429 else retry_s
            line = f"{where}: HTTP status {answered.status}" + (f": {code}: {message}" if code else "")
            raise ArmError(line, answered.status, code, retry_s, message)
        return Answer(parsed, answered.headers)

    def _at(self, path: str) -> str:
        """Return the URL. The token is sent to no other host."""
        if path.startswith("/"):
            return f"{self.endpoint}{path}"
        found = _host(path)
        if not found or found != _host(self.endpoint):
            raise ForeignHost(f"Resource Manager refers to another host: {path.partition('?')[0][:200]}")
        return path

    def _fresh_token(self) -> str:
        if self._token is None or self._clock() - self._token[1] > TOKEN_S:
            self._token = (self._fetch_token(), self._clock())
        return self._token[0]


def _host(url: str) -> tuple[str, str, int | None] | None:
    """Return the scheme, the host and the port of a URL; None if it is not plain. Azure's links name the port."""
    try:
        split = urlsplit(url)
        port = split.port or {"https": 443, "http": 80}.get(split.scheme)
    except ValueError:
        return None
    return (split.scheme, split.hostname, port) if split.hostname and split.username is None else None


def innermost(error: Any) -> tuple[str, str]:
    """Return the code and the message of an error body: the innermost of nested ``details``, which names the cause."""
    code, message = "", ""
    while isinstance(error, Mapping):
        code = str(error.get("code") or code)
        message = " ".join(str(error.get("message") or message).split())[:300]
        details = error.get("details")
        error = details[0] if isinstance(details, list) and details else error.get("innererror")
    return code, message


def _json(body: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _seconds(text: str | None) -> float:
    try:
        return max(0.0, float(text or 0))
    except ValueError:
        return 0.0
