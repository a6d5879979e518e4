# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A kernel's log, played: records as /dev/kmsg has them, and entries as the journal tells them.

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
"""How long the machine is up."""
BOOTED = NOW - UPTIME_S


class PlayedLog:
    """A machine with a kernel that writes, and a check that looks at it again and again."""

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
        """Let the kernel write lines, each so much later than the one before."""
        for line in lines:
            self.stamp += int(later_s * 1e6)
            # The kernel writes what is not printable as \x and two digits, the end of a line among it.
            text = line.replace("\n", "\\x0a")
            self._records.append(
                f"4,{self.sequence},{self.stamp},-;{text}\n SUBSYSTEM=pci\n DEVICE=+pci:0001:00:00.0\n"
            )
            if also_in_journal:
                self.journal.append(entry(self.stamp, line))
            self.sequence += 1
        self._put()

    def forget(self, count: int) -> None:
        """Let the oldest records fall out of the ring."""
        del self._records[:count]
        self._put()

    def remove(self) -> None:
        """Take the log away."""
        Path(self.root.at("/dev/kmsg")).unlink()

    def look(self, check: Check, tier: str = PERIODIC, **also: Any) -> Answer:
        """Let the check look; what it keeps is there the next time."""
        also.setdefault("run", {"journalctl --dmesg --boot": "\n".join(self.journal)})
        return check.measure(context(root=self.root, history=self.history, tier=tier, **{"size": ND_A100, **also}))

    def look_in_vain(self, check: Check) -> list[str]:
        """Let the check look where nobody has a line any more, and then where there is no log; return the verdicts."""
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
    """What the journal tells of a record of this stamp; journald notes it a little later."""
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
