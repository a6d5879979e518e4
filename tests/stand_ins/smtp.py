# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A mail server on loopback without TLS, which keeps what it gets."""

from __future__ import annotations

import socketserver
import threading
from dataclasses import dataclass, field


@dataclass
class Mail:
    """A received mail.

    :ivar login: what the client sent with AUTH PLAIN, in base64.
    """

    sender: str = ""
    recipients: list[str] = field(default_factory=list)
    login: str = ""
    text: str = ""


class Mailbox:
    """The server, in a ``with`` statement.

    :ivar received: in the order in which they arrived.
    """

    def __init__(self) -> None:
        self.received: list[Mail] = []
        received = self.received

        class Session(socketserver.StreamRequestHandler):
            def say(self, line: str) -> None:
                self.wfile.write(f"{line}\r\n".encode())

            def handle(self) -> None:
                self.say("220 localhost")
                mail = Mail()
                while line := self.rfile.readline().decode().rstrip("\r\n"):
                    word, _space, rest = line.partition(" ")
                    address = line.partition("<")[2].partition(">")[0]
                    if word == "EHLO":
                        self.say("250-localhost")
                        self.say("250 AUTH PLAIN")
                    elif word == "AUTH":
                        mail.login = rest.partition(" ")[2]
                        self.say("235 accepted")
                    elif word == "DATA":
                        self.say("354 end with a point")
                        lines = iter(lambda: self.rfile.readline().decode().rstrip("\r\n"), ".")
                        mail.text = "\n".join(lines)
                        received.append(mail)
                        self.say("250 accepted")
                    elif word == "QUIT":
                        self.say("221 closing")
                        return
                    else:
                        mail.sender = address if word == "MAIL" else mail.sender
                        mail.recipients += [address] if word == "RCPT" else []
                        self.say("250 accepted")

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Session)
        self.port = int(self._server.server_address[1])

    def __enter__(self) -> Mailbox:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
