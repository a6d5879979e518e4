# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The SDK's clients: retries, timeouts, lists, pages, and classes that are initialised by several threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any, ClassVar

import pytest
from azure.core.exceptions import ServiceRequestError, ServiceResponseError
from azure.core.paging import ItemPaged
from azure.core.pipeline import Pipeline
from azure.core.pipeline.policies import BearerTokenCredentialPolicy, ContentDecodePolicy
from azure.core.pipeline.transport import HttpTransport
from azure.core.rest import HttpRequest
from requests import Response
from requests.structures import CaseInsensitiveDict

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.clients import (
    AllowLoopbackHttp,
    RefuseOtherThanLists,
    RetryUntilDeadline,
    TimeLimit,
    complete_classes_one_at_a_time,
    make_safe,
    pages,
    read_list,
)
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.concurrency import Deadline
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.credentials import (
    Identity,
    find_cloud,
    make_credential,
)
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import (
    DeadlineExceeded,
    Throttled,
    UnreadableAnswer,
)

from .test_concurrency import Clock


class PreparedAnswers(HttpTransport[Any, Any]):
    """A transport that returns prepared answers. It repeats the last one."""

    def __init__(self, *answers: tuple[int, dict[str, str], str] | Exception) -> None:
        self.answers = list(answers)
        self.options: list[dict[str, Any]] = []

    def send(self, request: Any, **options: Any) -> Any:
        from azure.core.rest._requests_basic import RestRequestsTransportResponse

        self.options.append(options)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        response = Response()
        response.status_code, headers, body = answer
        response.raw = BytesIO(body.encode())
        response.headers = CaseInsensitiveDict({"Content-Type": "application/json", **headers})
        return RestRequestsTransportResponse(request=request, internal_response=response, block_size=4096)

    def open(self) -> None: ...

    def close(self) -> None: ...

    def __exit__(self, *args: object) -> None: ...

    def sleep(self, duration: float) -> None:
        raise AssertionError("the deadline sleeps, not the transport")


LIST: tuple[int, dict[str, str], str] = (200, {}, '{"value": []}')


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def send(clock: Clock) -> Callable[..., Any]:
    """Send one request through the policies."""

    def sending(*answers: Any, seconds: float = 60, url: str = "https://management.azure.com/x") -> Any:
        deadline = Deadline(seconds, clock, clock.sleep)
        bounded = TimeLimit(deadline)
        transport = PreparedAnswers(*answers)
        policies: list[Any] = [RefuseOtherThanLists(), ContentDecodePolicy(), RetryUntilDeadline(deadline), bounded]
        with Pipeline(transport, policies=policies) as pipeline:
            response = pipeline.run(HttpRequest("GET", url), stream=False)
        return response.http_response.status_code, bounded.requests, transport.options

    return sending


def test_a_list_is_accepted(send: Callable[..., Any]) -> None:
    assert send(LIST)[:2] == (200, 1)


@pytest.mark.parametrize("body", ["{}", "[]", "null", '"text"', '{"value": null}', '{"error": {"code": "x"}}'])
def test_an_answer_without_a_list_is_refused(send: Callable[..., Any], body: str) -> None:
    with pytest.raises(UnreadableAnswer):
        send((200, {}, body))


def test_a_single_resource_is_accepted(send: Callable[..., Any]) -> None:
    assert send((200, {}, '{"id": "/x"}'))[0] == 200


@pytest.mark.parametrize("status", [403, 404])
def test_403_and_404_are_left_to_the_sdk(send: Callable[..., Any], status: int) -> None:
    assert send((status, {}, "{}"))[:2] == (status, 1)


@pytest.mark.parametrize(
    "failure", [(500, {}, "{}"), (503, {}, "{}"), ServiceRequestError("x"), ServiceResponseError("x")]
)
def test_a_failure_is_retried_three_times(send: Callable[..., Any], clock: Clock, failure: Any) -> None:
    assert send(failure, failure, failure, LIST)[:2] == (200, 4)
    assert clock.now - 100 == 3  # after 0, 1 and 2 seconds

    if isinstance(failure, Exception):
        with pytest.raises(type(failure)):
            send(failure)
    else:
        assert send(failure)[:2] == (failure[0], 4)


def test_throttling_waits_as_long_as_azure_requests(send: Callable[..., Any], clock: Clock) -> None:
    throttled = (429, {"Retry-After": "5"}, "{}")

    assert send(*[throttled] * 8, LIST)[:2] == (200, 9)
    assert clock.now - 100 == 40


def test_throttling_without_retry_after_backs_off_exponentially(send: Callable[..., Any], clock: Clock) -> None:
    assert send(*[(429, {}, "{}")] * 6, LIST)[:2] == (200, 7)
    assert clock.now - 100 == 0 + 1 + 2 + 4 + 8 + 16


def test_throttling_beyond_the_deadline_fails_at_once(send: Callable[..., Any], clock: Clock) -> None:
    budget = {"Retry-After": "3600", "x-ms-ratelimit-remaining-resource": "Microsoft.Compute/X;0"}

    with pytest.raises(Throttled, match=r"\(budget used up: Microsoft.Compute/X\) and asks to wait 3600 seconds"):
        send((429, budget, "{}"))

    assert clock.now == 100


