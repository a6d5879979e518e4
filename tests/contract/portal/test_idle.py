# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A notebook that nobody uses ends: JupyterHub's real single-user server, started by the notebook's program.

The hub is a stand-in that knows one user. JupyterLab is visible in Chromium; without Chromium, the test sends requests
like those that JupyterLab sends.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import pathlib
import subprocess
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from browser import chromium
from browser.portal_page import Portal
from stand_ins import monitor
from stand_ins import portal as stand_in

from hpcai_portal import notebook

TOKEN = {"Authorization": "token secret"}
LIMIT_S = 420
"""With a limit of a minute. The server looks once a minute: at its kernel, then at itself."""
SERVE = """
import argparse, os, pwd, sys
from hpcai_portal import notebook
home, folder, port = sys.argv[1:]
account = pwd.struct_passwd(("alice", "x", os.getuid(), os.getgid(), "", home, "/bin/sh"))
asked = argparse.Namespace(ports=f"{port}-{port}", idle_minutes=1, image="")
raise SystemExit(notebook.serve(asked, os.environ, account, folder))
"""
COMPUTE = """
import asyncio, json, sys
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect
async def main():
    socket = await websocket_connect(HTTPRequest(sys.argv[1], headers=json.loads(sys.argv[2])))
    head = {"msg_id": "1", "session": "1", "username": "alice", "msg_type": "execute_request", "version": "5.3"}
    content = {"code": "import time; time.sleep(3000)", "silent": False, "user_expressions": {}, "allow_stdin": False}
    asked = {"header": head, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell", "buffers": []}
    await socket.write_message(json.dumps(asked))
    while True:
        said = json.loads(await socket.read_message())
        if said["content"].get("execution_state") == "busy" and said["parent_header"].get("msg_id") == "1":
            break
asyncio.run(main())
"""


class Hub(http.server.BaseHTTPRequestHandler):
    """Answers what a single-user server asks."""

    def answer(self, status: int, body: object) -> None:
        """Send JSON."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def do_GET(self) -> None:
        """The hub's version, the user, or the login of a browser."""
        path, _mark, query = self.path.partition("?")
        if path.endswith("/oauth2/authorize"):
            asked = dict(urllib.parse.parse_qsl(query))
            back = urllib.parse.urlencode({"code": "x", "state": asked["state"]})
            self.send_response(302)
            self.send_header("Location", f"{asked['redirect_uri']}?{back}")
            self.end_headers()
            return
        scopes = ["access:servers!server=alice/"]
        user = {"kind": "user", "name": "alice", "admin": False, "groups": [], "scopes": scopes}
        self.answer(200, user if path.endswith("/user") else {"version": "6.1.1"})

    def do_POST(self) -> None:
        """A browser's token, a port, or a time of activity."""
        is_login = self.path.endswith("/oauth2/token")
        self.answer(200 if is_login else 201, {"access_token": "secret", "token_type": "Bearer"} if is_login else {})

    def log_message(self, *_words: Any) -> None:
        """Write nothing."""


