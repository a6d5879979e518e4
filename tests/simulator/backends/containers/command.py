# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run commands of the host, with timeouts and with errors that name the command."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence

from simulator.backends import BackendError


class CommandFailed(BackendError):
    """A command of the host failed. The message contains its last line of output."""


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"


def run(
    argv: Sequence[str],
    *,
    stdin: str | None = None,
    check: bool = True,
    timeout: float = 60,
    env: Mapping[str, str] | None = None,
) -> str:
    """Run one command and return its standard output."""
    try:
        done = subprocess.run(
            list(argv),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            env={**os.environ, "LC_ALL": "C.UTF-8", **(env or {})},
            check=False,
        )
    except FileNotFoundError as error:
        raise CommandFailed(f"{argv[0]} is not installed: run tests/setup/host.sh (make setup)") from error
    except subprocess.TimeoutExpired as error:
        raise CommandFailed(f"{shlex.join(argv)}: no answer within {timeout:.0f} s") from error
    if check and done.returncode:
        raise CommandFailed(
            f"{shlex.join(argv)}: exit status {done.returncode}: {_last_line(done.stderr or done.stdout)}"
        )
    return done.stdout
