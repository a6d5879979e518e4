# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reboots from inside a machine: a container ends then, but a virtual machine starts again."""

from __future__ import annotations

import json
import os
import select
import sys
import threading
from collections.abc import Callable

from simulator.backends import BackendError
from simulator.backends.containers.podman import Podman

REBOOTED = 129
"""Exit status of a container whose process 1 asked the kernel for a reboot (SIGHUP; 130 is a power-off)."""


class RebootWatch:
    """Waits for the end of the machines' first processes, and starts the machines again that rebooted."""

    def __init__(self, podman: Podman, rebooted: Callable[[str], None]) -> None:
        self._podman = podman
        self._rebooted = rebooted
        self._lock = threading.Lock()
        self._watched: dict[int, tuple[str, str]] = {}
        self._wanted: set[str] = set()
        self._exits: dict[str, int] = {}
        self._epoll = select.epoll()
        self._wake, self._waker = os.pipe()
        self._epoll.register(self._wake, select.EPOLLIN)
        self._thread: threading.Thread | None = None

    def watch(self, container: str, vm_id: str) -> None:
        """Start to watch a machine that was just started."""
        pid = self._state(container).get("Pid", 0)
        try:
            descriptor = os.pidfd_open(pid) if pid else -1
        except ProcessLookupError:
            descriptor = -1
        with self._lock:
            self._exits.pop(container, None)
            self._wanted.add(container)
        if descriptor < 0:
            self._after_end(container, vm_id)
            return
        with self._lock:
            self._watched[descriptor] = (container, vm_id)
            self._epoll.register(descriptor, select.EPOLLIN)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="reboot-watch", daemon=True)
                self._thread.start()

    def forget(self, container: str) -> None:
        """Stop watching a machine, because the caller is going to end it."""
        with self._lock:
            self._wanted.discard(container)
            for descriptor in [known for known, (name, _vm_id) in self._watched.items() if name == container]:
                self._drop(descriptor)

    def exit_status(self, container: str) -> int | None:
        """The exit status of a machine that ended without a reboot or a request; None while it runs or reboots."""
        with self._lock:
            return self._exits.get(container)

    def close(self) -> None:
        """Stop watching everything."""
        with self._lock:
            self._wanted.clear()
            for descriptor in list(self._watched):
                self._drop(descriptor)
            thread, self._thread = self._thread, None
        if thread is not None:
            os.write(self._waker, b"x")
            thread.join(timeout=5)

    def _drop(self, descriptor: int) -> None:
        del self._watched[descriptor]
        self._epoll.unregister(descriptor)
        os.close(descriptor)

    def _state(self, container: str) -> dict[str, int]:
        text = self._podman.run("inspect", "--type=container", "--format={{json .State}}", container, check=False)
        state: dict[str, int] = json.loads(text) if text.strip() else {}
        return state

    def _run(self) -> None:
        while True:
            for descriptor, _event in self._epoll.poll():
                if descriptor == self._wake:
                    return
                with self._lock:
                    if descriptor not in self._watched:
                        continue
                    container, vm_id = self._watched[descriptor]
                    self._drop(descriptor)
                threading.Thread(target=self._after_end, args=(container, vm_id), daemon=True).start()

    def _after_end(self, container: str, vm_id: str) -> None:
        try:
            self._podman.run("wait", container, check=False, timeout=30)
            status = self._state(container).get("ExitCode", -1)
            with self._lock:
                # If it was stopped or deleted from outside meanwhile, it stays down.
                by_itself = container in self._wanted
                if by_itself and status != REBOOTED:
                    self._exits[container] = status
            if by_itself and status == REBOOTED:
                self._rebooted(vm_id)
        except BackendError as error:
            print(f"machine {container} rebooted and did not start again: {error}", file=sys.stderr, flush=True)
