# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server process: one simulator in the foreground until it gets SIGTERM or SIGINT."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import signal
import sys
import threading
from datetime import datetime
from types import FrameType

from simulator import TOKEN, backends, guardian, keys
from simulator.scenario import Scenario
from simulator.server import Server
from simulator.statedir import STATE, StateDir

GUARDIAN_SECONDS = 120


class AlreadyRunning(Exception):
    """A simulator with this name is already running."""


def digest(scenario: Scenario, backend: str) -> str:
    """A hash of the scenario and the backend."""
    text = json.dumps([dataclasses.asdict(scenario), backend], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def say(line: str) -> None:
    """Write a line to the log, with the time."""
    sys.stdout.write(f"{datetime.now():%H:%M:%S} {line}\n")
    sys.stdout.flush()


def serve(scenario: Scenario, backend: str, state: StateDir, boot_timeout: float) -> int:
    """Run until SIGTERM or SIGINT, then remove every machine."""
    lock = state.lock()
    if lock is None:
        raise AlreadyRunning(f"the simulator {scenario.name} is already running (process {state.living()})")
    if not state.wait_for_guardian(GUARDIAN_SECONDS):
        raise AlreadyRunning(f"an earlier simulator {scenario.name} is still being cleaned up: try again in a minute")
    module = backends.load(backend)
    public_key = keys.make(state.path, scenario.name)
    module.cleanup(scenario.name, state.path)
    warden = guardian.start(scenario.name, backend, state.path)
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    server = Server(
        scenario,
        module.make(),
        real=backend != "none",
        state_dir=state.path,
        ssh_public_keys=(public_key,),
        authority=module.authority,
        boot_timeout=boot_timeout,
        report=say,
    )
    about = {
        "name": scenario.name,
        "endpoint": "",
        "imds": "",
        "token": TOKEN,
        "subscription": scenario.subscription,
        "backend": backend,
        "digest": digest(scenario, backend),
        "admin_username": scenario.admin_username,
        "private_key": str(state.path / keys.PRIVATE),
        "started": f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S%z}",
    }
    state.write(about)
    try:
        server.start()
        state.write(about | {"endpoint": server.endpoint, "imds": server.imds_endpoint})
        say(f"Resource Manager at {server.endpoint}, metadata at {server.imds_endpoint}")
        ended.wait()
        say("stopping")
    finally:
        server.stop()
        module.cleanup(scenario.name, state.path)
        (state.path / STATE).unlink(missing_ok=True)
        warden.write(guardian.CLEAN)
        warden.close()
    say("stopped")
    lock.close()
    return 0
