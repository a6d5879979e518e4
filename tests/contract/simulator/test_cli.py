# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: start, list, stop, and clean-up after a kill."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from simulator import clients, control
from simulator.backends.containers.backend import ContainersBackend
from simulator.scenario import parse
from simulator.server import Server
from simulator.statedir import StateDir
from simulator.testing import running

TESTS = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(TESTS)}
SCENARIO = """
name: cli
virtual_machines: [{name: ctl}]
scale_sets: [{name: compute, capacity: 2, instance_ids: [0, 3, 17]}]
"""
GUARDIAN = """
import pathlib, sys
from simulator import backends, guardian
class Backend:
    @staticmethod
    def cleanup(name, state_dir):
        (state_dir / "cleaned").write_text(name)
backends.load = lambda name: Backend
raise SystemExit(guardian.watch("cli", "none", pathlib.Path(sys.argv[1])))
"""


def simulator(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command of the simulator."""
    command = [sys.executable, "-m", "simulator", *arguments]
    return subprocess.run(command, env=ENVIRONMENT, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition is true that another process changes."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)


@pytest.fixture
def port() -> int:
    """The first of two consecutive free ports."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            number = int(first.getsockname()[1])
            try:
                second.bind(("127.0.0.1", number + 1))
            except OSError:
                continue
            return number


@pytest.fixture
def up(tmp_path: Path, port: int) -> Iterator[list[str]]:
    """The arguments that start a separate simulator, which is stopped afterwards."""
    scenario = tmp_path / "scenario.yml"
    scenario.write_text(SCENARIO, encoding="utf-8")
    state = tmp_path / "state"
    yield ["up", str(scenario), "--backend=none", f"--port={port}", f"--state-dir={state}"]
    control.stop("cli", StateDir(state), lambda line: None)


def state_of(up: list[str]) -> StateDir:
    """The simulator's state folder."""
    return StateDir(Path(up[-1].partition("=")[2]))


def test_help_names_every_command() -> None:
    shown = simulator("--help")
    assert shown.returncode == 0
    for command in ("up", "serve", "down", "list", "image"):
        assert f"\n    {command} " in shown.stdout
    assert simulator().returncode == 2


def test_up_starts_list_shows_and_down_removes(up: list[str], port: int) -> None:
    started = simulator(*up)
    assert started.returncode == 0, started.stderr
    assert [line.split()[:2] for line in started.stdout.splitlines() if line.startswith("  c")] == [
        ["ctl", "running"],
        ["compute000000", "running"],
        ["compute000003", "running"],
    ]
    assert f"http://127.0.0.1:{port}" in started.stdout
    sets = clients.compute(f"http://127.0.0.1:{port}").virtual_machine_scale_sets.list_all()
    assert [item.name for item in sets] == ["compute"]
    state = state_of(up)
    assert (state.path / "id_ed25519").stat().st_mode & 0o777 == 0o600
    assert (state.path / "id_ed25519.pub").read_text(encoding="utf-8").startswith("ssh-ed25519 ")

    shown = simulator("list", up[-1])
    assert "cli  up  none" in shown.stdout
    assert "compute_3" in shown.stdout
    assert "10.77.0.6" in shown.stdout

    ended = simulator("down", "--name=cli", up[-1])
    assert ended.returncode == 0
    assert "removed the simulator cli" in ended.stdout
    assert not state.path.exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 1)


def test_a_stopped_simulator_leaves_no_open_port() -> None:
    with running({"name": "short"}) as server:
        port = urlsplit(server.endpoint).port
        socket.create_connection(("127.0.0.1", port), 1).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 1)


def test_a_second_up_changes_nothing(up: list[str]) -> None:
    assert simulator(*up).returncode == 0
    first = state_of(up).living()
    again = simulator(*up)
    assert again.returncode == 0
    assert "is up already: 3 nodes" in again.stdout
    assert state_of(up).living() == first


def test_another_scenario_under_the_same_name_is_refused(up: list[str]) -> None:
    assert simulator(*up).returncode == 0
    Path(up[1]).write_text(SCENARIO.replace("capacity: 2", "capacity: 3"), encoding="utf-8")
    refused = simulator(*up)
    assert refused.returncode == 1
    assert "another scenario" in refused.stderr
    assert "down --name cli" in refused.stderr


