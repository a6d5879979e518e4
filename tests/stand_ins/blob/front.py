# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A proxy in front of Azurite that counts transferred bytes and throttles like an account over its limit."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .sas import ACCOUNT

_BUSY = b'<?xml version="1.0" encoding="utf-8"?><Error><Code>ServerBusy</Code><Message>Busy.</Message></Error>'
_OWN = ("connection", "transfer-encoding", "content-length", "keep-alive")


class Front:
    """A proxy with the URL of a storage account.

    :param port: Azurite's port.
    :param busy: called with method and path; if it returns true, the request is throttled.
    :ivar sent: bytes of blobs that clients downloaded.
    """

    def __init__(self, port: int, busy: Callable[[str, str], bool] = lambda _method, _path: False) -> None:
        self.busy = busy
        self.sent = 0
        front = self
        lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if front.busy(self.command, self.path):
                    self._say(503, {"x-ms-error-code": "ServerBusy", "Content-Type": "application/xml"}, _BUSY)
                    return
                behind = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                # Pass the client's Host header on. A SAS covers only the account, so its signature stays valid.
                behind.request(self.command, self.path, body, dict(self.headers.items()))
                answer = behind.getresponse()
                content = answer.read()
                kept = {name: value for name, value in answer.getheaders() if name.lower() not in _OWN}
                with lock:
                    front.sent += len(content) if "comp=" not in self.path else 0
                length = answer.getheader("Content-Length") if self.command == "HEAD" else None
                self._say(answer.status, kept, content, length)
                behind.close()

            def _say(self, status: int, headers: dict[str, str], body: bytes, length: str | None = None) -> None:
                self.send_response_only(status)
                for name, value in {**headers, "Content-Length": length or str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_HEAD = do_PUT = do_DELETE = _answer

            def log_message(self, *_arguments: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """The account's URL through the proxy."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/{ACCOUNT}"

    def end(self) -> None:
        """Stop it."""
        self._server.shutdown()
        self._server.server_close()
