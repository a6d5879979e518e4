# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the commands of ``slurm`` without a shell."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence

from . import slurm

COMMAND_S = 30.0
"""Time limit of one command of Slurm."""
AGAIN_S = 30.0


async def answer_of(
    command: Sequence[str], env: dict[str, str] | None = None, limit_s: float = COMMAND_S
) -> tuple[int, str, str]:
    """Run a command; returns its exit status (124 if it takes too long), stdout and stderr."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=env,
    )
    try:
        stdout, stderr = await asyncio.wait_for(process.communicate(), limit_s)
    except TimeoutError:
        # sudo runs as root, so the hub may not end it, and does not wait until Slurm's command gives up.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            process.kill()
            await process.wait()
        return 124, "", f"{command[0]} timed out after {limit_s:g} s"
    return process.returncode or 0, stdout.decode(errors="replace"), stderr.decode(errors="replace")


async def cancel_until_done(user: str, job_id: str, limit_s: float) -> bool:
    """Repeat ``scancel`` until Slurm has taken it, or the job is over; whether that was so within the limit."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        rc, _stdout, stderr = await answer_of(slurm.cancel(user, job_id))
        if slurm.is_cancelled(rc, stderr):
            return True
        await asyncio.sleep(AGAIN_S)
    return False
