# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The metadata service over real HTTP: which answers are accepted, and what must not happen meanwhile."""

from __future__ import annotations

import base64
import gzip
import json
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from stand_ins.http_service import Answer, Service

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import http_get, imds
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.imds import (
    ImdsError,
    TokenRefused,
    events_of,
    read_compute,
    read_events,
    read_token,
    settings_in,
    start_event,
)

COMPUTE = {"vmSize": "Standard_ND96asr_v4", "vmId": "1-2-3", "name": "set_4"}
GOOD: Answer = (200, {}, json.dumps(COMPUTE).encode())


@pytest.fixture
def serve() -> Iterator[Callable[..., Service]]:
    """A function that starts services; they stop with the test."""
    started: list[Service] = []

    def start(*answers: Answer, **named: Any) -> Service:
        started.append(Service(*answers, **named))
        return started[-1]

    yield start
    for service in started:
        service.stop()


Serve = Callable[..., Service]


def test_the_compute_document_is_requested_as_azure_requires(serve: Serve) -> None:
    service = serve(GOOD)
    assert read_compute(endpoint=service.endpoint) == COMPUTE
    path, headers = service.requests[0]
    assert path == "/metadata/instance/compute?api-version=2021-02-01"
    assert headers["metadata"] == "true"
    assert "x-forwarded-for" not in headers


def test_proxies_of_the_environment_are_ignored(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy, service = serve((200, {}, json.dumps({"vmSize": "the proxy's own"}).encode())), serve(GOOD)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.endpoint)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert read_compute(endpoint=service.endpoint) == COMPUTE
    assert proxy.requests == []


@pytest.mark.parametrize("status", [404, 410, 429, 500, 503])
def test_temporary_errors_are_retried(serve: Serve, status: int) -> None:
    service = serve((status, {}, b""), (status, {}, b""), GOOD)
    slept: list[float] = []
    assert read_compute(endpoint=service.endpoint, sleep=slept.append) == COMPUTE
    assert slept == [0.2, 0.5]


def test_the_wait_is_as_long_as_the_service_requests(serve: Serve) -> None:
    service = serve((429, {"Retry-After": "1.5"}, b""), GOOD)
    slept: list[float] = []
    read_compute(endpoint=service.endpoint, sleep=slept.append)
    assert slept == [1.5]


def test_it_does_not_wait_longer_than_its_limit(serve: Serve) -> None:
    service = serve((429, {"Retry-After": "60"}, b""))
    with pytest.raises(ImdsError, match=r"no answer in 2 s: HTTP status 429"):
        read_compute(endpoint=service.endpoint, sleep=lambda _seconds: pytest.fail("it slept"))


@pytest.mark.parametrize("status", [400, 401, 403])
def test_permanent_errors_are_not_retried(serve: Serve, status: int) -> None:
    service = serve((status, {}, b""), GOOD)
    with pytest.raises(ImdsError, match=f"HTTP status {status}"):
        read_compute(endpoint=service.endpoint)
    assert len(service.requests) == 1


def test_redirects_are_not_followed(serve: Serve) -> None:
    elsewhere = serve(GOOD)
    service = serve((302, {"Location": f"{elsewhere.endpoint}/"}, b""))
    with pytest.raises(ImdsError, match="HTTP status 302"):
        read_compute(endpoint=service.endpoint)
    assert elsewhere.requests == []


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"vmSize": ""}', b'{"vmSize": 4}', b"\xff\xfe"])
def test_a_document_that_is_not_azures_is_an_error(serve: Serve, body: bytes) -> None:
    with pytest.raises(ImdsError, match="is not Azure's metadata service"):
        read_compute(endpoint=serve((200, {}, body)).endpoint)


def test_a_silent_service_takes_no_longer_than_the_limit(serve: Serve) -> None:
    service = serve(GOOD, before=lambda _request: time.sleep(1.5))
    begun = time.monotonic()
    with pytest.raises(ImdsError, match=r"no answer in 0\.3 s"):
        read_compute(0.3, endpoint=service.endpoint)
    assert time.monotonic() - begun < 1