def test_a_scenario_can_use_another_network(up: list[str]) -> None:
    started = simulator(*up, "--network=10.99.0.0/24")
    assert started.returncode == 0, started.stderr
    assert "10.99.0.5" in simulator("list", up[-1]).stdout
    assert simulator(*up, "--network=10.99.0.0/24").returncode == 0
    refused = simulator(*up)
    assert refused.returncode == 1
    assert "another scenario" in refused.stderr


def test_a_port_in_use_is_reported(up: list[str], port: int) -> None:
    with socket.create_server(("127.0.0.1", port)):
        refused = simulator(*up)
    assert refused.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in refused.stderr
    assert "--port" in refused.stderr
    assert state_of(up).living() is None


def test_a_backend_that_was_not_opened_is_not_closed(port: int) -> None:
    """Without a network, the backend of containers cannot close it, and that error would hide the first one."""
    server = Server(parse(yaml.safe_load(SCENARIO)), ContainersBackend(), port=port)
    with socket.create_server(("127.0.0.1", port)):
        with pytest.raises(OSError, match=rf"cannot listen on 127\.0\.0\.1:{port}"):
            server.start()
        server.stop()


def test_a_killed_simulator_is_cleaned_up_and_can_start_again(up: list[str]) -> None:
    assert simulator(*up).returncode == 0
    state = state_of(up)
    process = state.living()
    assert process is not None
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: not (state.path / "state.json").exists())
    assert "removing its machines" in (state.path / "guardian.log").read_text(encoding="utf-8")
    assert state.living() is None
    assert "cli" not in simulator("list", up[-1]).stdout
    again = simulator(*up)
    assert again.returncode == 0, again.stderr
    assert "up: 3 nodes" in again.stdout


def test_down_after_a_kill_removes_everything(up: list[str]) -> None:
    assert simulator(*up).returncode == 0
    state = state_of(up)
    process = state.living()
    assert process is not None
    os.kill(process, signal.SIGKILL)
    ended = simulator("down", "--name=cli", up[-1])
    assert ended.returncode == 0
    assert not state.path.exists()
    assert "there is no simulator cli" in simulator("down", "--name=cli", up[-1]).stdout


def test_a_terminated_server_removes_everything(up: list[str]) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "simulator", "serve", *up[1:]], env=ENVIRONMENT, stdout=subprocess.DEVNULL
    )
    state = state_of(up)
    wait_until(lambda: bool(state.read().get("endpoint")))
    server.terminate()
    assert server.wait(20) == 0
    assert not state.read()
    assert "removing" not in (state.path / "guardian.log").read_text(encoding="utf-8")
    assert state.wait_for_guardian(10)


@pytest.mark.parametrize(("message", "cleans_up"), [(b"", True), (b"cle", True), (b"clean", False)])
def test_the_guardian_cleans_up_without_the_message_clean(tmp_path: Path, message: bytes, cleans_up: bool) -> None:
    guardian = subprocess.run(
        [sys.executable, "-c", GUARDIAN, str(tmp_path)], env=ENVIRONMENT, input=message, timeout=20, check=False
    )
    assert guardian.returncode == 0
    assert (tmp_path / "cleaned").exists() is cleans_up


def test_the_guardian_survives_signals_of_a_closed_terminal(tmp_path: Path) -> None:
    guardian = subprocess.Popen(
        [sys.executable, "-c", GUARDIAN, str(tmp_path)], env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert guardian.stdout is not None
    assert guardian.stdout.readline() == b"watching\n"
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        guardian.send_signal(number)
    time.sleep(0.2)
    assert guardian.poll() is None
    guardian.communicate(timeout=20)
    assert (tmp_path / "cleaned").read_text(encoding="utf-8") == "cli"


def test_an_unknown_scenario_is_an_error_that_lists_the_known_ones() -> None:
    refused = simulator("up", "moon", "--backend=none")
    assert refused.returncode == 1
    assert "'moon'" in refused.stderr
    assert "site" in refused.stderr.partition("one of")[2]
