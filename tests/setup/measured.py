# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a command, and write down how much CPU time it took with all that it started.

    python measured.py FILE NICENESS COMMAND...

Simulated machines outlive the command that starts them. As the subreaper this process becomes their parent then, and
the kernel adds their time to its own when they have ended. FILE gets seconds of CPU time.
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
"""Where the kernel shares out time by sessions first (sched(7)), a niceness counts within a session alone."""


def main(file: str, niceness: int, command: list[str]) -> int:
    """Return the command's exit status."""
    if niceness:
        os.nice(niceness)
        # The kernel takes it from an ordinary user too, unless he has just done the same.
        with contextlib.suppress(OSError):
            AUTOGROUP.write_text(f"{niceness}\n", encoding="ascii")
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM):
        # They reach the whole group, and this process goes last. A handler, unlike SIG_IGN, is not handed on.
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
    # Without clean-up, which would wait for the child that is reaped already.
    os._exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
