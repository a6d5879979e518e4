# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A small HTTP server that gives prepared answers, in place of Azure's services."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, dict[str, str], bytes]
Before = Callable[[BaseHTTPRequestHandler], None]


class Service:
    """Gives its answers in order, repeats the last one, and records the requests.

    :ivar requests: path and headers (lower case) of each request.
    :ivar posted: the bodies of POST requests.
    """

    def __init__(self, *answers: Answer, before: Before | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.answers = list(answers)
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.posted: list[bytes] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                service.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                if before:
                    before(self)
                status, headers, body = service.answers.pop(0) if len(service.answers) > 1 else service.answers[0]
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                service.posted.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.do_GET()

            def log_message(self, *_arguments: Any) -> None:
                """Log nothing."""

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_arguments: Any) -> None:
                """Ignore clients that close the connection."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = int(self.server.server_address[1])
        self.endpoint = f"http://127.0.0.1:{self.port}"
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        """Stop the server and close its port."""
        self.server.shutdown()
        self.server.server_close()
