# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder that belongs to one simulator: what is in it, and whether its process lives.

The process holds a lock on ``simulator.pid`` as long as it lives; the kernel lets go of it however the process
ends. So nothing here trusts a process number that may belong to another program by now.
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
        """The folder given, or the usual one of a simulator of this name."""
        return cls(path if path is not None else ROOT / name)

    @property
    def log(self) -> Path:
        """Where the server writes what it does."""
        return self.path / LOG

    def read(self) -> dict[str, Any]:
        """What the server wrote about itself; empty where there is none."""
        try:
            document = json.loads((self.path / STATE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return document if isinstance(document, dict) else {}

    def write(self, document: dict[str, Any]) -> None:
        """Write what the server is, in one step."""
        part = self.path / f"{STATE}.part"
        part.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        part.replace(self.path / STATE)

    def lock(self) -> IO[str] | None:
        """Become the simulator of this folder; None when one lives already. Keep what is returned."""
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
        """The process number of the living server."""
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
        """Become the guardian of this folder. Keep what is returned."""
        file = (self.path / GUARDIAN_LOG).open("ab")
        fcntl.flock(file, fcntl.LOCK_EX)
        return file

    def wait_for_guardian(self, timeout: float) -> bool:
        """Wait until an earlier simulator's guardian is done: it must not clean up what a new one makes."""
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
        """Delete what the simulator put here, and the folder if nothing else is in it."""
        for name in OURS:
            (self.path / name).unlink(missing_ok=True)
        for folder in (self.path, ROOT):
            try:
                folder.rmdir()
            except OSError:
                return
