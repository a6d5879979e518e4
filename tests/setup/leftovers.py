# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ends what steps leave behind: processes in their own sessions, and simulated clusters with their containers.

A simulator and its machines outlive the command that starts them. The checks run in a child of this process. As a
subreaper this process becomes the parent of all processes that outlive them, so it can find these.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence

import psutil

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PR_SET_CHILD_SUBREAPER = 36
"""From linux/prctl.h."""
INTERRUPT_SECONDS = 30
"""How long a step may clean up after SIGINT."""
TERMINATE_SECONDS = 20
DOWN_SECONDS = 180


def supervised(work: Callable[[], int]) -> int:
    """Run ``work`` in a child, and return its exit status. End all processes that are left, even if it failed.

    SIGINT and SIGTERM are passed on to the child.
    """
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError("the kernel does not make this process a subreaper: prctl(PR_SET_CHILD_SUBREAPER) failed")
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        # Leave the terminal's process group, so that Ctrl-C arrives once, from the parent.
        os.setpgid(0, 0)
        status = 1
        try:
            status = work()
        except KeyboardInterrupt:
            status = 128 + signal.SIGINT
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else 1
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _frame: _pass_on(child, received))
    status = reap_until(child)
    for line in end():
        print(f"      ended a process that a step left running: {line}", flush=True)
    return status


def _pass_on(child: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, number)


def reap_until(child: int) -> int:
    """Reap every process that ends below this one until the child ends. Return the child's exit status."""
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def remaining() -> list[psutil.Process]:
    """All processes below this one that have not ended."""
    return [one for one in psutil.Process().children(recursive=True) if one.status() != psutil.STATUS_ZOMBIE]


def interrupt(steps: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask steps to clean up and end, as Ctrl-C does. ``end`` terminates those that do not."""
    _signal_all([psutil.Process(step.pid) for step in steps if step.poll() is None], signal.SIGINT, group=True)
    psutil.wait_procs([psutil.Process(step.pid) for step in steps if step.poll() is None], INTERRUPT_SECONDS)


def end(repository: pathlib.Path = REPOSITORY) -> list[str]:
    """Remove simulators that were started below this process, and end every other process below it. Return them."""
    found = [_describe(one) for one in remaining()]
    for name in simulators(repository):
        subprocess.run(
            [sys.executable, "-m", "simulator", "down", f"--name={name}"],
            cwd=repository,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY / "tests")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            timeout=DOWN_SECONDS,
            check=False,
        )
    for number in (signal.SIGTERM, signal.SIGKILL):
        _signal_all(processes := remaining(), number)
        psutil.wait_procs(processes, TERMINATE_SECONDS)
    return found


def simulators(repository: pathlib.Path = REPOSITORY) -> list[str]:
    """Names of the simulators whose server runs below this process. Simulators of other processes are not included."""
    below = {one.pid for one in remaining()}
    names = []
    for file in sorted((repository / ".simulator").glob("*/simulator.pid")):
        number = file.read_text(encoding="utf-8").strip()
        if number.isdecimal() and int(number) in below:
            names.append(file.parent.name)
    return names


def _signal_all(processes: Sequence[psutil.Process], number: signal.Signals, group: bool = False) -> None:
    for process in processes:
        try:
            if group:
                os.killpg(process.pid, number)
            else:
                process.send_signal(number)
        except (ProcessLookupError, PermissionError, psutil.NoSuchProcess, psutil.AccessDenied):
            # It has ended, or it belongs to root and "simulator down" removed it with sudo.
            continue


def _describe(process: psutil.Process) -> str:
    try:
        return f"{process.pid} {' '.join(process.cmdline())[:100]}"
    except psutil.Error:
        return str(process.pid)
