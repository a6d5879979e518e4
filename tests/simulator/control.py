# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starting, watching and stopping server processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from simulator import backends
from simulator.statedir import ROOT, StateDir

Say = Callable[[str], None]
STOP_SECONDS = 90


class ControlError(Exception):
    """A message of one line: what went wrong and what to do."""


def ask(endpoint: str, timeout: float = 5) -> dict[str, Any] | None:
    """The state from a server, or None if it does not answer."""
    try:
        with urllib.request.urlopen(f"{endpoint}/_simulator/state", timeout=timeout) as answer:
            document = json.load(answer)
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def spawn(arguments: list[str], state: StateDir) -> subprocess.Popen[bytes]:
    """Start a server that outlives this process."""
    state.path.mkdir(parents=True, exist_ok=True)
    with state.log.open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "simulator", "serve", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
            start_new_session=True,
        )


def wait_until_up(process: subprocess.Popen[bytes], state: StateDir, timeout: float, say: Say) -> list[dict[str, Any]]:
    """Wait until every machine runs, and print a line for each. Raise if the server or a machine fails."""
    begun = last_line = time.monotonic()
    reported: dict[str, str] = {}
    while time.monotonic() - begun < timeout:
        if process.poll() is not None:
            raise ControlError(f"the simulator ended during its start; the end of its log: {last_log_line(state)}")
        answer = ask(state.read().get("endpoint", "")) if state.read() else None
        instances = answer["instances"] if answer else []
        for item in instances:
            word = _word(item)
            if reported.get(item["name"]) != word:
                reported[item["name"]] = word
                last_line = time.monotonic()
                say(f"  {item['computer_name']:<16} {word:<9} {item['private_ipv4'] or '-'}")
        if answer and not answer["operations"]:
            failed = [item["name"] for item in instances if _word(item) != "running"]
            if failed:
                raise ControlError(f"not running: {', '.join(failed)}; see {state.log}")
            return list(instances)
        if time.monotonic() - last_line > 10:
            last_line = time.monotonic()
            say(f"  waiting ({int(last_line - begun)} s): {last_log_line(state)}")
        time.sleep(0.2)
    raise ControlError(f"not up after {int(timeout)} s; the end of its log: {last_log_line(state)}")


def stop(name: str, state: StateDir, say: Say) -> bool:
    """Stop a server, or clean up after a dead one. Returns False if there was none."""
    document, process_id = state.read(), state.living()
    present = bool(document) or process_id is not None or (state.path / "simulator.pid").exists()
    if process_id is not None:
        say(f"stopping the simulator {name} (process {process_id})")
        _end(process_id, state)
    if not state.wait_for_guardian(STOP_SECONDS):
        raise ControlError(f"the guardian of {name} is still cleaning up: try again in a minute, or see {state.path}")
    backend = document.get("backend")
    for candidate in [backend] if backend else [word for word in backends.NAMES if present]:
        try:
            backends.load(candidate).cleanup(name, state.path)
        except ImportError:
            continue
    state.remove()
    return present


def known(extra: Path | None) -> list[StateDir]:
    """The folders of all simulators below the default root, and one more if given."""
    folders = sorted(path for path in ROOT.iterdir() if path.is_dir()) if ROOT.is_dir() else []
    return [StateDir(path) for path in [*folders, *([extra] if extra else [])]]


def last_log_line(state: StateDir) -> str:
    """The last line of the server's log."""
    try:
        lines = state.log.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return "(nothing yet)"
    return next((line for line in reversed(lines) if line.strip()), "(nothing yet)")


def _end(process_id: int, state: StateDir) -> None:
    os.kill(process_id, signal.SIGTERM)
    begun = time.monotonic()
    while state.living() is not None and time.monotonic() - begun < STOP_SECONDS:
        time.sleep(0.1)
    if state.living() == process_id:
        os.kill(process_id, signal.SIGKILL)
        while state.living() is not None and time.monotonic() - begun < STOP_SECONDS + 10:
            time.sleep(0.1)


def _word(item: dict[str, Any]) -> str:
    if item["provisioning_state"] == "Succeeded":
        return str(item["power_state"])
    return str(item["provisioning_state"]).lower()
