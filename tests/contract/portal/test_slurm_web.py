# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Slurm-web behind the portal's door: real agent, gateway, JupyterHub and proxy, in Chromium; slurmrestd is a stand-in.

Runs only with Slurm-web's files (HPCAI_SLURM_WEB_FILES). tests/cluster/test_slurm_web.py has a real slurmrestd.
"""

from __future__ import annotations

import getpass
import json
import os
import pathlib
import shutil
import socketserver
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from stand_ins import monitor
from stand_ins import slurm_web as stand_in
from stand_ins.door import SLOW_S, Door, open_door
from stand_ins.http_service import Service
from stand_ins.slurmrestd import HOSTILE, Slurmrestd

ACCOUNTS: dict[str, list[Any]] = {"alice": [4001, ["alice"]], "bob": [4002, ["bob", "operators"]]}
CLAIMS: dict[str, dict[str, Any]] = {name: {"preferred_username": f"{name}@example.org"} for name in ACCOUNTS}
RULES: dict[str, list[str]] = {"groups": [], "refused_groups": [], "refused_users": [], "admin_groups": []}
API = "/services/slurm/api"

pytestmark = pytest.mark.timeout(1800)


class Recorder:
    """A server at a socket, in place of the gateway. It keeps path and headers of each request."""

    def __init__(self, path: pathlib.Path) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                recorder.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                self.send_response(401 if self.path.endswith("/away") else 200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Set-Cookie", "a=b")
                self.send_header("WWW-Authenticate", "Basic")
                self.end_headers()
                self.wfile.write(b"recorded")

            def address_string(self) -> str:
                return "socket"

            def log_message(self, *_arguments: Any) -> None:
                """Log nothing."""

        class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
            daemon_threads = True

        self.server = Server(str(path), Handler)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()


@pytest.fixture(scope="module")
def folder() -> Iterator[pathlib.Path]:
    """Slurm-web, installed. Paths of sockets must be short, and others must be able to enter the folder."""
    stand_in.files()
    made = pathlib.Path(tempfile.mkdtemp(prefix="hpcai-"))
    made.chmod(0o755)
    try:
        stand_in.install(made)
        (made / "bin").mkdir()
        scontrol(made, "echo SLURM_JWT=a.valid.token")
        yield made
    finally:
        shutil.rmtree(made)


def scontrol(folder: pathlib.Path, does: str) -> None:
    """Write the scontrol of the agent, which keeps its arguments."""
    program = folder / "bin/scontrol"
    program.write_text(f'#!/bin/sh\necho "$@" >> {folder}/scontrol.log\n{does}\n', encoding="utf-8")
    program.chmod(0o755)


@pytest.fixture(scope="module")
def restd(folder: pathlib.Path) -> Iterator[Slurmrestd]:
    """The stand-in of slurmrestd."""
    made = Slurmrestd(folder / "slurmrestd.socket")
    yield made
    made.stop()


@pytest.fixture(scope="module")
def recorder(folder: pathlib.Path) -> Recorder:
    """What the page sends to the gateway."""
    return Recorder(folder / "recorder.socket")


@pytest.fixture(scope="module")
def door(folder: pathlib.Path, restd: Slurmrestd, recorder: Recorder, tmp_path_factory: Any) -> Iterator[Door]:
    """The portal with the page."""
    assert restd
    assert recorder
    page = {"path": "", "url": "", "groups": ["operators"], "login": False}
    pages = [
        {**page, "name": "slurm", "slurm_web": str(folder / "run/gateway/gateway.socket")},
        {**page, "name": "recorder", "slurm_web": str(folder / "recorder.socket")},
        {**page, "name": "away", "slurm_web": str(folder / "no.socket")},
    ]
    portal = tmp_path_factory.mktemp("portal")
    with (
        stand_in.slurm_web(folder, "agent", "gateway"),
        open_door(portal, monitor.free_port(), ACCOUNTS, CLAIMS, {}, rules=RULES, pages=pages) as opened,
    ):
        yield opened


def keep(door: Door, name: str) -> None:
    """Save a picture, to look at."""
    given = os.environ.get("HPCAI_PORTAL_PICTURES")
    if given:
        (pathlib.Path(given) / f"{name}.png").write_bytes(door.portal.page.picture())


def test_members_of_the_groups_see_queue_and_nodes(door: Door, restd: Slurmrestd, folder: pathlib.Path) -> None:
    door.log_in("bob")
    door.portal.page.events.clear()
    door.portal.open("/services/slurm/")
    # The gateway's only cluster.
    door.portal.page.wait("location.pathname === '/services/slurm/hpcai/dashboard'", SLOW_S)
    for view, shown in (
        ("dashboard", "Running jobs"),
        ("jobs", "4711"),
        ("resources", "gpu-1"),
        ("node/gpu-0", "4711"),
    ):
        door.portal.open(f"/services/slurm/hpcai/{view}")
        door.portal.wait_for(shown, SLOW_S)
        keep(door, f"slurm-{view.replace('/', '-')}")
    assert not [words for words in door.portal.page.complaints() if "favicon" not in words]
    assert {(method, user) for method, _path, user in restd.asked} == {("GET", getpass.getuser())}
    # A token is used for many requests.
    assert (folder / "scontrol.log").read_text(encoding="utf-8") == "token lifespan=600\n"


def test_names_that_users_choose_are_text(door: Door) -> None:
    door.log_in("bob")
    door.portal.open("/services/slurm/hpcai/job/4711")
    door.portal.wait_for(HOSTILE, SLOW_S)
    keep(door, "slurm-job")
    assert door.portal.page.run("document.title") == "Slurm-web"
    # Even a hole in the application would not run what it shows.
    door.portal.page.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.owned=1\">')")
    door.portal.page.wait("[...document.images].some(one => one.getAttribute('src') === 'x' && one.complete)", SLOW_S)
    assert door.portal.page.run("window.owned") is None


def test_other_users_do_not_get_in(door: Door, recorder: Recorder) -> None:
    door.log_in("alice")
    for path in ("/", "/hpcai/jobs", "/config.json", "/api/anonymous", "/api/clusters", "/assets/../api/clusters"):
        door.portal.open(f"/services/slurm{path}")
        door.portal.wait_for("403", SLOW_S)
    token = door.portal.token()
    assert door.portal.status(door.certificate, f"{API}/anonymous", token) == 403
    # A token of the application opens no door: the answer is the portal's login.
    for given in (token, "own.jwt.token", ""):
        door.portal.status(door.certificate, "/services/recorder/x", given)
    door.portal.forget()
    door.portal.open("/services/recorder/x")
    door.portal.page.wait("location.pathname === '/hub/login'", SLOW_S)
    assert not recorder.asked


def test_nothing_can_be_changed(door: Door) -> None:
    door.log_in("bob")
    token = door.portal.token()
    assert door.portal.status(door.certificate, f"{API}/anonymous", token) == 200
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        for path in ("/login", "/agents/hpcai/cache/reset", "/agents/hpcai/jobs"):
            assert door.portal.status(door.certificate, API + path, token, method, b"{}") == 405


def test_the_gateway_gets_neither_cookies_nor_tokens_of_the_portal(door: Door, recorder: Recorder) -> None:
    door.log_in("bob")
    token = door.portal.token()
    path = "/services/recorder/a%20b%2Fc?x=1%262"
    door.portal.open(path)
    door.portal.wait_for("recorded", SLOW_S)
    ask = "fetch('/services/recorder/%s', {headers: {Authorization: 'Bearer ' + %s}}).then(one => one.status)"
    assert door.portal.page.run(ask % ("own", "'own.jwt.token'")) == 200
    assert door.portal.page.run(ask % ("hub", json.dumps(token))) == 200
    # The application then fetches a new token. The browser asks nobody for a password.
    assert door.portal.page.run(ask % ("away", "'own.jwt.token'")) == 401
    assert "WWW-Authenticate" not in json.dumps(door.portal.page.events[-1:])
    sent = dict(recorder.asked)
    assert path in sent
    assert not [headers for headers in sent.values() if "cookie" in headers]
    assert {name: headers.get("authorization") for name, headers in sent.items() if "%" not in name} == {
        "/services/recorder/own": "Bearer own.jwt.token",
        "/services/recorder/hub": None,
        "/services/recorder/away": "Bearer own.jwt.token",
    }
    assert token not in json.dumps(recorder.asked)
    assert door.portal.page.run("document.cookie").find("a=b") == -1


def test_scripts_of_another_users_web_server_on_the_machine_get_nothing(door: Door, recorder: Recorder) -> None:
    """Browsers send the portal's cookies with its requests: cookies do not distinguish ports."""
    door.log_in("bob")
    door.portal.open("/services/recorder/")
    door.portal.wait_for("recorded", SLOW_S)
    before = len(recorder.asked)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(door.certificate, door.certificate.with_name("tls.key"))
    other = Service((200, {"Content-Type": "text/html"}, b"<p>other"), tls=context)
    door.portal.page.open(f"https://127.0.0.1:{other.port}/")
    ask = (
        "fetch('%s/services/recorder/x', {credentials: 'include', mode: '%s'}).then(one => one.text(), () => 'refused')"
    )
    for mode in ("cors", "no-cors"):
        assert "recorded" not in door.portal.page.run(ask % (door.portal.url, mode))
    assert any("cookie" in headers for _path, headers in other.requests)
    assert len(recorder.asked) == before


