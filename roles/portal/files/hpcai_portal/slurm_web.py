# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Starts the agent and the gateway of Slurm-web 6.0, without a TCP port and without Slurm's key.

Both listen at Unix sockets, so the permissions of files decide who reaches them. To Slurm, the agent is an ordinary
user: it creates short-lived tokens for itself, as every user can. So Slurm lets it read what all users can read.

Runs in Slurm-web's own Python environment.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import pwd
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

LIFESPAN_S = 600
"""Seconds that a token is valid. After Slurm's key is replaced, old tokens are used for at most half of this time."""
RETRY_S = 10.0
"""Seconds without a new try after Slurm gave no token: scontrol waits for a controller that is away."""
SCONTROL = ("scontrol", "token", f"lifespan={LIFESPAN_S}")
SCONTROL_LIMIT_S = 30.0
UNUSED: dict[str, dict[str, Any]] = {
    "rfl.authentication.ldap": {"LDAPAuthentifier": None},
    "racksdb.errors": {"RacksDBSchemaError": None, "RacksDBFormatError": None},
    "racksdb.version": {"get_version": lambda: ""},
    "racksdb.web.app": {"RacksDBWebBlueprint": None},
}
"""What Slurm-web imports although its settings switch it off: logins to directories, which need python-ldap, and
pictures of racks, which need cairo. Neither is installed."""


class NoToken(RuntimeError):
    """Slurm did not create a token."""


def new_token() -> str:
    """Create a token for the user of this process.

    :raises NoToken: Slurm gave none.
    """
    try:
        done = subprocess.run(
            SCONTROL, capture_output=True, text=True, timeout=SCONTROL_LIMIT_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoToken(f"scontrol created no token: {error}") from error
    found = re.fullmatch(r"SLURM_JWT=([A-Za-z0-9_.-]+)", done.stdout.strip())
    if done.returncode != 0 or not found:
        raise NoToken(f"scontrol created no token: {done.stderr.strip()[:300] or 'its answer is not a token'}")
    return found[1]


class Tokens:
    """Headers with which slurmrestd accepts requests, with a token that is renewed in time.

    :ivar method: what Slurm-web asks its own class for.
    """

    method = "jwt"

    def __init__(self, user: str, create: Callable[[], str], clock: Callable[[], float] = time.monotonic) -> None:
        self._user, self._create, self._clock = user, create, clock
        self._lock = threading.Lock()
        self._token, self._failed = "", ""
        self._until = 0.0

    def headers(self) -> dict[str, str]:
        """Return the headers of a request.

        :raises NoToken: Slurm gives no token.
        """
        with self._lock:
            if not (self._token or self._failed) or self._clock() >= self._until:
                self._renew()
            if self._failed:
                raise NoToken(self._failed)
            return {"X-SLURM-USER-NAME": self._user, "X-SLURM-USER-TOKEN": self._token}

    def _renew(self) -> None:
        asked = self._clock()
        try:
            self._token, self._failed = self._create(), ""
            self._until = asked + LIFESPAN_S / 2
        except NoToken as error:
            self._token, self._failed = "", str(error)
            self._until = self._clock() + RETRY_S


def agent(settings: argparse.Namespace) -> Any:
    """Return Slurm-web's agent, which reads Slurm."""
    import requests
    from slurmweb.apps import agent as application

    # Slurm-web uses this module without an import. RacksDB, which is left out, would import it.
    importlib.import_module("ClusterShell.NodeSet")

    class Headers(Tokens):
        def headers(self) -> dict[str, str]:
            try:
                return super().headers()
            except NoToken as error:
                # Slurm-web shows this one as an error of slurmrestd, without a traceback.
                raise requests.exceptions.ConnectionError(str(error)) from error

    own = Headers(pwd.getpwuid(os.getuid()).pw_name, new_token)
    application.SlurmrestdAuthentifier = lambda *_settings: own
    return application.SlurmwebAppAgent(_seed("agent", settings))


def gateway(settings: argparse.Namespace) -> Any:
    """Return Slurm-web's gateway, which serves the pages, and asks the agent at its socket."""
    import aiohttp
    from slurmweb.apps.gateway import SlurmwebAppGateway

    class Gateway(SlurmwebAppGateway):
        def get_agent_connector(self) -> Any:
            return aiohttp.UnixConnector(path=settings.agent)

        @property
        def agents(self) -> Any:
            found = super().agents
            if not found:
                # Otherwise an agent that starts later is not found for five minutes.
                self._agents_timeout = 0
            return found

    return Gateway(_seed("gateway", settings))


def _seed(name: str, settings: argparse.Namespace) -> Any:
    from slurmweb.apps import SlurmwebAppSeed

    return SlurmwebAppSeed.with_parameters(
        debug=False,
        log_flags=["ALL"],
        log_component=name,
        debug_flags=[],
        conf_defs=settings.definitions / f"{name}.yml",
        conf=settings.settings / f"{name}.ini",
    )


def main() -> None:
    """Serve the agent or the gateway."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("program", choices=["agent", "gateway"])
    parser.add_argument("--definitions", type=Path, required=True, help="folder of Slurm-web's agent.yml, gateway.yml")
    parser.add_argument("--settings", type=Path, required=True, help="folder of agent.ini and gateway.ini")
    parser.add_argument("--socket", required=True, help="Unix socket at which it listens")
    parser.add_argument("--agent", help="Unix socket of the agent, for the gateway")
    settings = parser.parse_args()
    from werkzeug.serving import make_server

    for name, content in UNUSED.items():
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name]).update(content)
    application = {"agent": agent, "gateway": gateway}[settings.program](settings)
    # The hub is in the group of the gateway's socket. Only the gateway, which is the same user, reaches the agent.
    os.umask(0o117 if settings.program == "gateway" else 0o177)
    # No line for each request.
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    make_server(f"unix://{settings.socket}", 0, application, threaded=True).serve_forever()


if __name__ == "__main__":
    main()
