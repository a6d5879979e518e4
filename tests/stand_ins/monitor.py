# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Real programs of Prometheus on loopback, with the configuration that the role writes."""

from __future__ import annotations

import base64
import contextlib
import json
import pathlib
import random
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.metrics import credentials, exporter
from ansible_collections.hpcai.azure.plugins.module_utils._node.metrics.settings import Settings

REPOSITORY = pathlib.Path(__file__).parents[2]
ROLE = REPOSITORY / "roles/monitoring"
LIMIT_S = 30.0


def program(name: str) -> str:
    """The path of a program, or skip the test."""
    found = shutil.which(name) or shutil.which(f"prometheus-{name}")
    if found is None:
        pytest.skip(f"no {name}: tests/setup/host.sh installs it")
    return found


def free_port(count: int = 1) -> int:
    """The first of so many free TCP ports in a row.

    The kernel takes none of them for an outgoing connection (net.ipv4.ip_local_port_range), so they stay free until
    the program has started.
    """
    for _try in range(1000):
        first = random.randrange(22000, 32000)
        try:
            with contextlib.ExitStack() as probes:
                for port in range(first, first + count):
                    probes.enter_context(socket.socket()).bind(("127.0.0.1", port))
        except OSError:
            continue
        return first
    raise RuntimeError("no free TCP port between 22000 and 32000")


def wait(condition: Callable[[], Any], what: Callable[[], object] = lambda: "", limit_s: float = LIMIT_S) -> Any:
    """Return the condition's value as soon as it is true."""
    deadline = time.monotonic() + limit_s
    while True:
        with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            value = condition()
            if value:
                return value
        assert time.monotonic() < deadline, what()
        time.sleep(0.1)


