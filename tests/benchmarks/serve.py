# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated Azure in a separate process, so that its work is not measured as a client's.

It prints one line of JSON when it is ready, and ends when its standard input is closed.
"""

from __future__ import annotations

import argparse
import datetime
import ipaddress
import itertools
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from flask import Response
from werkzeug.serving import make_server

from benchmarks import azure_rm_batch
from benchmarks.subscription import scenario
from simulator import LOOPBACK, arm
from simulator.backends.none import NoneBackend
from simulator.scenario import Scenario
from simulator.server import Handler, Server
from simulator.testing import Simulator

LATE = "/late"


class Latency:
    """Answers each request after the same time, which includes the simulator's own work.

    Answers that take longer are counted. If there are many, the machine is too slow or too busy for the latency, and
    the wall times are less reliable.
    """

    def __init__(self, application: Any, seconds: float) -> None:
        self._application = application
        self._seconds = seconds
        self._lock = threading.Lock()
        self.answers = 0
        self.late = 0

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Handle one request."""
        began = time.monotonic()
        answer = self._application(environ, start_response)
        body = list(answer)
        if hasattr(answer, "close"):
            answer.close()
        left = began + self._seconds - time.monotonic()
        with self._lock:
            self.answers += 1
            self.late += left < 0
        if left > 0:
            time.sleep(left)
        return body


class OtherPages:
    """Answers requests for other pages than Resource Manager's at once."""

    def __init__(self, application: Any, pages: Mapping[str, Callable[[], Any]]) -> None:
        self._application = application
        self._pages = pages

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Handle one request."""
        page = self._pages.get(environ["PATH_INFO"])
        if page is None:
            answer: Iterable[bytes] = self._application(environ, start_response)
            return answer
        return Response(json.dumps(page()), content_type="application/json")(environ, start_response)


def listen(application: Any, certificate: tuple[str, str] | None = None) -> int:
    """Serve an application on a free port, and return the port."""
    server = make_server(LOOPBACK, 0, application, threaded=True, request_handler=Handler, ssl_context=certificate)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return int(server.port)


def make_certificate(folder: Path) -> tuple[str, str]:
    """Make a certificate for loopback and its key, and return the files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "simulated Azure")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(LOOPBACK))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    files[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, *private))
    return str(files[0]), str(files[1])


def make_server_of(wanted: Scenario) -> Server:
    """A simulator without duplicate computer names. Among thousands of random names two may be equal."""
    for seed in itertools.count(1):
        server = Server(wanted, NoneBackend(), port=0, seed=seed)
        names = {item.computer_name.lower() for item in server.model.instances()}
        if len(names) == len(server.model.instances()):
            break
    return server


def main() -> int:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, required=True)
    parser.add_argument("--set-size", type=int, required=True, help="instances per scale set")
    parser.add_argument("--latency", type=float, required=True, metavar="MS")
    parser.add_argument("--folder", type=Path, required=True, help="for the certificate")
    arguments = parser.parse_args()

    server = make_server_of(scenario(arguments.instances, arguments.set_size))
    server.start().finished.wait()
    Simulator(server).warm()

    app = arm.create_app(server.context)
    azure_rm_batch.extend(app)
    latency = Latency(app, arguments.latency / 1000)
    # azure_rm sends no token over plain HTTP, so it gets an endpoint with TLS.
    certificate = make_certificate(arguments.folder)
    secure = f"https://{LOOPBACK}:{listen(latency, certificate)}"
    pages: dict[str, Callable[[], Any]] = {
        azure_rm_batch.CLOUDS: lambda: azure_rm_batch.clouds(secure),
        azure_rm_batch.TOKENS: azure_rm_batch.token,
        LATE: lambda: {"answers": latency.answers, "late": latency.late},
    }
    plain = f"http://{LOOPBACK}:{listen(OtherPages(latency, pages))}"
    # The simulator's own endpoint has no latency. It is for reading the request log.
    print(
        json.dumps({"plain": plain, "secure": secure, "admin": server.endpoint, "certificate": certificate[0]}),
        flush=True,
    )
    sys.stdin.read()
    server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
