# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""HTTP requests with a total timeout: without proxies and redirects, with retries after transient faults."""

from __future__ import annotations

import functools
import http.client
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Callable, TypeVar
from urllib.parse import urlencode

Sleep = Callable[[float], None]
_T = TypeVar("_T")

_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 5.0)
_FIRST_TIMEOUT_S = 10.0
"""Timeout of the first attempt; it doubles with each attempt. So a lost answer does not cost all the time, and a slow
answer arrives in the end."""
_LONGEST_ANSWER = 1 << 20


class NoAnswer(RuntimeError):
    """No answer, or only transient faults, until the timeout; the message is the last fault."""


class Refused(RuntimeError):
    """A permanent error answer, for which a retry is useless.

    :ivar status: HTTP status.
    :ivar body: the body of the answer.
    """

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"HTTP status {status}")
        self.status = status
        self.body = body


class _PassingFault(Exception):
    """A transient fault: the next attempt may succeed."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: the target is not the requested service, and must not get the headers."""

    def redirect_request(self, *_arguments: Any, **_named: Any) -> None:
        return None


def get(
    url: str,
    headers: Mapping[str, str],
    limit_s: float,
    passing: Collection[int],
    sleep: Sleep = time.sleep,
    form: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> bytes:
    """Return the body of a successful answer from ``url``, at most 1 MiB.

    It retries after timeouts, lost connections, and statuses of 500 and above or in ``passing``, until ``limit_s``
    seconds are over for all attempts together. Proxies of the environment are not used: a proxy would answer for its
    own machine, or could read secrets. TLS certificates are verified with the system's authorities.

    :param form: fields of a form to post, for requests with a secret, which must not be in a URL.
    :param body: what to post instead of a form.
    :raises Refused: any other status.
    :raises NoAnswer: no successful answer within ``limit_s``.
    """
    opener = _opener(url)
    posted = body if form is None else urlencode(form).encode()
    request = urllib.request.Request(url, data=posted, headers=dict(headers))
    deadline = time.monotonic() + limit_s
    for attempt in range(1_000_000):
        until = min(deadline, time.monotonic() + _FIRST_TIMEOUT_S * 2 ** min(attempt, 10))
        try:
            return _within(until, functools.partial(_ask, opener, request, passing, until))
        except _PassingFault as fault:
            pause = fault.retry_after or _PAUSES_S[min(attempt, len(_PAUSES_S) - 1)]
            if time.monotonic() + pause >= deadline:
                raise NoAnswer(str(fault)) from None
        sleep(pause)
    raise AssertionError("unreachable")


@dataclass(frozen=True)
class Exchanged:
    """An answer, whatever its status.

    :ivar headers: with names in lower case.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


def exchange(
    method: str, url: str, headers: Mapping[str, str], limit_s: float, body: bytes | None = None, longest: int = 1 << 23
) -> Exchanged:
    """Send one request, and return the answer of any status. It never retries: the caller knows what may be repeated.

    Proxies and redirects are not used, and TLS certificates are verified, as by ``get``.

    :param longest: the longest body to accept, in bytes.
    :raises NoAnswer: there was no complete answer within ``limit_s``.
    """
    request = urllib.request.Request(url, data=body, headers=dict(headers), method=method)
    opener = _opener(url)

    def ask() -> Exchanged:
        try:
            answer = opener.open(request, timeout=limit_s)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            named = {name.lower(): value for name, value in answer.headers.items()}
            return Exchanged(answer.status, named, answer.read(longest + 1))

    try:
        answered = _within(time.monotonic() + limit_s, ask)
    except _PassingFault as fault:
        raise NoAnswer(str(fault)) from None
    except (OSError, http.client.HTTPException) as error:
        raise NoAnswer(str(getattr(error, "reason", None) or error) or type(error).__name__) from None
    if len(answered.body) > longest:
        raise NoAnswer(f"the answer is longer than {longest} bytes")
    return answered


def _opener(url: str) -> urllib.request.OpenerDirector:
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({}), _NoRedirect()]
    if url.startswith("https:"):
        import ssl

        context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        handlers.append(urllib.request.HTTPSHandler(context=context))
    return urllib.request.build_opener(*handlers)


def _within(deadline: float, ask: Callable[[], _T]) -> _T:
    """Call ``ask``, and wait until the deadline at most.

    It runs in a thread, because a socket's timeout restarts with each byte, and name resolution has none.
    """
    ended: list[_T | BaseException] = []

    def work() -> None:
        try:
            ended.append(ask())
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(max(0.0, deadline - time.monotonic()))
    if not ended:
        raise _PassingFault("timed out")
    result = ended[0]
    if isinstance(result, BaseException):
        raise result
    return result


def _ask(
    opener: urllib.request.OpenerDirector,
    request: urllib.request.Request,
    passing: Collection[int],
    deadline: float,
) -> bytes:
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise _PassingFault("no time left")
    try:
        with opener.open(request, timeout=remaining) as answer:
            body: bytes = answer.read(_LONGEST_ANSWER + 1)
    except urllib.error.HTTPError as error:
        if error.code in passing or error.code >= 500:
            raise _PassingFault(f"HTTP status {error.code}", _seconds(error.headers.get("Retry-After"))) from None
        raise Refused(error.code, _body_of(error)) from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise _PassingFault(str(reason) or type(error).__name__) from None
    if len(body) > _LONGEST_ANSWER:
        raise _PassingFault("the answer is longer than 1 MiB")
    return body


def _body_of(error: urllib.error.HTTPError) -> bytes:
    try:
        return error.read(_LONGEST_ANSWER)
    except (OSError, http.client.HTTPException):
        return b""


def _seconds(retry_after: str | None) -> float | None:
    try:
        return max(0.0, float(retry_after or ""))
    except ValueError:
        return None
