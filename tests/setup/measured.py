# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a command, and record its CPU time, including that of all processes that it started.

    python measured.py FILE NICENESS COMMAND...

Simulated machines outlive the command that starts them. This process is a subreaper, so it becomes their parent, and
the kernel adds their CPU time to its own when they end. FILE gets the CPU time in seconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import resource
import signal
import subprocess
import sys

from leftovers import PR_SET_CHILD_SUBREAPER, reap_until

AUTOGROUP = pathlib.Path("/proc/self/autogroup")
"""If the kernel divides CPU time by sessions first, a niceness has an effect only within its session (sched(7))."""


def main(file: str, niceness: int, command: list[str]) -> int:
    """Return the command's exit status."""
    if niceness:
        os.nice(niceness)
        # An ordinary user may do this too, unless the user just did the same.
        with contextlib.suppress(OSError):
            AUTOGROUP.write_text(f"{niceness}\n", encoding="ascii")
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM):
        # The whole process group gets these signals, and this process must end last. Unlike SIG_IGN, a handler is not
        # inherited.
        signal.signal(number, lambda *_: None)
    try:
        child = subprocess.Popen(command)
    except OSError as error:
        print(f"{command[0]} did not start: {error}", flush=True)
        return 127
    status = reap_until(child.pid)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    pathlib.Path(file).write_text(f"{used.ru_utime + used.ru_stime:.1f}\n", encoding="ascii")
    return status


if __name__ == "__main__":
    # Skip Python's clean-up, which would wait for the child that was already reaped.
    os._exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
