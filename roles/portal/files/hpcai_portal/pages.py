# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A page of the cluster that the portal passes on after the login, for some groups.

It is a folder with files, a local web server, or Slurm-web at its Unix socket.

JupyterHub runs one such service for each page, and lets only members of its groups in. Files can contain what nodes
and users have written, so their Content-Security-Policy gives them an origin of their own: they cannot act as the
visitor. A server is trusted, because its pages need cookies for their own requests.
"""

from __future__ import annotations

import mimetypes
import os
import re
import socket
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from jupyterhub.services.auth import HubOAuthCallbackHandler, HubOAuthenticated
from tornado import httpclient, ioloop, netutil, simple_httpclient, web

from . import config

SANDBOX = "sandbox allow-scripts allow-popups allow-downloads"
LIMIT_S = 60.0
_PASSED = ("Content-Type", "Cache-Control", "ETag", "Last-Modified", "Location")
# Slurm shows what users write, such as names of jobs, and this page has the origin of the portal.
_OWN_SCRIPTS_ONLY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; object-src 'none'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# Tokens of JupyterHub have no dots, so they stay here.
_TOKEN = re.compile(r"Bearer [A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


def file_of(root: Path, path: str) -> Path | None:
    """Return the file below a folder that a request's path names; None if there is none.

    :param root: a folder, or the only file.
    """
    top = root.resolve()
    if top.is_file():
        return top if path in ("", top.name) else None
    try:
        found = (top / path.lstrip("/")).resolve()
    except (OSError, ValueError):
        return None
    if found.is_dir():
        found = found / "index.html"
    found = found.resolve()
    return found if found.is_relative_to(top) and found.is_file() else None


def content_of(found: Path) -> bytes:
    """Read a file that ``file_of`` returned. A link that has taken a place in its path since then is not followed.

    :raises OSError: the file is no longer there.
    """
    folder = os.open("/", os.O_PATH)
    try:
        for name in found.parts[1:-1]:
            inner = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        with open(os.open(found.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder), "rb") as file:
            return file.read()
    finally:
        os.close(folder)


class _Page(HubOAuthenticated, web.RequestHandler):
    def set_default_headers(self) -> None:
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "same-origin")

    def write_error(self, status_code: int, **words: Any) -> None:
        """Show what is wrong; tornado shows the status only."""
        error = words.get("exc_info", (None, None))[1]
        said = error.log_message if status_code in (404, 502) and isinstance(error, web.HTTPError) else ""
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{status_code}: {said or self._reason}\n")


class Files(_Page):
    """Files of a folder."""

    def initialize(self, root: str) -> None:
        """Set the folder."""
        self.root = Path(root)

    @web.authenticated
    def get(self, path: str) -> None:
        """Send a file."""
        found = file_of(self.root, path)
        try:
            content = content_of(found) if found else None
        except FileNotFoundError:
            content = None
        if found is None or content is None:
            raise web.HTTPError(404, "There is no such page. It may not have been written yet.")
        self.set_header("Content-Security-Policy", SANDBOX)
        self.set_header("Content-Type", mimetypes.guess_type(found.name)[0] or "application/octet-stream")
        self.write(content)


class _Server(_Page):
    async def forward(self, client: Any, url: str, headers: dict[str, str], hidden: tuple[int, ...]) -> None:
        """Send a request to the server, and its answer to the visitor.

        :param hidden: statuses that become a 502.
        """
        try:
            answer = await client.fetch(
                url, headers=headers, raise_error=False, follow_redirects=False, request_timeout=LIMIT_S
            )
        except (OSError, httpclient.HTTPError):
            raise web.HTTPError(502, "The server of this page does not answer.") from None
        self.set_status(answer.code if answer.code not in hidden else 502)
        for name in _PASSED:
            if name in answer.headers:
                self.set_header(name, answer.headers[name])
        self.write(answer.body or b"")


class Forwarded(_Server):
    """A web server that only this machine, or the private network, reaches."""

    def initialize(self, url: str, prefix: str) -> None:
        """Set the server's URL, and how to log in there."""
        self.prefix = prefix
        self.url = url.rstrip("/")
        login = os.environ.get("PORTAL_PAGE_LOGIN")
        self.login = {"Authorization": f"Basic {login}"} if login else {}

    @web.authenticated
    async def get(self, _path: str) -> None:
        """Forward a request without the visitor's cookies, and its answer."""
        query = f"?{self.request.query}" if self.request.query else ""
        # Tornado has decoded `path`, and the server could leave its URL's path with "..".
        path = self.request.path.removeprefix(self.prefix)
        if ".." in re.split(r"[/\\]", unquote(path)):
            raise web.HTTPError(400)
        # The browser must not ask the visitor for the login of the portal's own user.
        await self.forward(httpclient.AsyncHTTPClient(), f"{self.url}/{path}{query}", self.login, (401, 599))


