# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The SDK's clients, with this collection's retries, timeouts and checks of Azure's answers."""

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
        # This file must remain importable without the SDK, so that the plugin can report the missing package.
        RetryPolicy = SansIOHTTPPolicy = object

# Timeout of one request as a share of the entire timeout, so that a request that hangs can be retried ...
_SHARE_OF_REQUEST = 0.25
# ... but at least this many seconds, because Azure needs seconds for a large page with instance views.
_SECONDS_OF_REQUEST = 30.0
# Server errors and lost connections are retried after 0, 1 and 2 seconds.
_RETRIES = 3
_BACKOFF_FACTOR = 0.5
_LONGEST_BACKOFF = 30.0


class AllowLoopbackHttp(SansIOHTTPPolicy):
    """Allows a token over plain http to this machine only. The SDK refuses it for any host."""

    def on_request(self, request: PipelineRequest[Any]) -> None:
        """Allow http for this request if it goes to this machine. A nextLink could lead to another host."""
        if is_loopback(urlsplit(request.http_request.url).hostname):
            request.context.options.setdefault("enforce_https", False)


class RefuseOtherThanLists(SansIOHTTPPolicy):
    """Refuses an answer that is not a list, because newer releases of the SDK treat `{}` as an empty list."""

    def on_response(self, request: PipelineRequest[Any], response: PipelineResponse[Any, Any]) -> None:
        """Check the data that the SDK decoded."""
        if response.http_response.status_code != 200 or "deserialized_data" not in response.context:
            return
        body = response.context["deserialized_data"]
        # A single resource has an id.
        if not isinstance(body, dict) or not (isinstance(body.get("value"), list) or "id" in body):
            raise UnreadableAnswer("the answer is not a list, so it may not come from Azure.")


class TimeLimit(SansIOHTTPPolicy):
    """Limits each attempt to the remaining time, and counts the attempts."""

    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._deadline = deadline
        self._lock = threading.Lock()
        self.requests = 0

    def on_request(self, request: PipelineRequest[Any]) -> None:
        """Set the timeouts of the transport for this attempt."""
        remaining_s = self._deadline.remaining()
        if remaining_s <= 0:
            raise DeadlineExceeded(f"the {self._deadline.seconds:g} seconds of `timeout` have passed.")
        limit = min(remaining_s, max(_SECONDS_OF_REQUEST, self._deadline.seconds * _SHARE_OF_REQUEST))
        request.context.options["connection_timeout"] = limit
        request.context.options["read_timeout"] = limit
        with self._lock:
            self.requests += 1


class RetryUntilDeadline(RetryPolicy):
    """Waits as long as Azure requests, but not beyond the deadline.

    Throttled requests are retried until the deadline, all others a few times only. The SDK's own policy would sleep for
    any time in Retry-After, even for days.
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
        """Wait before the next attempt, or raise if the deadline comes first."""
        asked = self.get_retry_after(response) if response else None
        seconds = asked or self.get_backoff_time(settings)
        if not self._deadline.allows(seconds):
            remaining = (
                f"{self._deadline.remaining():.0f} of the {self._deadline.seconds:g} seconds of `timeout` are left"
            )
            if response is not None and response.http_response.status_code == 429:
                budget = throttle_summary(response.http_response)
                raise Throttled(f"Azure throttles it{budget} and asks to wait {seconds:g} seconds, but {remaining}.")
            raise DeadlineExceeded(f"it failed, and the next attempt is due in {seconds:g} seconds, but {remaining}.")
        self._deadline.wait(seconds)


_ONE_AT_A_TIME = threading.RLock()
_BASE_MODULES = ("_utils.model_base", "_model_base")
"""Modules with the base class of the SDK's models. Older packages have none, and need no fix."""


