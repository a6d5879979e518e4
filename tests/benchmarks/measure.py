# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one command and measure its time and memory.

A small process (this file as a script) starts the command, because Linux includes the memory of the starting process in
the peak of the started one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

KIB_OF_MIB = 1024
LIMIT_SECONDS = 900


class CommandFailed(Exception):
    """The measured command failed."""


@dataclass(frozen=True)
class Sample:
    """The measurements of one run."""

    wall: float
    cpu: float
    """User and system time."""
    peak_mib: float
    """Largest resident set."""


def measure(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> Sample:
    """Run a command with its output in the files ``out`` and ``err`` of the folder."""
    launcher = [sys.executable, "-I", "-S", __file__, str(folder), *command]
    done = subprocess.run(launcher, env=dict(environment), capture_output=True, text=True, check=False)
    if done.returncode:
        problem = (folder / "err").read_text(encoding="utf-8")[-2000:]
        raise CommandFailed(f"{' '.join(command)} failed: {done.stderr or problem}")
    return Sample(**json.loads(done.stdout))


def launch(folder: str, command: list[str]) -> int:
    """Start the command, wait for it and print a sample."""
    with open(f"{folder}/out", "wb") as out, open(f"{folder}/err", "wb") as err, open(os.devnull, "rb") as nothing:
        began = time.monotonic()
        process = os.posix_spawn(
            command[0],
            command,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, nothing.fileno(), 0),
                (os.POSIX_SPAWN_DUP2, out.fileno(), 1),
                (os.POSIX_SPAWN_DUP2, err.fileno(), 2),
            ],
        )
        signal.signal(signal.SIGALRM, lambda *_: os.kill(process, signal.SIGKILL))
        signal.alarm(LIMIT_SECONDS)
        _process, status, usage = os.wait4(process, 0)
        wall = time.monotonic() - began
    sample = {"wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "peak_mib": usage.ru_maxrss / KIB_OF_MIB}
    print(json.dumps(sample))
    return 1 if status else 0


if __name__ == "__main__":
    sys.exit(launch(sys.argv[1], sys.argv[2:]))
