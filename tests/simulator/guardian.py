# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Removes what a simulator made if the simulator dies in any way.

The guardian is a separate process. It reads from a pipe whose other end only the server has. The server writes
``clean`` before it ends normally. If the pipe closes without that, the server died, and the backend's cleanup runs.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

from simulator import backends
from simulator.backends import BackendError
from simulator.statedir import GUARDIAN_LOG, STATE, StateDir

CLEAN = b"clean"
READY = "watching"
START_SECONDS = 20


def start(name: str, backend: str, state_dir: Path) -> IO[bytes]:
    """Start a guardian. Keep the returned pipe open, and write CLEAN to it after cleaning up."""
    with (state_dir / GUARDIAN_LOG).open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "simulator.guardian", name, backend, str(state_dir)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd="/",
            env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
            start_new_session=True,
        )
    assert process.stdin is not None
    deadline = time.monotonic() + START_SECONDS
    while READY not in (state_dir / GUARDIAN_LOG).read_text(encoding="utf-8"):
        if process.poll() is not None or time.monotonic() > deadline:
            raise BackendError(f"the guardian did not start, see {state_dir / GUARDIAN_LOG}")
        time.sleep(0.02)
    return process.stdin


def watch(name: str, backend: str, state_dir: Path) -> int:
    """Wait for the server's end, and clean up unless the server did."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    lock = StateDir(state_dir).guardian_lock()
    print(READY, flush=True)
    if sys.stdin.buffer.read() == CLEAN:
        return 0
    print(f"the simulator {name} died: removing its machines", flush=True)
    backends.load(backend).cleanup(name, state_dir)
    (state_dir / STATE).unlink(missing_ok=True)
    print("done", flush=True)
    lock.close()
    return 0


def main() -> int:
    """Run the guardian process."""
    parser = argparse.ArgumentParser(prog="simulator.guardian", description=__doc__)
    parser.add_argument("name")
    parser.add_argument("backend", choices=backends.NAMES)
    parser.add_argument("state_dir", type=Path)
    arguments = parser.parse_args()
    return watch(arguments.name, arguments.backend, arguments.state_dir)


if __name__ == "__main__":
    raise SystemExit(main())
