# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The SDK's clients, with this collection's retries, time limits and checks of what Azure answers."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .concurrency import Deadline
from .credentials import Cloud, is_loopback
from .errors import DeadlineExceeded, Throttled, UnreadableAnswer, missing_package, throttle_summary

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


class RefuseOtherThanLists(SansIOHTTPPolicy):
    """Refuses an answer that is no list. The SDK's newer releases take `{}` for a list of nothing."""

    def on_response(self, request: PipelineRequest[Any], response: PipelineResponse[Any, Any]) -> None:
        """Look at what the SDK decoded."""
        if response.http_response.status_code != 200 or "deserialized_data" not in response.context:
            return
        body = response.context["deserialized_data"]
        # A resource that was asked for by its name has an id.
        if not isinstance(body, dict) or not (isinstance(body.get("value"), list) or "id" in body):
            raise UnreadableAnswer("the answer is no list, so something else than Azure may have given it.")


class TimeLimit(SansIOHTTPPolicy):
    """Gives each attempt what is left of the time, and counts the attempts."""

    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._deadline = deadline
        self._lock = threading.Lock()
        self.requests = 0

    def on_request(self, request: PipelineRequest[Any]) -> None:
        """Set the limits of the transport for this attempt."""
        remaining_s = self._deadline.remaining()
        if remaining_s <= 0:
            raise DeadlineExceeded(f"the {self._deadline.seconds:g} seconds of `timeout` are over.")
        limit = min(remaining_s, max(_SECONDS_OF_REQUEST, self._deadline.seconds * _SHARE_OF_REQUEST))
        request.context.options["connection_timeout"] = limit
        request.context.options["read_timeout"] = limit
        with self._lock:
            self.requests += 1


class RetryUntilDeadline(RetryPolicy):
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
            remaining = (
                f"{self._deadline.remaining():.0f} of the {self._deadline.seconds:g} seconds of `timeout` are left"
            )
            if response is not None and response.http_response.status_code == 429:
                budget = throttle_summary(response.http_response)
                raise Throttled(f"Azure throttles it{budget} and asks to wait {seconds:g} seconds, but {remaining}.")
            raise DeadlineExceeded(f"it failed and is to be tried again in {seconds:g} seconds, but {remaining}.")
        self._deadline.wait(seconds)


_ONE_AT_A_TIME = threading.RLock()
_BASE_MODULES = ("_utils.model_base", "_model_base")
"""Where packages of the SDK have the base of their classes; older ones have none, and nothing to be completed."""


def make_safe(package: str) -> None:
    """Let one thread at a time complete the classes of a package, e.g. ``azure.mgmt.network``, that is imported.

    Each of the SDK's classes for answers is completed when its first object is made. Where threads do that at the same
    time, one of them fails, the SDK hides it, and objects within the answer stay plain dicts, on first answers only:
    "'dict' object has no attribute 'primary'", now and then (Azure/azure-sdk-for-python issue 47426, there in
    azure-mgmt-network 33.1; fixed for generated code in microsoft/typespec pull request 11236).
    """
    for module in _BASE_MODULES:
        try:
            base = importlib.import_module(f"{package}.{module}").Model
        except (ImportError, AttributeError):
            continue
        if hasattr(base, "_calculated") and not hasattr(base, "_hpcai_safe"):
            complete_classes_one_at_a_time(base)


