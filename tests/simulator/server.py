# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One simulator: its model, backend and listeners."""

from __future__ import annotations

import ipaddress
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from simulator import LOOPBACK, arm, imds
from simulator.arm.context import Context, Options
from simulator.authority import MANAGEMENT_HOST, Authority
from simulator.backends import Backend, NetworkSpec
from simulator.effects import Effects
from simulator.faults import SERVICES, Faults
from simulator.keys import PRIVATE
from simulator.keyvault import app as keyvault
from simulator.keyvault.store import DOMAIN
from simulator.model import Model
from simulator.operations import Operation, Operations
from simulator.requestlog import RequestLog
from simulator.scenario import LOCATION, Scenario, ScenarioError

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

IP_FREEBIND = 15
"""Linux: listen on an address that no interface has yet, because the backend makes the bridge later."""
BACKLOG = 128
LOCALHOST = "localhost"


class Handler(WSGIRequestHandler):
    """Writes no log lines, and does not wait to fill packets."""

    disable_nagle_algorithm = True

    def log(self, *args: Any) -> None:
        """Write nothing: the simulator has its own request log."""


def by_host(applications: Mapping[str, WSGIApplication], other: WSGIApplication) -> WSGIApplication:
    """The application of a request's host name, without its port; for other names, ``other``."""

    def serve(environment: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        name = environment.get("HTTP_HOST", "").partition(":")[0].lower()
        return applications.get(name, other)(environment, start)

    return serve


class Server:
    """A simulator in this process."""

    def __init__(
        self,
        scenario: Scenario,
        backend: Backend,
        *,
        real: bool = False,
        port: int | None = None,
        state_dir: Path | None = None,
        ssh_public_keys: tuple[str, ...] = (),
        options: Options | None = None,
        seed: int | None = None,
        authority: Callable[[], Authority] = Authority.fresh,
        boot_timeout: float = 300,
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        if real and len(scenario.virtual_networks) > 1:
            raise ScenarioError("real machines live in one virtual network: the scenario must not have several")
        self.scenario = scenario
        self.model = Model(scenario, ssh_public_keys, seed)
        self.operations = Operations(self.model.identities.uuid, report)
        self.faults = Faults()
        self.requests = {service: RequestLog() for service in SERVICES}
        """The request log of each service."""
        self.options = options or Options()
        self.options.real = real
        effects = Effects(self.model, backend, boot_timeout, report, self.faults)
        self.context = Context(self.model, effects, self.operations, self.faults, self.requests, self.options)
        self.authority = authority()
        """The certificate authority of the key vaults and of Resource Manager."""
        self._backend = backend
        self._opened = False
        self._real = real
        self._state_dir = state_dir or Path()
        self._network = ipaddress.ip_network(scenario.range)
        self._port = scenario.port if port is None else port
        self._listeners: list[BaseWSGIServer] = []
        self.endpoint = ""
        self.imds_endpoint = ""
        self.tls_port = 0

    @property
    def gateway(self) -> str:
        """The host's address in the machines' network."""
        return str(self._network[1])

    def start(self) -> Operation:
        """Start to listen and to make the machines. The operation ends when all machines are ready."""
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        port = self._listen(LOOPBACK, self._port, arm.create_app(self.context))
        self.endpoint = f"http://{LOOPBACK}:{port}"
        host = self.gateway if self._real else LOOPBACK
        metadata = imds.create_app(
            self.model, by_header=not self._real, faults=self.faults, requests=self.requests["imds"]
        )
        imds_port = self._listen(host, self._port + 1 if self._port else 0, metadata)
        self.imds_endpoint = f"http://{host}:{imds_port}"
        vaults = [vault.host for vault in self.model.vaults.values()]
        vault = keyvault.create_app(self.model, self.faults, self.requests["vault"])
        application = by_host({MANAGEMENT_HOST: arm.create_app(self.context)}, vault)
        tls = self.authority.server_context([*(vaults or [f"*.{DOMAIN}"]), MANAGEMENT_HOST])
        self.tls_port = self._listen(host, self._port + 2 if self._port else 0, application, tls)
        key = str(self._state_dir / PRIVATE) if self._state_dir != Path() else ""
        self._backend.open(
            NetworkSpec(
                self.scenario.name,
                str(self._network),
                self.gateway,
                imds_port,
                tls_port=self.tls_port,
                admin_private_key=key,
            ),
            self._state_dir,
        )
        self._opened = True
        return self.operations.start("boot", LOCATION, self.context.effects.boot(self.model.instances()))

    def serve_tls(self) -> tuple[str, bytes]:
        """Serve Resource Manager over TLS too. Returns its URL, and the certificate of the authority, in PEM."""
        authority = Authority.fresh(LOCALHOST)
        port = self._listen(LOOPBACK, 0, arm.create_app(self.context), authority.server_context([LOCALHOST]))
        return f"https://{LOCALHOST}:{port}", authority.certificate

    def stop(self) -> None:
        """Stop listening and remove the machines."""
        self.faults.clear()
        for listener in self._listeners:
            listener.shutdown()
            listener.server_close()
        self._listeners.clear()
        self.operations.wait(30)
        if self._opened:
            self._backend.close()

    def _listen(self, host: str, port: int, application: Any, tls: ssl.SSLContext | None = None) -> int:
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if host != LOOPBACK:
            listening.setsockopt(socket.SOL_IP, IP_FREEBIND, 1)
        try:
            listening.bind((host, port))
        except OSError as error:
            listening.close()
            raise OSError(
                error.errno, f"cannot listen on {host}:{port} ({error.strerror}): choose another port with --port"
            ) from error
        listening.listen(BACKLOG)
        with listening:
            # The server uses a duplicate. Close this one, which would otherwise listen on after the server's end.
            server = make_server(
                host,
                port,
                application,
                threaded=True,
                request_handler=Handler,
                ssl_context=tls,
                fd=listening.fileno(),
            )
        threading.Thread(target=server.serve_forever, args=(0.05,), name=f"listen {host}:{port}", daemon=True).start()
        self._listeners.append(server)
        return int(server.port)
