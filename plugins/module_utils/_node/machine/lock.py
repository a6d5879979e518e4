# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A lock between processes; the kernel releases it when its holder ends."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator

_PAUSE_S = 0.1


class Locked(RuntimeError):
    """Another process held the lock for longer than the timeout; the message contains its process id."""


@contextlib.contextmanager
def only_one(path: str, timeout_s: float) -> Iterator[None]:
    """Hold the lock on the file ``path``, which is created if it is missing, and is never removed.

    :param timeout_s: how long to wait for it, in seconds; 0 does not wait.
    :raises Locked: another process did not release it in time.
    :raises OSError: the file cannot be created or opened.
    """
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        os.makedirs(folder, mode=0o755, exist_ok=True)
        # Do not depend on the umask: users read what services write beside the lock.
        os.chmod(folder, 0o755)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        _wait(handle, path, timeout_s)
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)


def _wait(handle: int, path: str, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            if time.monotonic() >= deadline:
                holder = os.pread(handle, 32, 0).decode(errors="replace").strip() or "unknown"
                raise Locked(
                    f"process {holder} holds the lock {path} and did not finish within {timeout_s:g} s: try again "
                    "after it has ended."
                ) from None
        time.sleep(_PAUSE_S)
