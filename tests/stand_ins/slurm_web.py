# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The real Slurm-web, as the role installs and starts it, at sockets in a folder.

HPCAI_SLURM_WEB_FILES is the folder with its two archives, as for portal_slurm_web_files.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import os
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import jinja2
import pytest
import yaml

from .monitor import running, wait

REPOSITORY = pathlib.Path(__file__).parents[2]
ROLE = REPOSITORY / "roles/portal"
STARTS_S = 240.0
INSTALLS_S = 600


def files() -> pathlib.Path:
    """The folder with the archives, or skip the test."""
    given = os.environ.get("HPCAI_SLURM_WEB_FILES")
    if not given:
        pytest.skip("HPCAI_SLURM_WEB_FILES names no folder with slurm-web-wheels.tar and slurm-web-files.tar.gz")
    return pathlib.Path(given)


def install(folder: pathlib.Path) -> None:
    """Install Slurm-web into an empty folder, with the commands of the role's tasks."""
    given = files()
    (folder / "wheels").mkdir(parents=True)
    for name, below in (("slurm-web-wheels.tar", "wheels"), ("slurm-web-files.tar.gz", "")):
        subprocess.run(["tar", "-xf", given / name, "-C", folder / below], check=True, timeout=INSTALLS_S)
    tasks = yaml.safe_load((ROLE / "tasks/slurm_web_install.yml").read_text(encoding="utf-8"))
    (folder / "slurm-web.txt").write_bytes((ROLE / "files/slurm-web.txt").read_bytes())
    for task in tasks:
        if "ansible.builtin.command" in task:
            words = [expanded(word, folder) for word in task["ansible.builtin.command"]["argv"]]
            subprocess.run(words, check=True, timeout=INSTALLS_S, stdin=subprocess.DEVNULL)


@functools.cache
def _variables() -> dict[str, Any]:
    return dict(yaml.safe_load((ROLE / "vars/main/slurm_web.yml").read_text(encoding="utf-8")))


def expanded(text: str, folder: pathlib.Path) -> str:
    """A text of the role, with everything in a folder."""
    values = {name: value for name, value in _variables().items() if isinstance(value, str)}
    values |= {
        "__portal_python": sys.executable,
        "__portal_slurm_web_folder": str(folder),
        "__portal_slurm_web_settings": str(folder / "etc"),
        "__portal_slurm_web_agent_socket": str(folder / "run/agent/agent.socket"),
        "__portal_slurm_web_socket": str(folder / "run/gateway/gateway.socket"),
        "__portal_library": str(ROLE / "files"),
        "__portal_cluster": "hpcai",
        "portal_slurm_web_restd": f"unix://{folder}/slurmrestd.socket",
        "ansible_managed": "Ansible",
    }
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    environment.filters["comment"] = lambda line: f"# {line}"
    while "{{" in text or "{#" in text:
        text = environment.from_string(text).render(values)
    return text


def unit(name: str, folder: pathlib.Path) -> dict[str, str]:
    """The options of a unit's section Service."""
    text = expanded((ROLE / f"templates/{name}.service.j2").read_text(encoding="utf-8"), folder).replace("\\\n", "")
    return dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))


@contextlib.contextmanager
def slurm_web(folder: pathlib.Path, *programs: str) -> Iterator[None]:
    """Run programs of a Slurm-web that ``install`` has installed.

    :param programs: ``agent``, ``gateway``.
    """
    (folder / "etc").mkdir(exist_ok=True)
    (folder / "etc/jwt.key").write_text("x" * 64, encoding="ascii")
    for name in ("agent", "gateway", "policy"):
        text = (ROLE / f"templates/slurm-web-{name}.ini.j2").read_text(encoding="utf-8")
        (folder / f"etc/{name}.ini").write_text(expanded(text, folder), encoding="utf-8")
    with contextlib.ExitStack() as stack:
        for name in programs:
            options = unit({"agent": "hpcai-slurm-agent", "gateway": "hpcai-slurm-web"}[name], folder)
            run = folder / "run" / name
            shutil.rmtree(run, ignore_errors=True)
            run.mkdir(parents=True)
            run.chmod(int(options["RuntimeDirectoryMode"], 8))
            # A test's own scontrol comes before that of the unit's PATH.
            words = ["env", f"PYTHONPATH={ROLE}/files", f"PATH={folder}/bin:/usr/bin:/bin", f"RUNTIME_DIRECTORY={run}"]
            log = folder / f"{name}.log"
            process = stack.enter_context(running([*words, *shlex.split(options["ExecStart"])], log))
            _wait_for(run / f"{name}.socket", process, log)
        yield


def _wait_for(path: pathlib.Path, process: subprocess.Popen[bytes], log: pathlib.Path) -> None:
    wait(lambda: process.poll() is not None or _listens(path), log.read_text, STARTS_S)
    assert process.poll() is None, log.read_text(encoding="utf-8")


def _listens(path: pathlib.Path) -> bool:
    # The socket's file exists before the server listens.
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def ask(folder: pathlib.Path, path: str, token: str = "") -> tuple[int, Any]:
    """Ask the gateway at its socket, past the portal; returns the status and the answer."""
    connection = http.client.HTTPConnection("gateway", timeout=60)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(folder / "run/gateway/gateway.socket"))
    with contextlib.closing(connection):
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
