# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program of a notebook: its server, its port, its folder and its report to the hub."""

from __future__ import annotations

import argparse
import contextlib
import http.server
import json
import os
import pwd
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from stand_ins import monitor

from hpcai_portal import notebook

TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:5208 00000000:0000 0A 00000000:00000000 00:00000000 00000000  4001        0 1 1 x
   1: 0100007F:5209 0100007F:9999 01 00000000:00000000 00:00000000 00000000  4002        0 1 1 x
"""
TCP6 = """\
  sl  local_address                         remote_address                        st
   0: 00000000000000000000000000000000:520A 00000000000000000000000000000000:0000 0A 0:0 00:0 0  4003 0 1 1 x
"""
ACCOUNT = pwd.struct_passwd(("alice", "x", 4001, 4001, "", "/home/alice", "/bin/bash"))


@pytest.mark.parametrize(("port", "uid"), [(21000, 4001), (21001, None), (21002, 4003), (21003, None)])
def test_the_listeners_user_is_read_from_the_kernel(port: int, uid: int | None) -> None:
    assert notebook.listeners([TCP, TCP6]).get(port) == uid


def options(**changes: Any) -> argparse.Namespace:
    """The program's arguments."""
    return argparse.Namespace(**{"ports": "21000-21999", "idle_minutes": 120, "image": "", **changes})


def test_the_server_ends_when_idle_and_takes_no_other_port() -> None:
    command = notebook.command_of(options(), "/tmp/hpcai-notebook-x")
    assert "--ServerApp.port_retries=0" in command
    assert "--ServerApp.shutdown_no_activity_timeout=7200" in command
    assert "--KernelManager.transport=ipc" in command
    # An open browser or terminal does not keep it.
    assert {"--MappingKernelManager.cull_connected=True", "--TerminalManager.cull_inactive_timeout=7200"} <= {*command}
    assert not [word for word in notebook.command_of(options(idle_minutes=0), "/tmp/x") if "timeout" in word]


def test_kernels_use_ports_only_if_a_path_would_be_too_long_for_a_socket() -> None:
    assert "--KernelManager.transport=ipc" not in notebook.command_of(options(), "/scratch/" + "x" * 60)


def test_the_environment_is_the_users_own() -> None:
    given = {"JUPYTERHUB_SERVICE_PREFIX": "/user/alice/", "HOME": "/root", "USER": "root", "SLURM_JOB_ID": "7"}
    env = notebook.environment(given, ACCOUNT, "/tmp/f", 21005)
    assert (env["HOME"], env["USER"], env["LOGNAME"]) == ("/home/alice", "alice", "alice")
    assert env["JUPYTERHUB_SERVICE_URL"] == "http://0.0.0.0:21005/user/alice/"
    assert env["JUPYTER_RUNTIME_DIR"] == "/tmp/f/runtime"
    assert env["SLURM_JOB_ID"] == "7"
    assert env["PATH"]


def test_srun_in_a_notebook_passes_on_all_variables() -> None:
    # As sbatch sets it, because the portal gives it --export=JUPYTERHUB_API_TOKEN,...
    given = {"SLURM_EXPORT_ENV": "JUPYTERHUB_API_TOKEN", "SLURM_JOB_ID": "7", "OMP_NUM_THREADS": "4"}
    env = notebook.environment(given, ACCOUNT, "/tmp/f", 21005)
    assert "SLURM_EXPORT_ENV" not in env
    assert (env["SLURM_JOB_ID"], env["OMP_NUM_THREADS"]) == ("7", "4")


def test_a_container_kernel_runs_in_the_same_job() -> None:
    made = notebook.kernel("nvcr.io#nvidia/pytorch:25.04-py3", "/tmp/f", "/home/alice", "8")
    argv = made["argv"]
    assert isinstance(argv, list)
    assert argv[:4] == ["/usr/bin/env", "--unset=JUPYTERHUB_API_TOKEN", "/usr/bin/srun", "--overlap"]
    assert "--container-image=nvcr.io#nvidia/pytorch:25.04-py3" in argv
    assert "--container-mounts=/home/alice:/home/alice,/tmp/f:/tmp/f" in argv
    assert argv[-1] == "{connection_file}"
    assert made["interrupt_mode"] == "message"


def test_the_folder_is_private_and_removed_and_those_of_killed_notebooks_too(tmp_path: Path) -> None:
    dead = tmp_path / "hpcai-notebook-dead"
    dead.mkdir()
    (dead / "lock").touch()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "hpcai-notebook-link").symlink_to(elsewhere)
    with notebook.own_folder(str(tmp_path)) as first, notebook.own_folder(str(tmp_path)) as second:
        assert stat.S_IMODE(os.stat(first).st_mode) == 0o700
        # The folder of a running notebook stays.
        assert Path(first).is_dir()
        assert Path(second).is_dir()
        assert not dead.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "hpcai-notebook-link"]