def test_a_retry_beyond_the_deadline_fails_at_once(send: Callable[..., Any]) -> None:
    with pytest.raises(DeadlineExceeded, match="the next attempt is due in 3600 seconds"):
        send((503, {"Retry-After": "3600"}, "{}"))


def test_nothing_is_sent_after_the_deadline(send: Callable[..., Any], clock: Clock) -> None:
    with pytest.raises(DeadlineExceeded):
        send(LIST, seconds=0)


def test_a_timeout_at_the_deadline_is_reported_as_the_deadline(clock: Clock) -> None:
    deadline = Deadline(10, clock, clock.sleep)

    class Hanging(PreparedAnswers):
        def send(self, request: Any, **options: Any) -> Any:
            clock.sleep(options["read_timeout"])
            raise ServiceResponseError("Read timed out.")

    with (
        Pipeline(Hanging(LIST), policies=[RetryUntilDeadline(deadline), TimeLimit(deadline)]) as pipeline,
        pytest.raises(DeadlineExceeded, match="no answer within the 10 seconds"),
    ):
        pipeline.run(HttpRequest("GET", "https://management.azure.com/x"))


@pytest.mark.parametrize(("seconds", "limit"), [(10, 10), (100, 30), (400, 100)])
def test_the_timeout_of_an_attempt_depends_on_the_time_left(
    send: Callable[..., Any], seconds: float, limit: float
) -> None:
    (options,) = send(LIST, seconds=seconds)[2]

    assert options["connection_timeout"] == options["read_timeout"] == limit


@pytest.mark.parametrize(
    ("url", "allowed"),
    [("http://127.0.0.1:8470/x", True), ("http://management.azure.com/x", False), ("http://10.0.0.4/x", False)],
)
def test_a_token_is_sent_over_plain_http_only_to_loopback(url: str, allowed: bool) -> None:
    credential = make_credential(Identity(token="t0ken"), find_cloud("AzureCloud", "http://127.0.0.1:8470"))
    transport = PreparedAnswers(LIST)
    policies: list[Any] = [AllowLoopbackHttp(), BearerTokenCredentialPolicy(credential, "scope")]

    with Pipeline(transport, policies=policies) as pipeline:
        if allowed:
            assert pipeline.run(HttpRequest("GET", url)).http_request.headers["Authorization"] == "Bearer t0ken"
        else:
            with pytest.raises(ServiceRequestError, match="non-TLS"):
                pipeline.run(HttpRequest("GET", url))
            assert not transport.options


def test_retries_count_as_requests(send: Callable[..., Any]) -> None:
    assert send((500, {}, "{}"), LIST)[1] == 2


class Base:
    """A slow version of the SDK's base class, with what matters here."""

    _calculated: ClassVar[set[str]] = set()
    inside, most = 0, 0

    def __new__(cls) -> Any:
        Base.inside += 1
        Base.most = max(Base.most, Base.inside)
        time.sleep(0.02)
        Base.inside -= 1
        Base._calculated.add(f"{cls.__module__}.{cls.__qualname__}")
        return super().__new__(cls)


def made_together(*kinds: type) -> int:
    """Create an object of each class at the same time. Returns how many threads did so at once."""
    Base.most = 0
    threads = [threading.Thread(target=kind) for kind in kinds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Base.most


def test_classes_are_initialised_one_by_one_and_used_in_parallel() -> None:
    kinds = [type(f"Kind{number}", (Base,), {}) for number in range(4)]
    assert made_together(*kinds) > 1
    Base._calculated.clear()
    complete_classes_one_at_a_time(Base)
    assert made_together(*kinds) == 1
    assert made_together(*kinds) > 1
    assert isinstance(kinds[0](), kinds[0])


def test_a_package_without_such_classes_is_not_changed() -> None:
    make_safe("json")


def listing(answers: dict[str | None, tuple[str | None, list[int]]]) -> ItemPaged[int]:
    """The SDK's object for a list with these pages: link to the page, link to the next page, and items."""

    def extract(link: str | None) -> tuple[str | None, Iterator[int]]:
        following, items = answers[link]
        return following, iter(items)

    return ItemPaged(lambda link: link, extract)


def test_all_pages_are_read() -> None:
    assert list(pages(listing({None: ("b", [1, 2]), "b": ("c", [3]), "c": (None, [])}))) == [[1, 2], [3], []]


def test_items_are_converted() -> None:
    assert read_list(listing({None: ("b", [1]), "b": (None, [2])}), lambda item: item * 10) == [10, 20]


@pytest.mark.parametrize(
    "answers",
    [
        {None: ("a", [1]), "a": ("a", [2])},
        {None: ("a", [1]), "a": ("b", [2]), "b": ("c", [3]), "c": ("a", [4])},
    ],
)
def test_pages_that_form_a_loop_are_an_error(answers: dict[str | None, Any]) -> None:
    with pytest.raises(UnreadableAnswer, match="form a loop"):
        read_list(listing(answers), id)