@pytest.fixture
def hub() -> Iterator[str]:
    """The URL of the hub's API."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/hub/api"
    server.shutdown()
    server.server_close()


class Notebook:
    """A notebook's program with its server."""

    def __init__(self, hub: str, home: pathlib.Path, folder: str) -> None:
        # The tests may run as root.
        (home / ".jupyter").mkdir(parents=True)
        (home / ".jupyter/jupyter_server_config.py").write_text("c.ServerApp.allow_root = True\n", encoding="utf-8")
        port = monitor.free_port()
        self.address = f"http://127.0.0.1:{port}"
        self.url = f"{self.address}/user/alice/api"
        self.log = home / notebook.LOG
        given = {
            "JUPYTERHUB_API_TOKEN": "secret",
            "JUPYTERHUB_API_URL": hub,
            "JUPYTERHUB_ACTIVITY_URL": f"{hub}/users/alice/activity",
            "JUPYTERHUB_CLIENT_ID": "jupyterhub-user-alice",
            "JUPYTERHUB_HOST": hub.removesuffix("/hub/api"),
            "JUPYTERHUB_OAUTH_CALLBACK_URL": f"{self.address}/user/alice/oauth_callback",
            "JUPYTERHUB_OAUTH_ACCESS_SCOPES": '["access:servers!server=alice/"]',
            "JUPYTERHUB_SERVICE_PREFIX": "/user/alice/",
            "JUPYTERHUB_USER": "alice",
            "PYTHONPATH": str(stand_in.ROLE / "files"),
        }
        self.python = str(stand_in.programs() / "hub/bin/python")
        words = [self.python, "-c", SERVE, str(home), folder, str(port)]
        self.process = subprocess.Popen(words, env={**os.environ, **given}, stdin=subprocess.DEVNULL)
        monitor.wait(lambda: self.ask("status") is not None, self.said, 300)

    def said(self) -> str:
        """The end of the server's log."""
        return self.log.read_text(encoding="utf-8")[-4000:] if self.log.exists() else "no log"

    def ask(self, path: str, method: str = "GET") -> Any:
        """An answer of the server's API; None if it does not answer."""
        data = b"{}" if method == "POST" else None
        with contextlib.suppress(OSError):
            request = urllib.request.Request(f"{self.url}/{path}", data, TOKEN, method=method)
            return json.loads(urllib.request.urlopen(request, timeout=30).read())
        return None

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """JupyterLab in a browser, with a notebook in which a cell has run."""
        if chromium.find() is None:
            assert self.ask("kernels", "POST")
            yield
            return
        with chromium.browser() as page:
            portal = Portal(page, self.address)
            portal.open("/user/alice/lab")
            portal.wait_for_lab()
            portal.run_cell("print('BEGUN'.lower())", "begun")
            yield

    def compute(self) -> None:
        """Start a kernel that computes until it is killed."""
        made = self.ask("kernels", "POST")
        socket = f"ws{self.url.removeprefix('http')}/kernels/{made['id']}/channels"
        subprocess.run([self.python, "-c", COMPUTE, socket, json.dumps(TOKEN)], check=True, timeout=120)


@contextlib.contextmanager
def started(hub: str, home: pathlib.Path) -> Iterator[Notebook]:
    """A notebook that is ended at the end of the test."""
    # The path of tmp_path can be too long for sockets, as command_of says.
    with tempfile.TemporaryDirectory(prefix=notebook.PREFIX, dir="/tmp") as folder:
        made = Notebook(hub, home, folder)
        try:
            yield made
        finally:
            made.process.terminate()
            made.process.wait(60)


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_an_idle_notebook_ends_with_its_kernel_and_terminal_and_one_that_computes_does_not(
    hub: str, tmp_path: pathlib.Path
) -> None:
    with contextlib.ExitStack() as stack:
        idle, busy = (stack.enter_context(started(hub, tmp_path / name)) for name in ("idle", "busy"))
        assert idle.ask("terminals", "POST")
        busy.compute()
        stack.enter_context(idle.shown())
        deadline = time.monotonic() + LIMIT_S
        while idle.process.poll() is None:
            # An open JupyterLab does this every few seconds.
            shown = {path: idle.ask(path) for path in ("kernels", "sessions", "terminals", "contents?content=1")}
            assert time.monotonic() < deadline, f"{shown} after {LIMIT_S} s: {idle.said()}"
            time.sleep(2)
        assert idle.process.returncode == 0, idle.said()
        assert [kernel["execution_state"] for kernel in busy.ask("kernels")] == ["busy"], busy.said()


def test_only_requests_that_change_something_are_activity() -> None:
    program = """
import json, types
from jupyter_server.base.handlers import APIHandler
from hpcai_portal import singleuser
assert singleuser
def counts(method, path="api/contents/lab/api/workspaces/a", **arguments):
    handler = types.SimpleNamespace(
        request=types.SimpleNamespace(method=method, path="/user/alice/" + path), base_url="/user/alice/", settings={},
        _track_activity=True, _jupyter_current_user="alice",
        get_argument=lambda name, default: arguments.get(name, default),
    )
    APIHandler.update_api_activity(handler)
    return "api_last_activity" in handler.settings
others = [counts("POST", no_track_activity="1"), counts("PUT", "lab/api/workspaces/default")]
print(json.dumps([[*map(counts, ["GET", "HEAD", "PUT", "POST", "DELETE"])], others]))
"""
    assert stand_in.in_hub(program) == [[False, False, True, True, True], [False, False]]
