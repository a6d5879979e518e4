# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one command and say what it and all that it started took, also what it leaves behind: adopting.py COMMAND ...

What outlives the command, as a watchdog may, becomes this process's own child (Linux), is waited for, and its time
counts. Otherwise it would be in nobody's account.
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
    """Run it, its output away, and print seconds, CPU seconds and its exit status."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    nothing = os.open(os.devnull, os.O_RDWR)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(process, signal.SIGKILL))
    signal.alarm(LIMIT_SECONDS)
    begun = time.monotonic()
    process = os.posix_spawnp(
        command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, nothing, number) for number in (0, 1, 2)]
    )
    _pid, status = os.waitpid(process, 0)
    wall = time.monotonic() - begun
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    whole = time.monotonic() - begun
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    taken = {"wall": wall, "whole": whole, "cpu": used.ru_utime + used.ru_stime}
    print(json.dumps({**taken, "status": os.waitstatus_to_exitcode(status)}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