def test_a_gateway_that_does_not_run_is_named(door: Door) -> None:
    door.log_in("bob")
    door.portal.open("/services/away/")
    door.portal.wait_for("502: The server of this page does not answer.", SLOW_S)


def test_after_the_session_the_page_says_what_to_do(door: Door) -> None:
    door.log_in("bob")
    door.portal.open("/services/slurm/hpcai/jobs")
    door.portal.wait_for("4711", SLOW_S)
    door.portal.forget()
    door.portal.wait_for("Reload this page to log in.", SLOW_S)
    keep(door, "slurm-session")


def as_nobody(words: list[str]) -> str:
    """Run a command as a user without rights, and return its error output."""
    done = subprocess.run(
        words, user=65534, group=65534, extra_groups=[], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.usefixtures("door")
def test_other_users_of_the_machine_reach_neither_gateway_nor_agent(folder: pathlib.Path) -> None:
    connect = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    for name, mode in (("gateway", "srw-rw----"), ("agent", "srw-------")):
        path = folder / f"run/{name}/{name}.socket"
        shown = subprocess.run(["ls", "-l", path], capture_output=True, text=True, check=True, timeout=60).stdout
        assert shown.startswith(mode)
        words = [sys.executable, "-c", connect, str(path)]
        assert "PermissionError" in as_nobody(words)
        # Also if the folder were open.
        path.parent.chmod(0o755)
        assert "PermissionError" in as_nobody(words)
        assert subprocess.run(words, timeout=60, check=False).returncode == 0


def test_no_program_listens_at_a_port(door: Door) -> None:
    assert door
    shown = subprocess.run(["ss", "-Htlnp"], capture_output=True, text=True, check=False, timeout=60).stdout
    assert "slurm_web" not in shown
    for port in (5011, 5012):
        assert f":{port} " not in shown


@pytest.fixture
def apart(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """The same Slurm-web with sockets of its own."""
    made = pathlib.Path(tempfile.mkdtemp(prefix="hpcai-"))
    for name in ("venv", "conf", "frontend", "bin"):
        (made / name).symlink_to(folder / name)
    (made / "slurmrestd.socket").symlink_to(folder / "slurmrestd.socket")
    yield made
    shutil.rmtree(made)


@pytest.mark.usefixtures("restd")
def test_an_agent_that_starts_later_or_again_is_found_at_once(apart: pathlib.Path) -> None:
    with stand_in.slurm_web(apart, "gateway"):
        token = stand_in.ask(apart, f"{API}/anonymous")[1]["token"]
        assert stand_in.ask(apart, f"{API}/clusters", token) == (200, [])
        with stand_in.slurm_web(apart, "agent"):
            (cluster,) = stand_in.ask(apart, f"{API}/clusters", token)[1]
            assert (cluster["name"], cluster["racksdb"], cluster["cache"]) == ("hpcai", False, False)
            assert {action.partition("-")[0] for action in cluster["permissions"]["actions"]} == {
                "view",
                "associations",
            }
            assert len(stand_in.ask(apart, f"{API}/agents/hpcai/jobs", token)[1]) == 2
        assert stand_in.ask(apart, f"{API}/agents/hpcai/jobs", token)[0] == 500
        with stand_in.slurm_web(apart, "agent"):
            assert len(stand_in.ask(apart, f"{API}/agents/hpcai/jobs", token)[1]) == 2
            # Without a token of the gateway there is nothing but the pages.
            assert stand_in.ask(apart, f"{API}/agents/hpcai/jobs")[0] == 403


@pytest.mark.usefixtures("restd")
def test_without_a_token_of_slurm_the_reason_is_shown(apart: pathlib.Path, folder: pathlib.Path) -> None:
    scontrol(folder, "echo 'scontrol: error: Unable to contact slurm controller' >&2; exit 1")
    try:
        with stand_in.slurm_web(apart, "agent", "gateway"):
            token = stand_in.ask(apart, f"{API}/anonymous")[1]["token"]
            status, answer = stand_in.ask(apart, f"{API}/agents/hpcai/jobs", token)
            assert status == 500
            assert "scontrol created no token: scontrol: error: Unable to contact" in answer["description"]
    finally:
        scontrol(folder, "echo SLURM_JWT=a.valid.token")
