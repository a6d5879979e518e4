# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder of one simulator: its files, and whether its process is alive.

The process holds a lock on ``simulator.pid`` while it is alive. The kernel releases the lock when the process ends in
any way, so the code never relies on a process id that may now belong to another program.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path
from typing import IO, Any

from simulator import keys

ROOT = Path(__file__).resolve().parents[2] / ".simulator"
STATE, LOG, PID, GUARDIAN_LOG = "state.json", "simulator.log", "simulator.pid", "guardian.log"
OURS = (STATE, LOG, PID, GUARDIAN_LOG, keys.PRIVATE, keys.PUBLIC)


class StateDir:
    """One simulator's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()

    @classmethod
    def of(cls, name: str, path: Path | None) -> StateDir:
        """The given folder, or the default folder of a simulator with this name."""
        return cls(path if path is not None else ROOT / name)

    @property
    def log(self) -> Path:
        """The server's log file."""
        return self.path / LOG

    def read(self) -> dict[str, Any]:
        """The server's document about itself, empty if there is none."""
        try:
            document = json.loads((self.path / STATE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return document if isinstance(document, dict) else {}

    def write(self, document: dict[str, Any]) -> None:
        """Write the server's document atomically."""
        part = self.path / f"{STATE}.part"
        part.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        part.replace(self.path / STATE)

    def lock(self) -> IO[str] | None:
        """Lock this folder for a simulator. Returns None if another one is alive. Keep the returned file open."""
        self.path.mkdir(parents=True, exist_ok=True)
        file = (self.path / PID).open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        file.seek(0)
        file.truncate()
        file.write(f"{os.getpid()}\n")
        file.flush()
        return file

    def living(self) -> int | None:
        """The process id of the server if it is alive."""
        try:
            with (self.path / PID).open(encoding="utf-8") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    text = file.read().strip()
                    return int(text) if text else None
        except FileNotFoundError:
            pass
        return None

    def guardian_lock(self) -> IO[bytes]:
        """Lock this folder for its guardian. Keep the returned file open."""
        file = (self.path / GUARDIAN_LOG).open("ab")
        fcntl.flock(file, fcntl.LOCK_EX)
        return file

    def wait_for_guardian(self, timeout: float) -> bool:
        """Wait until the guardian of an earlier simulator has ended. Otherwise it would remove what a new one makes."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                with (self.path / GUARDIAN_LOG).open("rb") as file:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except FileNotFoundError:
                return True
            except BlockingIOError:
                if time.monotonic() > deadline:
                    return False
                time.sleep(0.05)
            else:
                return True

    def remove(self) -> None:
        """Delete the simulator's files, and the folder if it is empty then."""
        for name in OURS:
            (self.path / name).unlink(missing_ok=True)
        for folder in (self.path, ROOT):
            try:
                folder.rmdir()
            except OSError:
                return
