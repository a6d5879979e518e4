#!/usr/bin/env python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in for Azure's metadata service, inside the emulated machine, where no simulator can be reached.

It takes the address 169.254.169.254 on the loopback interface and answers from /etc/stand-in-imds.json::

    {"compute": {...},     what /metadata/instance/compute answers
     "token": "...",       the managed identity's token; without it, as of a machine that has none
     "refusing": 403,      the status that all questions are answered with
     "failing": 3,         how many questions are answered with HTTP status 500 first
     "drip": 1.0}          seconds between two bytes of an answer

The file is read anew for each question. A machine without a metadata service is one where this does not run.
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
    """One question."""

    asked = 0

    def do_GET(self) -> None:
        """Answer as the settings say."""
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
    """Take the address and serve."""
    subprocess.run(["ip", "address", "replace", f"{ADDRESS}/32", "dev", "lo"], check=True)
    ThreadingHTTPServer((ADDRESS, 80), Answers).serve_forever()


if __name__ == "__main__":
    main()
