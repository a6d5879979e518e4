#!/usr/bin/env python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in for Azure's metadata service inside the emulated machine, which cannot reach the simulator.

It adds the address 169.254.169.254 to the loopback interface and answers from /etc/stand-in-imds.json::

    {"compute": {...},     the answer of /metadata/instance/compute
     "token": "...",       the managed identity's token; without it the machine has no identity
     "refusing": 403,      the status of all answers
     "failing": 3,         the number of requests that are first answered with HTTP status 500
     "drip": 1.0}          seconds between two bytes of an answer

The file is read for each request. To play a machine without a metadata service, do not run this.
"""

from __future__ import annotations

import json
import subprocess
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

ADDRESS = "169.254.169.254"
SETTINGS = Path("/etc/stand-in-imds.json")


class Answers(BaseHTTPRequestHandler):
    """Answers one request."""

    asked = 0

    def do_GET(self) -> None:
        """Answer according to the settings."""
        Answers.asked += 1
        settings = json.loads(SETTINGS.read_text(encoding="utf-8"))
        place, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        if self.headers.get("Metadata", "").lower() != "true" or "api-version" not in query:
            self._say(400, {"error": "Bad request"})
        elif "refusing" in settings:
            self._say(settings["refusing"], {"error": "Refused"})
        elif Answers.asked <= settings.get("failing", 0):
            self._say(500, {"error": "Internal error"})
        elif place == "/metadata/instance/compute":
            self._say(200, settings["compute"], settings.get("drip", 0))
        elif place == "/metadata/identity/oauth2/token" and "token" in settings:
            self._say(200, {"access_token": settings["token"], "resource": query.get("resource", [""])[0]})
        else:
            self._say(400 if "identity" in place else 404, {"error": "Not found"})

    def _say(self, status: int, body: Any, drip: float = 0) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        for number in range(0, len(content), 1 if drip else len(content)):
            self.wfile.write(content[number : number + 1] if drip else content)
            self.wfile.flush()
            time.sleep(drip)


def main() -> None:
    """Add the address and serve."""
    subprocess.run(["ip", "address", "replace", f"{ADDRESS}/32", "dev", "lo"], check=True)
    ThreadingHTTPServer((ADDRESS, 80), Answers).serve_forever()


if __name__ == "__main__":
    main()