def complete_classes_one_at_a_time(base: Any) -> None:
    """Let one thread at a time complete the classes that are derived from this one."""
    make = base.__new__

    def make_one(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if f"{cls.__module__}.{cls.__qualname__}" in cls._calculated:
            return make(cls, *args, **kwargs)
        with _ONE_AT_A_TIME:
            return make(cls, *args, **kwargs)

    base.__new__ = make_one
    base._hpcai_safe = True


def pages(listing: Any) -> Iterator[list[Any]]:
    """Yield the pages of an SDK list.

    :raises UnreadableAnswer: a page leads to one that was read already; the SDK would go round for ever.
    """
    iterator = listing.by_page()
    followed: set[str] = set()
    for page in iterator:
        yield list(page)
        link = iterator.continuation_token
        if link in followed:
            raise UnreadableAnswer("its pages lead in a circle (a nextLink repeats).")
        if link:
            followed.add(link)


def read_list(listing: Any, convert: Callable[[Any], Any]) -> list[Any]:
    """Read all pages and convert each item at once, so that no more than one page of SDK objects is held."""
    return [convert(item) for page in pages(listing) for item in page]


_USER_AGENT = "ansible-hpcai.azure"
_POLL_S = 5
"""How often a long-running operation is asked after, where Azure does not say; the SDK's own is 30 seconds."""


class Clients:
    """Makes clients when they are first wanted. For use in one thread; the clients themselves are for all.

    :param only_lists: refuse every answer that is no list or resource. Who changes something gets other ones.
    """

    def __init__(self, cloud: Cloud, credential: Any, deadline: Deadline, *, only_lists: bool = True) -> None:
        self._cloud = cloud
        self._credential = credential
        self._only_lists = only_lists
        self._bounded = TimeLimit(deadline)
        self._deadline = deadline
        self._clients: dict[tuple[type, str], Any] = {}

    @property
    def requests(self) -> int:
        """Number of requests that went out so far, each attempt counted."""
        return self._bounded.requests

    def compute(self, subscription_id: str) -> Any:
        """Return the client of Microsoft.Compute."""
        try:
            from azure.mgmt.compute import ComputeManagementClient
        except ImportError as error:
            raise missing_package("azure-mgmt-compute") from error
        make_safe("azure.mgmt.compute")
        return self._client(ComputeManagementClient, subscription_id)

    def network(self, subscription_id: str) -> Any:
        """Return the client of Microsoft.Network."""
        try:
            from azure.mgmt.network import NetworkManagementClient
        except ImportError as error:
            raise missing_package("azure-mgmt-network") from error
        make_safe("azure.mgmt.network")
        return self._client(NetworkManagementClient, subscription_id)

    def resource_manager(self) -> Any:
        """Return a client for requests that no package of the SDK has a method for.

        It does not register a resource provider by itself, as the SDK's own clients would.
        """
        from azure.core.pipeline.policies import BearerTokenCredentialPolicy

        bearer = BearerTokenCredentialPolicy(self._credential, self._cloud.scope)
        return self._pipeline_client("", [*([AllowLoopbackHttp()] if self._cloud.plain_http else []), bearer])

    def signed(self) -> Any:
        """Return a client for addresses that carry a signature of their own. It sends no token."""
        return self._pipeline_client("signed", [])

    def may_read(self, address: str) -> bool:
        """Say whether what comes from this address is protected on its way."""
        split = urlsplit(address)
        return split.scheme == "https" or (self._cloud.plain_http and is_loopback(split.hostname))

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            client.close()

    def _pipeline_client(self, name: str, authentication: list[Any]) -> Any:
        from azure.core import PipelineClient
        from azure.core.pipeline import policies

        key = PipelineClient, name
        if key not in self._clients:
            self._clients[key] = PipelineClient(
                self._cloud.endpoint,
                policies=[
                    policies.RequestIdPolicy(),
                    policies.UserAgentPolicy(_USER_AGENT),
                    RetryUntilDeadline(self._deadline),
                    *authentication,
                    self._bounded,
                ],
                use_env_settings=not self._cloud.loopback,
            )
        return self._clients[key]

    def _client(self, kind: type, subscription_id: str) -> Any:
        key = kind, subscription_id
        if key not in self._clients:
            policies: list[Any] = [RefuseOtherThanLists()] if self._only_lists else []
            if self._cloud.plain_http:
                policies.append(AllowLoopbackHttp())
            self._clients[key] = kind(
                self._credential,
                subscription_id,
                base_url=self._cloud.endpoint,
                credential_scopes=[self._cloud.scope],
                per_call_policies=policies,
                per_retry_policies=[self._bounded],
                # One for each client: it holds what follows it in the client's pipeline, authentication included.
                retry_policy=RetryUntilDeadline(self._deadline),
                user_agent=_USER_AGENT,
                polling_interval=_POLL_S,
                # A proxy of the environment is for reaching Azure, not for reaching this machine.
                use_env_settings=not self._cloud.loopback,
            )
        return self._clients[key]
