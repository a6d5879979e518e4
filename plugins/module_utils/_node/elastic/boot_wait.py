# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""PrologSlurmctld of a job on elastic nodes: it ends when the nodes have booted, and slurmctld then starts the job.

slurmctld looks for jobs whose nodes have booted every 30 s (PERIODIC_TIMEOUT; job_time_limit in job_mgr.c), and also
when a PrologSlurmctld ends (prolog_running_decr in job_scheduler.c); so in 22.05 to 26.05. For batch jobs nothing else
makes it look, neither the registration of a node nor an update of the job. If this program ends early for whatever
reason, the job starts up to 30 s later.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Callable

from ..machine.root import Root
from ..machine.run import Run
from .spool import SPOOL

LOOK_S = 1.0
MOST = 32
"""So many programs wait at a time, each with two short requests to slurmctld a second. The jobs of others start up to
30 s later."""
MARGIN_S = 15.0
"""A PrologSlurmctld that slurmctld has to kill counts as failed, and its job is requeued."""
_LIMIT = re.compile(r"^Prolog(?:Epilog)?Timeout\s*=\s*(\d+)", re.MULTILINE)
_UNLIMITED_S = 3600.0
_UNSET = 65533
"""From this value on, slurmctld has no limit (NO_VAL16 is 65534)."""
_COMING = "#~%*"
"""Signs of a state in sinfo: powering up, powered down, powering down, not responding."""


def wait(
    root: Root,
    job: str,
    nodes: str,
    run: Run,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Wait until the nodes of a job have booted, or will not, and return why it ended.

    :param nodes: the job's nodes as a host list.
    """
    began = clock()
    if not _are_coming(nodes, run):
        return "no node boots"
    with _place(root) as has_place:
        if not has_place:
            return f"{MOST} others wait"
        limit_s = _limit_s(run)
        while clock() - began < limit_s:
            coming = _are_coming(nodes, run)
            if not coming:
                return "no node boots any more"
            shown = run(["squeue", "--noheader", f"--jobs={job}", "--states=CONFIGURING", "--format=%i"])
            if not shown.stdout.strip():
                # It was cancelled or requeued: slurmctld starts it again only when this has ended.
                return "the job does not wait any more"
            sleep(LOOK_S)
    return f"they need more than {limit_s:.0f} s"


def _are_coming(nodes: str, run: Run) -> bool | None:
    """Return whether one of the nodes still boots; None if one is down or slurmctld does not answer."""
    shown = run(["sinfo", "--noheader", "--all", f"--nodes={nodes}", "--format=%T"])
    states = shown.stdout.split()
    if shown.rc or not states or any(state.startswith("down") for state in states):
        return None
    return any(state[-1] in _COMING for state in states)


def _limit_s(run: Run) -> float:
    found = [int(one) for one in _LIMIT.findall(run(["scontrol", "show", "config"]).stdout)]
    limits = [one for one in found if 0 < one < _UNSET]
    return max(0.0, min(limits) - MARGIN_S) if limits else _UNLIMITED_S


@contextmanager
def _place(root: Root) -> Iterator[bool]:
    """Take one of the places, which the kernel frees if this process is killed."""
    for number in range(MOST):
        handle = os.open(
            root.at(f"{SPOOL}/.wait-{number}"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            continue
        try:
            yield True
        finally:
            os.close(handle)
        return
    yield False
