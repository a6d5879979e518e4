# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stands in front of Azurite, counts what goes through, and throttles as an account does that is over its limit."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .sas import ACCOUNT

_BUSY = b'<?xml version="1.0" encoding="utf-8"?><Error><Code>ServerBusy</Code><Message>Busy.</Message></Error>'
_OWN = ("connection", "transfer-encoding", "content-length", "keep-alive")


class Front:
    """An account before another one.

    :param port: Azurite's.
    :param busy: whether a request, by its method and path, is turned away.
    :ivar sent: bytes of blobs that went out.
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
                # Its own Host, for the SAS is signed for the account alone.
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
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """The account's URL through this."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/{ACCOUNT}"

    def end(self) -> None:
        """Stop it."""
        self._server.shutdown()
        self._server.server_close()