@contextlib.contextmanager
def running(words: list[str], log: pathlib.Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process, which is ended afterwards."""
    with log.open("ab") as output:
        process = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@dataclass(frozen=True)
class Server:
    """A running Prometheus or Alertmanager."""

    url: str
    folder: pathlib.Path
    password: str = ""

    def get(self, path: str, data: object = None, **parameters: str) -> str:
        """Get a page; with data, post it."""
        query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
        request = urllib.request.Request(f"{self.url}{path}{query}")
        if data is not None:
            request.data = json.dumps(data).encode()
            request.add_header("Content-Type", "application/json")
        if self.password:
            words = base64.b64encode(f"{credentials.USER}:{self.password}".encode()).decode()
            request.add_header("Authorization", f"Basic {words}")
        with urllib.request.urlopen(request, timeout=10) as answer:
            return str(answer.read().decode())

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The result of an expression now."""
        answer = json.loads(self.get("/api/v1/query", query=expression))
        assert answer["status"] == "success", answer
        return list(answer["data"]["result"])


def render(evaluate: Callable[..., Any], template: str, folder: pathlib.Path, **variables: Any) -> str:
    """Return a template of the role for a folder, as a run of the role renders it.

    :param evaluate: the fixture of this name.
    """
    hosts = {
        "all": {
            "hosts": {"ctl": {"ansible_host": "127.0.0.1"}},
            "children": {"hpcai_controller": {"hosts": {"ctl": {}}}},
        }
    }
    path = ROLE / "templates" / template
    expression = f"{{{{ lookup('ansible.builtin.template', '{path}') }}}}"
    found = evaluate(str(ROLE), hosts, {"text": expression}, **variables)
    return str(found["ctl"]["text"]).replace("/etc/hpcai/monitoring", str(folder))


@contextlib.contextmanager
def node_exporter(folder: pathlib.Path, sys: pathlib.Path | None = None) -> Iterator[int]:
    """The real node exporter with the collectors of the product, on loopback; yields its port."""
    settings = Settings(folder=str(folder))
    words = exporter.command(settings, "127.0.0.1")
    port = free_port()
    words[0] = program("node-exporter")
    words[1] = f"--web.listen-address=127.0.0.1:{port}"
    if sys:
        words.append(f"--path.sysfs={sys}")
    with running(words, folder.parent / "node-exporter.log"):
        yield port


@contextlib.contextmanager
def prometheus(
    folder: pathlib.Path,
    config: str,
    port: int,
    data: pathlib.Path | None = None,
    web: str = "",
    options: Sequence[str] = (),
) -> Iterator[Server]:
    """The real Prometheus with a configuration, the role's rules and pages.

    :param web: its web configuration, with the login of ``credentials``; empty for none.
    """
    (folder / "rules").mkdir(exist_ok=True)
    for rules in (ROLE / "files/hpcai.rules.yml", ROLE / "../health_checks/files/hpcai-health.rules.yml"):
        shutil.copy(rules, folder / "rules")
    (folder / "prometheus.yml").write_text(config, encoding="utf-8")
    words = [program("prometheus"), f"--config.file={folder}/prometheus.yml", f"--web.listen-address=127.0.0.1:{port}"]
    words += [f"--web.console.templates={ROLE}/files/consoles", f"--storage.tsdb.path={data or folder / 'data'}"]
    words += [f"--web.console.libraries={ROLE}/files/console_libraries", f"--web.external-url=http://127.0.0.1:{port}"]
    password = ""
    if web:
        (folder / "prometheus-web.yml").write_text(web, encoding="utf-8")
        words.append(f"--web.config.file={folder}/prometheus-web.yml")
        password = (folder / credentials.PASSWORD_FILE).read_text(encoding="ascii")
    with running([*words, *options], folder / "prometheus.log") as process:
        server = Server(f"http://127.0.0.1:{port}", folder, password)
        wait(lambda: server.get("/-/ready"), lambda: (process.poll(), (folder / "prometheus.log").read_text()))
        yield server


@contextlib.contextmanager
def alertmanager(folder: pathlib.Path, config: str, port: int) -> Iterator[Server]:
    """The real Alertmanager with the password that the product makes."""
    (folder / "alertmanager.yml").write_text(config, encoding="utf-8")
    credentials.ensure(Root("/"), str(folder), "root")
    words = [program("alertmanager"), f"--config.file={folder}/alertmanager.yml", "--cluster.listen-address="]
    words += [f"--web.listen-address=127.0.0.1:{port}", f"--web.config.file={folder}/{credentials.WEB_FILE}"]
    words += [f"--storage.path={folder}/alertmanager"]
    password = (folder / credentials.PASSWORD_FILE).read_text(encoding="ascii")
    with running(words, folder / "alertmanager.log") as process:
        server = Server(f"http://127.0.0.1:{port}", folder, password)
        wait(lambda: server.get("/-/ready"), lambda: (process.poll(), (folder / "alertmanager.log").read_text()))
        yield server


@contextlib.contextmanager
def behind(folder: pathlib.Path, public_url: str, users: dict[str, str]) -> Iterator[str]:
    """The real Prometheus without targets, with the role's pages, behind another server; yields its own URL.

    :param public_url: monitoring_web_url.
    :param users: monitoring_web_users.
    """
    (folder / "prometheus.yml").write_text("global: {}\n", encoding="utf-8")
    (folder / "web.yml").write_text(json.dumps({"basic_auth_users": users}), encoding="utf-8")
    port = free_port()
    words = [program("prometheus"), f"--config.file={folder}/prometheus.yml", f"--web.listen-address=127.0.0.1:{port}"]
    words += [f"--web.console.templates={ROLE}/files/consoles", f"--storage.tsdb.path={folder}/data"]
    words += [f"--web.console.libraries={ROLE}/files/console_libraries", f"--web.external-url={public_url}"]
    log = folder / "prometheus.log"
    with running([*words, f"--web.config.file={folder}/web.yml"], log):
        wait(lambda: "ready to receive web requests" in log.read_text(), log.read_text, 4 * LIMIT_S)
        yield f"http://127.0.0.1:{port}{urllib.parse.urlparse(public_url).path}"
