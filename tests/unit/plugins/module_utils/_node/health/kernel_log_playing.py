# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in for the kernel's log, with records as in /dev/kmsg and entries as in the journal.

For the tests of checks that read it: ``from ..kernel_log_playing import PlayedLog``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import PERIODIC, Answer, Check, History
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

from .playing import ND_A100, NOW, context

UPTIME_S = 7200.0
"""The machine's uptime."""
BOOTED = NOW - UPTIME_S


class PlayedLog:
    """A machine whose kernel writes the lines of a test, and the history of a check that runs repeatedly."""

    def __init__(self, path: Path) -> None:
        self.root, self.history = Root(str(path)), History()
        self.sequence, self.stamp = 0, 1_000_000
        self._records: list[str] = []
        self.journal: list[str] = []
        for folder in ("dev", "proc"):
            (path / folder).mkdir(exist_ok=True)
        (path / "proc/uptime").write_text(f"{UPTIME_S:.2f} 600000.00\n", encoding="ascii")
        self.write("Linux version 5.15.0-1074-azure (buildd@lcy02-amd64-011) #83-Ubuntu SMP")

    def write(self, *lines: str, later_s: float = 1.0, also_in_journal: bool = True) -> None:
        """Write lines to the log, each ``later_s`` seconds after the one before."""
        for line in lines:
            self.stamp += int(later_s * 1e6)
            # The kernel writes unprintable characters, newlines too, as \x and two digits.
            text = line.replace("\n", "\\x0a")
            self._records.append(
                f"4,{self.sequence},{self.stamp},-;{text}\n SUBSYSTEM=pci\n DEVICE=+pci:0001:00:00.0\n"
            )
            if also_in_journal:
                self.journal.append(entry(self.stamp, line))
            self.sequence += 1
        self._put()

    def forget(self, count: int) -> None:
        """Remove the oldest records, as happens in a full ring buffer."""
        del self._records[:count]
        self._put()

    def remove(self) -> None:
        """Remove the log."""
        Path(self.root.at("/dev/kmsg")).unlink()

    def look(self, check: Check, tier: str = PERIODIC, **also: Any) -> Answer:
        """Run the check; its history is kept for the next run."""
        also.setdefault("run", {"journalctl --dmesg --boot": "\n".join(self.journal)})
        return check.measure(context(root=self.root, history=self.history, tier=tier, **{"size": ND_A100, **also}))

    def look_without_log(self, check: Check) -> list[str]:
        """Run the check with a lost line, then without a log; return the verdicts."""
        self.write("one")
        self.forget(1)
        lost = self.look(check, run={})
        self.remove()
        nothing = self.look(check)
        assert not nothing.readings
        return [found.verdict for answer in (lost, nothing) for found in answer.findings]

    def _put(self) -> None:
        Path(self.root.at("/dev/kmsg")).write_text("".join(self._records), encoding="utf-8")


def entry(stamp: int, text: str, **also: Any) -> str:
    """Return the journal's entry of a record with this stamp; journald's own stamps are a little later."""
    fields = {
        "__REALTIME_TIMESTAMP": str(int(BOOTED * 1e6) + stamp + 300),
        "__MONOTONIC_TIMESTAMP": str(stamp + 300),
        "_SOURCE_MONOTONIC_TIMESTAMP": str(stamp),
        "_TRANSPORT": "kernel",
        "PRIORITY": "4",
        "MESSAGE": text,
        **also,
    }
    return json.dumps(fields)
