# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the kernel's requests from /dev/fuse and answers them in as many threads as necessary."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import traceback
from collections.abc import Callable

from . import fuse_kernel as fuse
from .interrupts import Interrupts

THREADS_AT_MOST = 200
Answer = Callable[[int, int, tuple[int, int], memoryview], "bytes | None"]


class Loop:
    """Serves one mount. A request that waits for a dead server does not delay other requests."""

    def __init__(self, device: int, answer: Answer, interrupts: Interrupts) -> None:
        self._device, self._answer, self._interrupts = device, answer, interrupts
        self._lock = threading.Lock()
        self._threads = 0
        self._waiting = 0
        self._ended = threading.Event()

    def run(self) -> None:
        """Serve until the file system is unmounted, lazily or not, and no longer in use."""
        self._add_thread()
        self._ended.wait()

    def _add_thread(self) -> None:
        with self._lock:
            if self._threads >= THREADS_AT_MOST:
                return
            self._threads += 1
            self._waiting += 1
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        buffer = bytearray(fuse.WRITE_AT_MOST + (1 << 16))
        while True:
            try:
                length = os.readv(self._device, [buffer])
            except OSError as error:
                if error.errno in (errno.EINTR, errno.EAGAIN, errno.ENOENT):
                    continue
                self._ended.set()
                return
            with self._lock:
                self._waiting -= 1
                short = not self._waiting
            if short:
                self._add_thread()
            self._handle(memoryview(buffer)[:length])
            with self._lock:
                self._waiting += 1

    def _handle(self, request: memoryview) -> None:
        _length, operation, unique, node, uid, gid, _pid, _pad = fuse.REQUEST.unpack_from(request)
        if operation == fuse.INTERRUPT:
            self._interrupts.give_up(request[fuse.REQUEST.size :])
            return
        failed = 0
        self._interrupts.begin(unique)
        try:
            content = self._answer(operation, node, (uid, gid), request[fuse.REQUEST.size :])
        except OSError as error:
            failed, content = error.errno if error.errno and error.errno > 0 else errno.EREMOTEIO, b""
        except Exception:
            traceback.print_exc()
            failed, content = errno.EREMOTEIO, b""
        finally:
            self._interrupts.end()
        if content is None:
            return
        reply = fuse.REPLY.pack(fuse.REPLY.size + len(content), -failed, unique) + content
        # This fails if the kernel gave up the request or the file system is unmounted.
        with contextlib.suppress(OSError):
            os.write(self._device, reply)
