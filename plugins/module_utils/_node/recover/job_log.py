# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Writes a line to a job's own log, with the rights of its user and never with those of root.

The user chooses the path, and may put a link, a pipe or a file system that hangs there. So a child process becomes that
user before it opens anything: all that a trick can change is what the user could change anyway.
"""

from __future__ import annotations

import os
import pwd
import stat

from ..machine.child import Died, Overdue, within
from ..machine.run import Run

HANGS = "its file system does not answer"
"""Beginning of the problem if the user's file system, or the user, keeps the writing process waiting."""
_LIMIT_S = 5.0
_NOBODY = 65534
_FIELD = "StdOut="


def log_of(name: str, run: Run) -> str:
    """Return the path of a job's log as slurmctld shows it; empty if it shows none. It is text of the job's user.

    :param name: the job's id for Slurm's commands.
    """
    shown = run(["scontrol", "show", "job", name])
    lines = [line.strip() for line in shown.stdout.splitlines()]
    paths = [line[len(_FIELD) :] for line in lines if line.startswith(_FIELD)]
    return paths[-1] if shown.rc == 0 and paths and paths[-1].startswith("/") else ""


def append_as_user(path: str, uid: int, line: str) -> str:
    """Append a line to a user's file if it exists on this machine.

    :param uid: the user, as slurmctld reports it; nothing is written for root.
    :return: why it was not written; empty if it was.
    """

    def append() -> dict[str, str]:
        try:
            _become(uid)
            flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            handle = os.open(path, flags)
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return {"problem": "it is not a regular file"}
            os.write(handle, f"{line}\n".encode())
        except OSError as error:
            return {"problem": error.strerror or str(error)}
        return {"problem": ""}

    if uid <= 0:
        return "root's files are not touched"
    try:
        return str(within(_LIMIT_S, append)["problem"])
    except Overdue as error:
        return f"{HANGS}{error}"
    except (Died, OSError) as error:
        return str(error)


def _become(uid: int) -> None:
    """Give up root's rights for good. The groups count, because a project's folder may be open to its group only."""
    if os.geteuid() != 0:
        return
    try:
        user = pwd.getpwuid(uid)
        os.initgroups(user.pw_name, user.pw_gid)
        group = user.pw_gid
    except KeyError:
        os.setgroups([])
        group = _NOBODY
    os.setresgid(group, group, group)
    os.setresuid(uid, uid, uid)