def make_safe(package: str) -> None:
    """Make the models of an imported SDK package, such as ``azure.mgmt.network``, safe for threads.

    The SDK completes each model class when its first object is created. If two threads do this at the same time, one
    of them fails, the SDK hides the error, and objects in the first answers stay plain dicts, which occasionally causes
    "'dict' object has no attribute 'primary'" (Azure/azure-sdk-for-python issue 47426, there in azure-mgmt-network
    33.1; fixed for generated code in microsoft/typespec pull request 11236).
    """
    for module in _BASE_MODULES:
        try:
            base = importlib.import_module(f"{package}.{module}").Model
        except (ImportError, AttributeError):
            continue
        if hasattr(base, "_calculated") and not hasattr(base, "_hpcai_safe"):
            complete_classes_one_at_a_time(base)


def complete_classes_one_at_a_time(base: Any) -> None:
    """Let only one thread at a time complete the subclasses of this class."""
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

    :raises UnreadableAnswer: a page links to one that was already read. The SDK would loop forever.
    """
    iterator = listing.by_page()
    followed: set[str] = set()
    for page in iterator:
        yield list(page)
        link = iterator.continuation_token
        if link in followed:
            raise UnreadableAnswer("its pages form a loop (a nextLink repeats).")
        if link:
            followed.add(link)


def read_list(listing: Any, convert: Callable[[Any], Any]) -> list[Any]:
    """Read all pages and convert each item immediately, so that only one page of SDK objects is in memory."""
    return [convert(item) for page in pages(listing) for item in page]


_USER_AGENT = "ansible-hpcai.azure"
_STORAGE_SCOPE = "https://storage.azure.com/.default"
"""The same in all clouds (Microsoft's documentation "Authorize access to blobs using Microsoft Entra ID")."""
_POLL_S = 5
"""Seconds between polls of a long-running operation, if Azure gives none. The SDK's default is 30 seconds."""


class Clients:
    """Creates clients on first use. Use this object in one thread only. The clients themselves are safe for threads.

    :param only_lists: refuse every answer that is not a list or a resource. Set it to false for requests that change
        something, because they get other answers.
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
        """Number of requests that were sent so far, including retries."""
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

    def deployments(self, subscription_id: str) -> Any:
        """Return the client of deployments."""
        try:
            from azure.mgmt.resource.deployments import DeploymentsMgmtClient
        except ImportError as error:
            raise missing_package("azure-mgmt-resource-deployments") from error
        make_safe("azure.mgmt.resource.deployments")
        return self._client(DeploymentsMgmtClient, subscription_id)

    def resource_manager(self) -> Any:
        """Return a client for requests that no package of the SDK supports.

        Unlike the SDK's own clients, it does not register a resource provider automatically.
        """
        from azure.core.pipeline.policies import BearerTokenCredentialPolicy

        bearer = BearerTokenCredentialPolicy(self._credential, self._cloud.scope)
        return self._pipeline_client("", [*([AllowLoopbackHttp()] if self._cloud.plain_http else []), bearer])

    def storage(self) -> Any:
        """Return a client for the data of storage accounts, with a token for them. They answer in XML."""
        from azure.core.pipeline.policies import BearerTokenCredentialPolicy

        bearer = BearerTokenCredentialPolicy(self._credential, _STORAGE_SCOPE)
        return self._pipeline_client("storage", [*([AllowLoopbackHttp()] if self._cloud.plain_http else []), bearer])

    def signed(self) -> Any:
        """Return a client for signed URLs. It sends no token."""
        return self._pipeline_client("signed", [])

    def may_read(self, address: str) -> bool:
        """Say whether the transfer from this URL is protected."""
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
                # One per client, because it stores the rest of the client's pipeline, including authentication.
                retry_policy=RetryUntilDeadline(self._deadline),
                user_agent=_USER_AGENT,
                polling_interval=_POLL_S,
                # A proxy from the environment is for Azure, not for this machine.
                use_env_settings=not self._cloud.loopback,
            )
        return self._clients[key]
