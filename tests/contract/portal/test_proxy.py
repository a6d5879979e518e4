# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The real proxy with the command of its unit, without a hub."""

from __future__ import annotations

import os
import pathlib
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPResponse

import pytest
from browser.portal_page import NO_ANSWER
from stand_ins import http_service
from stand_ins import portal as stand_in
from stand_ins.blob.certificate import certificate_for
from stand_ins.monitor import free_port, wait

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture
def program() -> Iterator[http_service.Service]:
    """A user's program, which answers in place of a notebook."""
    sent = {"Service-Worker-Allowed": "/", "Content-Type": "text/javascript", "X-Other": "stays"}
    made = http_service.Service((200, sent, b"script"))
    yield made
    made.stop()


@pytest.fixture
def get(program: http_service.Service, tmp_path: pathlib.Path) -> Iterator[Callable[[], HTTPResponse]]:
    """Ask the proxy for a page of this program."""
    certificate = certificate_for("portal", "127.0.0.1", tmp_path)
    certificate.public.rename(tmp_path / "tls.crt")
    certificate.key.rename(tmp_path / "tls.key")
    port, hub_port, api_port = free_port(), program.port, free_port()
    command = stand_in.proxy_command(port, hub_port, api_port, tmp_path, stand_in.programs())
    trusting = ssl.create_default_context(cafile=str(tmp_path / "tls.crt"))
    url = f"https://127.0.0.1:{port}/user/mallory/worker.js"
    log = tmp_path / "log"
    with log.open("wb") as out:
        proxy = subprocess.Popen(command, env={**os.environ, **stand_in.SECRETS}, stdout=out, stderr=out)

    def ask() -> HTTPResponse:
        answer: HTTPResponse = urllib.request.urlopen(url, timeout=30, context=trusting)
        return answer

    def answers() -> bool:
        try:
            ask().close()
        except OSError:
            return False
        return True

    try:
        wait(lambda: proxy.poll() is not None or answers(), log.read_text, stand_in.STARTS_S)
        yield ask
    finally:
        proxy.terminate()
        proxy.wait(30)


def test_a_notebook_cannot_allow_a_service_worker_for_the_complete_site(get: Callable[[], HTTPResponse]) -> None:
    """A user's program installed one in the browser of whoever opened a link to it."""
    with get() as answer:
        assert answer.read() == b"script"
        assert (answer.headers["Content-Type"], answer.headers["X-Other"]) == ("text/javascript", "stays")
        assert answer.headers["Service-Worker-Allowed"] is None


def test_without_an_answer_a_page_says_what_that_means_and_reloads(
    get: Callable[[], HTTPResponse], program: http_service.Service
) -> None:
    program.stop()
    with pytest.raises(urllib.error.HTTPError) as refused:
        get()
    page = refused.value.read().decode()
    assert (refused.value.code, refused.value.headers["Content-Type"]) == (503, "text/html")
    assert NO_ANSWER in page
    assert '<meta http-equiv="refresh" content="10">' in page
