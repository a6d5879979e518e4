# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The portal on loopback: the real JupyterHub and proxy, with the role's own code, configuration and units.

Only two things are not real: the users, who are not in this machine's user database, and the spawner, which starts a
user's server as a child of the hub instead of a Slurm job.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shlex
import socket
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import jinja2
import pytest

from .monitor import free_port, wait

REPOSITORY = pathlib.Path(__file__).parents[2]
ROLE = REPOSITORY / "roles/portal"
SECRETS = {"CONFIGPROXY_AUTH_TOKEN": "proxy-secret", "PORTAL_OPENID_SECRET": "client-secret"}
STARTS_S = 600.0
_CONFIG = """\
import os

from hpcai_portal import config, logins, spawner, users

users.account_of = {{name: users.Account(name, *rest) for name, rest in {accounts!r}.items()}}.get
# New keys count at once.
logins.KEYS_AGE_S = 0.0
spawner.install_handler()
c = get_config()
config.apply(c, config.read({settings!r}), os.environ)
c.JupyterHub.spawner_class = "simple"
c.JupyterHub.redirect_to_server = False
c.JupyterHub.hub_connect_ip = "127.0.0.1"
c.SimpleLocalProcessSpawner.home_dir_template = {home!r}
c.Spawner.cmd = [{program!r}, "--allow-root"]
c.Spawner.start_timeout = c.Spawner.http_timeout = 300
c.Spawner.environment = {{"JUPYTERHUB_SINGLEUSER_APP": "jupyter_server.serverapp.ServerApp"}}
"""


def programs() -> pathlib.Path:
    """The folder of JupyterHub and the proxy, or skip the test."""
    done = subprocess.run(
        [str(REPOSITORY / "tests/setup/portal.sh")], capture_output=True, text=True, check=False, timeout=1200
    )
    if done.returncode == 77:
        pytest.skip(done.stdout.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    return pathlib.Path(done.stdout.strip().splitlines()[-1])


def in_hub(program: str, **given: Any) -> Any:
    """Run a program with the hub's packages; returns what it prints last, as JSON.

    :param given: the program's first argument, as JSON.
    """
    done = subprocess.run(
        [str(programs() / "hub/bin/python"), "-c", program, json.dumps(given)],
        env={**os.environ, "PYTHONPATH": str(ROLE / "files")},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def proxy_command(
    port: int, hub_port: int, api_port: int, folder: pathlib.Path, at: pathlib.Path, domain: str = ""
) -> list[str]:
    """The command of the proxy's unit."""
    unit = (ROLE / "templates/hpcai-portal-proxy.service.j2").read_text(encoding="utf-8").replace("\\\n", "")
    found = re.search(r"^ExecStart=(.+)$", unit, re.MULTILINE)
    assert found
    values = {
        "__portal_proxy_program": at / "proxy/node_modules/configurable-http-proxy/bin/configurable-http-proxy",
        "__portal_library": ROLE / "files",
        "__portal_settings_folder": folder,
        "__portal_proxy_api_port": api_port,
        "portal_port": port,
        "portal_domain": domain,
        "portal_hub_port": hub_port,
        "__portal_url_host": "127.0.0.1",
    }
    return shlex.split(jinja2.Template(found[1], undefined=jinja2.StrictUndefined).render(values))


def settings_of(port: int, hub_port: int, folder: pathlib.Path, at: pathlib.Path, **more: Any) -> dict[str, Any]:
    """The settings that the role writes, on loopback."""
    notebooks = {
        "partitions": [],
        "hours": 8,
        "idle_minutes": 0,
        "wait_minutes": 30,
        "containers": {},
        "own_containers": False,
        "ports": [21000, 21999],
    }
    return {
        "schema": 1,
        "address": "127.0.0.1",
        "domain": "",
        "port": port,
        "hub_port": hub_port,
        "proxy_api_port": free_port(),
        # A page more than any test has.
        "pages_port": free_port(3),
        "state": str(folder),
        "announcement": "",
        "python": str(at / "hub/bin/python"),
        "notebooks": notebooks,
        "openid": {},
        "pages": [],
        **more,
    }


@contextlib.contextmanager
def portal(
    folder: pathlib.Path, port: int, accounts: dict[str, list[Any]], environment: dict[str, str], **settings: Any
) -> Iterator[str]:
    """Run the portal until the end; yields its URL.

    :param folder: has tls.crt and tls.key.
    :param accounts: uid and groups by name.
    :param environment: secrets in addition to SECRETS.
    """
    at, hub_port = programs(), free_port()
    made = settings_of(port, hub_port, folder, at, **settings)
    (folder / "portal.json").write_text(json.dumps(made), encoding="utf-8")
    values = {"accounts": accounts, "settings": str(folder / "portal.json"), "home": str(folder / "home-{username}")}
    config = _CONFIG.format(**values, program=str(at / "hub/bin/jupyterhub-singleuser"))
    (folder / "jupyterhub_config.py").write_text(config, encoding="utf-8")
    env = {**os.environ, **SECRETS, "PORTAL_MONITORING_LOGIN": "", **environment, "PYTHONPATH": str(ROLE / "files")}
    env["PATH"] = f"{at / 'hub/bin'}:{env['PATH']}"
    hub = [str(at / "hub/bin/jupyterhub"), "--config", str(folder / "jupyterhub_config.py")]
    proxy = proxy_command(port, hub_port, made["proxy_api_port"], folder, at, made["domain"])
    log = folder / "log"
    started: list[subprocess.Popen[bytes]] = []

    def logged() -> str:
        return log.read_text(encoding="utf-8")

    def proxy_answers() -> bool:
        with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", made["proxy_api_port"])):
            return True
        return False

    def start(command: list[str], ready: Callable[[], bool]) -> None:
        with log.open("ab") as out:
            process = subprocess.Popen(command, env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        started.append(process)
        wait(lambda: process.poll() is not None or ready(), lambda: logged()[-4000:], STARTS_S)
        assert process.poll() is None, f"it ended with the status {process.poll()}: {logged()[-4000:]}"

    try:
        # The hub ends if the proxy does not answer within 30 s. On a node, systemd starts it again.
        start(proxy, proxy_answers)
        start(hub, lambda: "JupyterHub is now running" in logged())
        yield f"https://{made['domain'] or '127.0.0.1'}:{port}"
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
