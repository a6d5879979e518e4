# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""One azcopy from its start to its end: what it says is read while it works, and it ends when its time is over."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

from .events import END, INIT, PROGRESS, Event, event_of

_LOOK_S = 0.5
_TERM_S, _BURIAL_S = 3.0, 2.0

OnEvent = Callable[[Event], None]


class Ended(RuntimeError):
    """azcopy was ended before it was done.

    :ivar stalled: because nothing moved; else its whole time was over.
    """

    def __init__(self, stalled: bool, seconds: float) -> None:
        super().__init__(f"within {seconds:g} s")
        self.stalled = stalled


def run_azcopy(
    command: Sequence[str], variables: Mapping[str, str], on_event: OnEvent, total_s: float, stall_s: float
) -> int:
    """Run azcopy, tell ``on_event`` each line of its, and return its exit status.

    It dies with this process, also where this one is killed.

    :raises Ended: it took too long, or nothing moved for too long.
    :raises OSError: it cannot be started.
    """
    if not shutil.which(command[0], path=variables.get("PATH")):
        raise FileNotFoundError(2, "command not found", command[0])
    guard = shutil.which("setpriv")
    # This core knows nothing of Ansible: there is no AnsibleModule here whose run_command could be called.
    process = subprocess.Popen(  # pylint: disable=ansible-bad-function
        [*((guard, "--pdeathsig", "KILL", "--") if guard else ()), *command],
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        _listen(process, on_event, total_s, stall_s)
        return process.wait(timeout=max(_BURIAL_S, stall_s))
    except subprocess.TimeoutExpired:
        raise Ended(True, stall_s) from None
    finally:
        _bury(process)


def _listen(process: subprocess.Popen[bytes], on_event: OnEvent, total_s: float, stall_s: float) -> None:
    output = process.stdout
    if output is None:
        return
    began = moved = time.monotonic()
    said, last = b"", ""
    while True:
        now = time.monotonic()
        if now - began > total_s:
            raise Ended(False, total_s)
        if now - moved > stall_s:
            raise Ended(True, stall_s)
        if not select.select([output], [], [], _LOOK_S)[0]:
            continue
        part = os.read(output.fileno(), 1 << 16)
        said += part
        *lines, said = said.split(b"\n") if part else [said, b""]
        for line in lines:
            text = line.decode("utf-8", "replace").strip()
            if not text:
                continue
            event = event_of(text)
            mark = _mark(event)
            if mark != last:
                last, moved = mark, now
            on_event(event)
        if not part:
            return


def _mark(event: Event) -> str:
    """What has changed when something has moved. That it tries again is not it."""
    if event.kind not in (PROGRESS, END, INIT):
        return event.text
    keys = ("TransfersCompleted", "TransfersFailed", "TotalBytesTransferred", "TotalTransfers")
    return "|".join(str(event.content.get(key)) for key in keys)


def _bury(process: subprocess.Popen[bytes]) -> None:
    """End it if it lives. Asked first: it removes what it has half written."""
    for number, wait_s in ((signal.SIGTERM, _TERM_S), (signal.SIGKILL, _BURIAL_S)):
        if process.poll() is not None:
            break
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=wait_s)
    if process.stdout:
        process.stdout.close()