class _Socket(netutil.Resolver):
    def initialize(self, path: str) -> None:
        self.path = path

    async def resolve(self, *_host: Any, **_more: Any) -> list[tuple[int, Any]]:
        return [(socket.AF_UNIX, self.path)]


class SlurmWeb(_Server):
    """Slurm-web's gateway at its Unix socket: an application in the browser, which reads data with GET requests.

    The gateway gives each visitor a token, which the application sends with its requests.
    """

    def initialize(self, path: str) -> None:
        """Set the path of the socket."""
        self.socket = path

    def set_default_headers(self) -> None:
        """Let only scripts of the portal's own servers run."""
        super().set_default_headers()
        self.set_header("Content-Security-Policy", _OWN_SCRIPTS_ONLY)

    def prepare(self) -> None:
        """Remove the application's token from the request, because JupyterHub would treat it as one of its own."""
        given = self.request.headers.get("Authorization", "")
        self.token = {"Authorization": given} if _TOKEN.fullmatch(given) else {}
        if self.token:
            del self.request.headers["Authorization"]

    def check_xsrf_cookie(self) -> None:
        """Accept requests of the application's scripts, which do not know JupyterHub's XSRF token.

        Only GET is forwarded, and it changes nothing. Scripts of other sites are refused.
        """
        if self.request.method != "GET" or self.request.headers.get("Sec-Fetch-Site") != "same-origin":
            super().check_xsrf_cookie()

    def get_login_url(self) -> str:
        """Send only visitors to the login, and no scripts, which could not use it."""
        if self.request.headers.get("Sec-Fetch-Mode", "navigate") != "navigate":
            raise web.HTTPError(401)
        return str(super().get_login_url())

    def write_error(self, status_code: int, **words: Any) -> None:
        """Tell the application what is wrong, which it shows to the visitor."""
        if self.request.headers.get("Sec-Fetch-Mode", "navigate") == "navigate":
            super().write_error(status_code, **words)
            return
        error = words.get("exc_info", (None, None))[1]
        said = error.log_message if status_code == 502 and isinstance(error, web.HTTPError) else self._reason
        self.finish({"code": status_code, "description": "Reload this page to log in." if status_code == 401 else said})

    @web.authenticated
    async def get(self, path: str) -> None:
        """Forward a request without the visitor's cookies, but with the application's token, and its answer."""
        client = simple_httpclient.SimpleAsyncHTTPClient(force_instance=True, resolver=_Socket(path=self.socket))
        try:
            # The gateway serves the same path as the portal. A 401 makes the application fetch a new token.
            await self.forward(client, f"http://slurm-web{self.request.uri}", self.token, (599,))
        finally:
            client.close()


def application(page: dict[str, Any], prefix: str) -> web.Application:
    """Return the page's web server."""
    target: tuple[Any, dict[str, str]] = (Files, {"root": page["path"]})
    if page.get("url"):
        target = (Forwarded, {"url": page["url"], "prefix": prefix})
    elif page.get("slurm_web"):
        target = (SlurmWeb, {"path": page["slurm_web"]})
    return web.Application(
        [(prefix + "oauth_callback", HubOAuthCallbackHandler), (prefix + "(.*)", *target)],
        cookie_secret=os.urandom(32),
    )


def main() -> None:
    """Serve one page."""
    page = next(one for one in config.read(sys.argv[2])["pages"] if one["name"] == sys.argv[1])
    address = urlparse(os.environ["JUPYTERHUB_SERVICE_URL"])
    application(page, os.environ["JUPYTERHUB_SERVICE_PREFIX"]).listen(address.port or 0, "127.0.0.1")
    ioloop.IOLoop.current().start()


if __name__ == "__main__":
    main()