def test_a_slow_answer_takes_no_longer_than_the_limit(serve: Serve) -> None:
    def drip(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        for _drop in range(40):
            request.wfile.write(b" ")
            request.wfile.flush()
            time.sleep(0.05)

    service = serve(GOOD, before=drip)
    begun = time.monotonic()
    with pytest.raises(ImdsError, match=r"no answer in 0\.3 s"):
        read_compute(0.3, endpoint=service.endpoint)
    assert time.monotonic() - begun < 1


def test_a_lost_answer_does_not_use_up_the_whole_limit(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = [1.5]
    service = serve(GOOD, before=lambda _request: time.sleep(lost.pop() if lost else 0))
    monkeypatch.setattr(http_get, "_FIRST_TIMEOUT_S", 0.2)
    begun = time.monotonic()
    assert read_compute(30, endpoint=service.endpoint) == COMPUTE
    assert time.monotonic() - begun < 1.4


def test_a_service_that_is_always_slow_gets_longer_timeouts(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    service = serve(GOOD, before=lambda _request: time.sleep(0.3))
    monkeypatch.setattr(http_get, "_FIRST_TIMEOUT_S", 0.1)
    assert read_compute(10, endpoint=service.endpoint) == COMPUTE
    assert len(service.requests) > 1


def test_a_closed_port_is_retried_until_the_limit(serve: Serve) -> None:
    service = serve(GOOD)
    service.stop()
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        time.sleep(seconds)

    with pytest.raises(ImdsError, match=r"no answer in 0\.9 s: .*refused"):
        read_compute(0.9, endpoint=service.endpoint, sleep=sleep)
    assert slept == [0.2, 0.5]


def test_the_default_address_is_azures() -> None:
    assert imds.ENDPOINT == "http://169.254.169.254"


def test_slow_headers_take_no_longer_than_the_limit(serve: Serve) -> None:
    def drip(request: BaseHTTPRequestHandler) -> None:
        for drop in b"HTTP/1.0 200 OK\r\nX-Slow: " + b"x" * 40:
            request.wfile.write(bytes((drop,)))
            request.wfile.flush()
            time.sleep(0.05)

    service = serve(GOOD, before=drip)
    begun = time.monotonic()
    with pytest.raises(ImdsError, match=r"no answer in 0\.3 s"):
        read_compute(0.3, endpoint=service.endpoint)
    assert time.monotonic() - begun < 1


def test_a_very_long_answer_is_refused(serve: Serve) -> None:
    service = serve((200, {}, b"x" * (3 << 20)))
    with pytest.raises(ImdsError, match="longer than 1 MiB"):
        read_compute(0.5, endpoint=service.endpoint)


TOKEN: Answer = (200, {}, b'{"access_token": "eyJ0.abc-_.sig", "expires_in": "86399"}')
VAULT = "https://vault.azure.net"


def test_a_token_is_requested_for_one_resource_and_one_identity(serve: Serve) -> None:
    service = serve(TOKEN)
    assert read_token(VAULT, endpoint=service.endpoint) == "eyJ0.abc-_.sig"
    read_token(VAULT, "aaaa-bbbb", endpoint=service.endpoint)
    path = "/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https%3A%2F%2Fvault.azure.net"
    assert [asked for asked, _headers in service.requests] == [path, f"{path}&client_id=aaaa-bbbb"]
    assert service.requests[0][1]["metadata"] == "true"


@pytest.mark.parametrize("status", [404, 410, 429, 500])
def test_a_token_is_requested_again_after_temporary_errors(serve: Serve, status: int) -> None:
    service = serve((status, {}, b""), TOKEN)
    assert read_token(VAULT, endpoint=service.endpoint, sleep=lambda _seconds: None) == "eyJ0.abc-_.sig"


def test_a_machine_without_an_identity_is_an_error_at_once(serve: Serve) -> None:
    refusal = {"error": "invalid_request", "error_description": "Identity not\n found"}
    service = serve((400, {}, json.dumps(refusal).encode()), TOKEN)
    with pytest.raises(TokenRefused, match=r"an identity token: HTTP status 400 \(Identity not found\)\.$"):
        read_token(VAULT, endpoint=service.endpoint)
    assert len(service.requests) == 1


@pytest.mark.parametrize("token", ["", "two words", "line\r\nX-Evil: 1", 7, "ü"])
def test_an_invalid_token_is_refused(serve: Serve, token: Any) -> None:
    service = serve((200, {}, json.dumps({"access_token": token}).encode()))
    with pytest.raises(ImdsError, match=r"no access_token in its answer\.$") as caught:
        read_token(VAULT, endpoint=service.endpoint)
    assert "evil" not in str(caught.value).lower()


DOCUMENT = {
    "DocumentIncarnation": 4,
    "Events": [
        {
            "EventId": "A",
            "EventType": "Reboot",
            "ResourceType": "VirtualMachine",
            "Resources": ["set_4", "set_5"],
            "EventStatus": "Scheduled",
            "NotBefore": "Mon, 19 Sep 2016 18:29:47 GMT",
            "Description": "",
            "EventSource": "Platform",
            "DurationInSeconds": -1,
        },
        {"EventId": "B", "EventType": "Preempt", "Resources": ["SET_4"], "EventStatus": "Started", "NotBefore": ""},
        {"EventId": "C", "EventType": "Terminate", "Resources": ["set_40"], "EventStatus": "Scheduled"},
        {"EventId": "D", "EventType": "Freeze", "Resources": ["set_4"], "EventStatus": "Scheduled"},
    ],
}


@pytest.fixture
def service() -> Iterator[Service]:
    """A metadata service with events."""
    made = Service((200, {}, json.dumps(DOCUMENT).encode()))
    yield made
    made.stop()


def test_scheduled_events_are_requested_as_azure_requires(service: Service) -> None:
    assert read_events(endpoint=service.endpoint) == DOCUMENT
    path, headers = service.requests[0]
    assert path == "/metadata/scheduledevents?api-version=2020-07-01"
    assert headers["metadata"] == "true"


def test_an_answer_without_events_is_an_error() -> None:
    service = Service((200, {}, b'{"vmSize": "x"}'))
    with pytest.raises(ImdsError, match="no Events"):
        read_events(endpoint=service.endpoint)
    service.stop()


def test_events_of_other_machines_are_left_out() -> None:
    found = events_of(DOCUMENT, "set_4")
    assert [event.id for event in found] == ["B", "D", "A"]
    assert [event.is_ending for event in found] == [True, False, True]
    assert [event.is_for_one for event in found] == [True, True, False]
    assert found[2].not_before == 1474309787.0
    assert found[0].not_before is None
    assert events_of(DOCUMENT, "set") == []


def test_malformed_events_are_ignored() -> None:
    odd = {"Events": [None, {"EventId": 3, "Resources": "set_4"}, {"Resources": ["set_4"], "NotBefore": "soon"}]}
    assert [event.not_before for event in events_of(odd, "set_4")] == [None]


def test_the_start_of_one_event_is_posted(service: Service) -> None:
    start_event("B", endpoint=service.endpoint)
    assert json.loads(service.posted[0]) == {"StartRequests": [{"EventId": "B"}]}
    assert service.requests[0][1]["metadata"] == "true"


def test_a_refused_start_is_an_error() -> None:
    service = Service((400, {}, b""))
    with pytest.raises(ImdsError, match="HTTP status 400"):
        start_event("B", endpoint=service.endpoint)
    service.stop()


SETTINGS = {"schema": 1, "cluster": "training", "functions": ["compute"], "controllers": ["10.0.0.4"]}
STATED = {key: value for key, value in SETTINGS.items() if key != "schema"}
GOOD_USER_DATA = json.dumps({"hpcai": SETTINGS})


def encoded(text: str | bytes) -> str:
    """Encode user data as the metadata service does."""
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


@pytest.mark.parametrize(
    "text",
    [
        GOOD_USER_DATA,
        f"#cloud-config\n{GOOD_USER_DATA}\n",
        f"#cloud-config\n\n  \n# the cluster\n{GOOD_USER_DATA}",
        f"\ufeff{GOOD_USER_DATA}",
        json.dumps({"runcmd": [], "hpcai": SETTINGS}, indent=2),
        GOOD_USER_DATA.replace(", ", ",\r\n"),
    ],
)
def test_settings_are_found_in_user_data_with_json(text: str) -> None:
    assert settings_in(encoded(text)) == (STATED, "")


def test_base64_may_contain_line_breaks() -> None:
    text = encoded(GOOD_USER_DATA)
    assert settings_in(f"{text[:40]}\n{text[40:]}\n")[0] == STATED


@pytest.mark.parametrize(
    ("user_data", "why"),
    [
        ("", "no user data"),
        (encoded(" \n"), "not JSON"),
        (encoded("#!/bin/sh\necho hello\n"), "not JSON"),
        (encoded("#cloud-config\nruncmd:\n  - [ls]\n"), "not JSON"),
        (encoded("#cloud-config\nhpcai:\n  cluster: training\n"), "write hpcai as JSON, not as YAML"),
        (encoded("{broken"), "not JSON"),
        (encoded('["hpcai"]'), "not JSON"),
        (encoded('{"a": 1}'), "has no 'hpcai'"),
        (encoded("[" * 60000), "not JSON"),
        (encoded('{"a":' * 10000), "not JSON"),
        (encoded(b"\xff\xfe\x00"), "not valid base64 text"),
        (encoded(gzip.compress(GOOD_USER_DATA.encode())), "not valid base64 text"),
        ("!!!!", "not valid base64 text"),
        ("ü", "not valid base64 text"),
        (GOOD_USER_DATA, "not valid base64 text"),
        (encoded(" " * 70000 + GOOD_USER_DATA), "longer than 64 KiB"),
    ],
)
def test_other_user_data_is_no_error_but_reported(user_data: str, why: str) -> None:
    stated, problem = settings_in(user_data)
    assert stated is None
    assert why in problem


@pytest.mark.parametrize(
    ("hpcai", "why"),
    [
        ("compute", "is not a JSON object"),
        (None, "is not a JSON object"),
        ([], "is not a JSON object"),
        ({}, "has no schema version"),
        ({"schema": "1"}, "has no schema version"),
        ({"schema": True}, "has no schema version"),
        ({"schema": 0}, "has no schema version"),
        ({"schema": 2}, "has schema 2, but this hpcnode supports at most 1"),
    ],
)
def test_invalid_settings_are_one_error_of_one_line(hpcai: object, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        settings_in(encoded(json.dumps({"hpcai": hpcai})))
    assert "\n" not in str(caught.value)


def test_broken_json_that_names_hpcai_is_an_error_without_its_text() -> None:
    with pytest.raises(ConfigError, match=r"is not valid JSON \(line 2 of the JSON\)") as caught:
        settings_in(encoded('#cloud-config\n{"password": "hush",\n "hpcai": {,}}'))
    assert "hush" not in str(caught.value)
