# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the time of a command and of all processes that it starts, also of those that outlive it.

Usage: adopting.py COMMAND ... On Linux, a process that outlives the command, such as a watchdog, becomes a child of
this process, which waits for it and adds its time. Otherwise its time would be lost.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
LIMIT_SECONDS = 120


def main(command: list[str]) -> int:
    """Run the command without output, and print seconds, CPU seconds and the exit status."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    nothing = os.open(os.devnull, os.O_RDWR)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(process, signal.SIGKILL))
    signal.alarm(LIMIT_SECONDS)
    began = time.monotonic()
    process = os.posix_spawnp(
        command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, nothing, number) for number in (0, 1, 2)]
    )
    _pid, status = os.waitpid(process, 0)
    wall = time.monotonic() - began
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    whole = time.monotonic() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    taken = {"wall": wall, "whole": whole, "cpu": used.ru_utime + used.ru_stime}
    print(json.dumps({**taken, "status": os.waitstatus_to_exitcode(status)}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
