# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What happens to each request on its way through the SDK's pipeline."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .cloud import is_loopback
from .deadline import Deadline
from .errors import DeadlineExceeded, Throttled, UnreadableAnswer, throttle_summary

if TYPE_CHECKING:
    from azure.core.pipeline import PipelineRequest, PipelineResponse
    from azure.core.pipeline.policies import RetryPolicy, SansIOHTTPPolicy
else:
    try:
        from azure.core.pipeline.policies import RetryPolicy, SansIOHTTPPolicy
    except ImportError:
        # The plugin says what is missing; this file must stay importable for it.
        RetryPolicy = SansIOHTTPPolicy = object

# One request may take this share of the whole time, so that one that hangs can be asked again ...
_SHARE_OF_REQUEST = 0.25
# ... but never less than this: a large page with instance views takes Azure seconds.
_SECONDS_OF_REQUEST = 30.0
# Server errors and broken connections: tried again after 0, 1 and 2 seconds.
_RETRIES = 3
_BACKOFF_FACTOR = 0.5
_LONGEST_BACKOFF = 30.0


class AllowLoopbackHttp(SansIOHTTPPolicy):
    """Lets a token go over plain http, to this machine only: the SDK refuses it anywhere."""

    def on_request(self, request: PipelineRequest[Any]) -> None:
        """Lift the SDK's refusal for this request, if it stays on this machine (a nextLink might not)."""
        if is_loopback(urlsplit(request.http_request.url).hostname):
            request.context.options.setdefault("enforce_https", False)


class OnlyLists(SansIOHTTPPolicy):
    """Refuses an answer that is no list. The SDK's newer releases take `{}` for a list of nothing."""

    def on_response(self, request: PipelineRequest[Any], response: PipelineResponse[Any, Any]) -> None:
        """Look at what the SDK decoded."""
        if response.http_response.status_code != 200 or "deserialized_data" not in response.context:
            return
        body = response.context["deserialized_data"]
        # A resource that was asked for by its name has an id.
        if not isinstance(body, dict) or not (isinstance(body.get("value"), list) or "id" in body):
            raise UnreadableAnswer("the answer is no list, so something else than Azure may have given it.")


class Bounded(SansIOHTTPPolicy):
    """Gives each attempt what is left of the time, and counts the attempts."""

    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._deadline = deadline
        self._lock = threading.Lock()
        self.requests = 0

    def on_request(self, request: PipelineRequest[Any]) -> None:
        """Set the limits of the transport for this attempt."""
        left = self._deadline.remaining()
        if left <= 0:
            raise DeadlineExceeded(f"the {self._deadline.seconds:g} seconds of `timeout` are over.")
        limit = min(left, max(_SECONDS_OF_REQUEST, self._deadline.seconds * _SHARE_OF_REQUEST))
        request.context.options["connection_timeout"] = limit
        request.context.options["read_timeout"] = limit
        with self._lock:
            self.requests += 1


class PatientRetry(RetryPolicy):
    """Waits as long as Azure asks for, but not beyond the deadline.

    Being throttled is no failure as long as there is time; everything else is tried a few times only. The SDK's own
    policy sleeps through whatever Retry-After says, days if need be.
    """

    def __init__(self, deadline: Deadline) -> None:
        super().__init__(
            retry_total=_RETRIES,
            retry_connect=_RETRIES,
            retry_read=_RETRIES,
            retry_status=_RETRIES,
            retry_backoff_factor=_BACKOFF_FACTOR,
            retry_backoff_max=_LONGEST_BACKOFF,
        )
        self._deadline = deadline

    def increment(self, settings: dict[str, Any], response: Any = None, error: Exception | None = None) -> bool:
        """Count an attempt that failed, unless it was only throttled."""
        if error is not None and self._deadline.remaining() <= 0:
            raise DeadlineExceeded(f"no answer within the {self._deadline.seconds:g} seconds of `timeout`.")
        throttled = error is None and getattr(response, "http_response", None) is not None
        throttled = throttled and response.http_response.status_code == 429
        before = settings["total"], settings["status"]
        go_on = bool(super().increment(settings, response, error))
        if throttled:
            settings["total"], settings["status"] = before
        return go_on or throttled

    def sleep(self, settings: dict[str, Any], transport: Any, response: Any = None) -> None:
        """Wait before the next attempt, or raise where the deadline comes first."""
        asked = self.get_retry_after(response) if response else None
        seconds = asked or self.get_backoff_time(settings)
        if not self._deadline.allows(seconds):
            left = f"{self._deadline.remaining():.0f} of the {self._deadline.seconds:g} seconds of `timeout` are left"
            if response is not None and response.http_response.status_code == 429:
                budget = throttle_summary(response.http_response)
                raise Throttled(f"Azure throttles it{budget} and asks to wait {seconds:g} seconds, but {left}.")
            raise DeadlineExceeded(f"it failed and is to be tried again in {seconds:g} seconds, but {left}.")
        self._deadline.wait(seconds)