@pytest.fixture
def hub() -> Iterator[tuple[str, list[Any]]]:
    """A hub that records what it gets, and the answers that it gives next."""
    got: list[Any] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        answers: ClassVar[list[int]] = [503, 201]

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, self.headers["Authorization"], json.loads(body)))
            self.send_response(Handler.answers.pop(0))
            self.end_headers()

        def log_message(self, *_words: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    got.append(Handler)
    yield f"http://127.0.0.1:{server.server_address[1]}/hub/api", got
    server.shutdown()
    server.server_close()


def test_the_port_is_reported_with_the_token_until_the_hub_takes_it(
    hub: tuple[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook.time, "sleep", lambda _seconds: None)
    # A proxy in the environment must not get the token.
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    url, got = hub
    notebook.report(url, "secret", {"port": 21007})
    assert got[1:] == [("/hub/api/hpcai/notebook", "token secret", {"port": 21007})] * 2


def test_a_refused_port_ends_the_notebook(hub: tuple[str, list[Any]]) -> None:
    url, got = hub
    got[0].answers[:] = [403]
    with pytest.raises(notebook.CannotStart, match="answered 403"):
        notebook.report(url, "secret", {"port": 21007})


class FakeServer:
    """A server whose first port another user has."""

    ended: ClassVar[list[int]] = []
    tries = 0

    def __init__(self, command: list[str], env: dict[str, str], log: str) -> None:
        assert command
        assert log
        self.port = int(env["JUPYTERHUB_SERVICE_URL"].split(":")[2].split("/")[0])
        FakeServer.tries += 1
        self.process = self

    def wait_until_it_listens(self, port: int) -> bool:
        """Only at the second try."""
        assert port == self.port
        return FakeServer.tries > 1

    def wait(self) -> int:
        """The server ends."""
        return 0

    def end(self) -> None:
        """Record it."""
        FakeServer.ended.append(self.port)


def test_a_port_of_another_user_is_not_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reported: list[Any] = []
    monkeypatch.setattr(notebook, "Server", FakeServer)
    monkeypatch.setattr(notebook, "report", lambda _api, _token, said: reported.append(said["port"]))
    given = {"JUPYTERHUB_API_URL": "http://hub", "JUPYTERHUB_API_TOKEN": "t"}
    account = pwd.struct_passwd(("alice", "x", 4001, 4001, "", str(tmp_path), "/bin/bash"))
    folder = tmp_path / "f"
    folder.mkdir()
    assert notebook.serve(options(image="ubuntu"), given, account, str(folder)) == 0
    assert len(FakeServer.ended) == 2
    assert reported == FakeServer.ended[1:]
    assert (folder / "jupyter/kernels/container/kernel.json").is_file()


def test_a_node_without_a_free_port_is_reported_with_the_user_who_has_the_ports(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A user who took all ports ended the notebooks of all others on the node, and nobody saw why."""
    reported: list[Any] = []
    monkeypatch.setattr(notebook, "report", lambda _api, _token, said: reported.append(said))
    given = {"JUPYTERHUB_API_URL": "http://hub", "JUPYTERHUB_API_TOKEN": "t", "SLURMD_NODENAME": "gpu-7"}
    account = pwd.struct_passwd(("alice", "x", 4001, 4001, "", str(tmp_path), "/bin/bash"))
    with socket.socket() as listening:
        listening.bind(("0.0.0.0", 0))
        port = listening.getsockname()[1]
        ports = f"{port}-{port}"
        with pytest.raises(notebook.PortsTaken, match="are taken"):
            notebook.serve(options(ports=ports), given, account, str(tmp_path / "one"))
        listening.listen()
        with pytest.raises(notebook.PortsTaken, match=f"All ports from {port} to {port} of this node are taken"):
            notebook.serve(options(ports=ports), given, account, str(tmp_path / "two"))
    assert reported == [{"taken_by": None, "node": "gpu-7"}, {"taken_by": os.getuid(), "node": "gpu-7"}]


def test_the_only_free_port_is_found() -> None:
    """Five random tries found it almost never."""
    with contextlib.ExitStack() as taken:
        first = monitor.free_port(200)
        for port in range(first, first + 200):
            if port != first + 77:
                one = taken.enter_context(socket.socket())
                one.bind(("0.0.0.0", port))
                one.listen()
        assert notebook.free_port(first, first + 199) == first + 77
