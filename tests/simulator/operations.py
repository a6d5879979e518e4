# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Long-running operations. Each runs in its own thread, and its state can be queried."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from simulator.resources import now


class OperationFailed(Exception):
    """An operation that ends with an error code and message of Azure."""

    def __init__(self, code: str, message: str, details: list[dict[str, Any]] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.details = details or []


@dataclass(eq=False)
class Operation:
    """One operation."""

    id: str
    what: str
    location: str
    started: datetime = field(default_factory=now)
    ended: datetime | None = None
    status: str = "InProgress"
    error: dict[str, Any] | None = None
    result: bytes = b""
    """The body of the final answer, for an operation that has one."""
    finished: threading.Event = field(default_factory=threading.Event, repr=False)


class Operations:
    """All operations since the simulator started."""

    def __init__(self, make_id: Callable[[], str], log: Callable[[str], None]) -> None:
        self._make_id = make_id
        self._log = log
        self._all: dict[str, Operation] = {}
        self._lock = threading.Lock()

    def start(self, what: str, location: str, work: Callable[[], None], result: bytes = b"") -> Operation:
        """Start ``work`` in a thread."""
        with self._lock:
            operation = Operation(self._make_id(), what, location, result=result)
            self._all[operation.id] = operation
        threading.Thread(target=self._run, args=(operation, work), name=what, daemon=True).start()
        return operation

    def find(self, operation_id: str) -> Operation | None:
        """The operation with this id."""
        with self._lock:
            return self._all.get(operation_id.lower())

    def running(self) -> list[Operation]:
        """All operations that have not ended."""
        with self._lock:
            return [operation for operation in self._all.values() if not operation.finished.is_set()]

    def wait(self, timeout: float) -> bool:
        """Wait until no operation is running. Returns False if that takes longer than ``timeout`` seconds."""
        deadline = now().timestamp() + timeout
        return all(operation.finished.wait(max(0.0, deadline - now().timestamp())) for operation in self.running())

    def _run(self, operation: Operation, work: Callable[[], None]) -> None:
        self._log(f"{operation.what}: started")
        status = "Succeeded"
        error: dict[str, Any] | None = None
        try:
            work()
        except OperationFailed as failure:
            status, error = "Failed", {"code": failure.code, "message": str(failure)}
            if failure.details:
                error["details"] = failure.details
        except Exception as failure:  # the operation must end after any error
            status, error = "Failed", {"code": "InternalExecutionError", "message": str(failure) or repr(failure)}
        operation.error = error
        operation.ended = now()
        operation.status = status
        operation.finished.set()
        self._log(f"{operation.what}: {status}{': ' + str(error['message']) if error else ''}")
