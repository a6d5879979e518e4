# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Controls QEMU while it runs."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections.abc import Callable
from typing import IO, Any

from hardware.qemu import EmulatorError


class Monitor:
    """QEMU's machine protocol (QMP) on its standard input and output."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        """Read QEMU's greeting, and enable commands."""
        assert process.stdin is not None
        assert process.stdout is not None
        self._to: IO[bytes] = process.stdin
        self._lines: queue.Queue[bytes] = queue.Queue()
        stream = process.stdout

        def pump() -> None:
            for line in stream:
                self._lines.put(line)
            self._lines.put(b"")

        threading.Thread(target=pump, daemon=True).start()
        self._next(lambda message: "QMP" in message)
        self.ask("qmp_capabilities")

    def _next(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while True:
            try:
                line = self._lines.get(timeout=60)
            except queue.Empty:
                raise EmulatorError("QEMU's monitor does not answer") from None
            if not line:
                raise EmulatorError("QEMU ended")
            message: dict[str, Any] = json.loads(line)
            if wanted(message):
                return message

    def ask(self, command: str, **arguments: Any) -> Any:
        """Send a command, and return its result."""
        self._to.write(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        answer = self._next(lambda message: "return" in message or "error" in message)
        if "error" in answer:
            raise EmulatorError(f"{command}: {answer['error']['desc']}")
        return answer["return"]
