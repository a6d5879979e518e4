# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node that reports: records of its tiers, its name, and a slurmctld that has a record of it."""

from __future__ import annotations

import json
import pathlib
import re
import time
from collections.abc import Sequence
from typing import Any

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

from ..playing import NOW

BOOT = "b007b007-0000-4000-8000-000000000000"


def check(name: str, verdict: str = "pass", **more: Any) -> dict[str, Any]:
    """Return a check's result in the form of a record."""
    return {"name": name, "verdict": verdict, "summary": f"{name} is so", "action": "replace", "cause": "node", **more}


def document(tier: str, *checks: dict[str, Any], age: float = 0.0) -> dict[str, Any]:
    """Return a tier's record."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(NOW - age))
    node = {"name": "compute-0", "vm_id": "vm-0", "host": "host-a", "boot_id": BOOT}
    return {"schema": 1, "command": "health", "tier": tier, "time": stamp, "node": node, "checks": list(checks)}


class Node:
    """A node with a name in Slurm, and a clock that only ``pause`` advances."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.root = Root(str(folder))
        self.now = NOW
        self.state, self.reason, self.extra, self.comment = "IDLE", "", "", ""
        self.answer_rc = 0
        self.commands: list[str] = []
        self.write("/proc/sys/kernel/random/boot_id", BOOT)
        self.write("/etc/hpcai/slurmd.env", 'SLURMD_OPTIONS="-N compute-0 --conf-server 10.0.0.4"\n')

    def write(self, path: str, text: str) -> None:
        """Write a file."""
        target = self.folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def record_run(self, tier: str, *checks: dict[str, Any], age: float = 0.0) -> None:
        """Write the record of a tier that has run."""
        self.write(f"/run/hpcai/health/{tier}.json", json.dumps(document(tier, *checks, age=age - (self.now - NOW))))

    def find_address(self, controllers: Sequence[str]) -> str:
        """Return the node's address, as if a controller answered."""
        assert list(controllers) == ["10.0.0.4"]
        return "10.0.0.9"

    def clock(self) -> float:
        """Return the time."""
        return self.now

    def pause(self, seconds: float) -> None:
        """Advance the clock."""
        self.now += seconds

    def run(self, command: Sequence[str]) -> Result:
        """Answer as slurmctld does."""
        words = list(command)[list(command).index("scontrol") + 1 :]
        self.commands.append(" ".join(words))
        if self.answer_rc:
            return Result(tuple(command), self.answer_rc, "", "slurm_load_node error")
        if words[0] == "update":
            found = re.fullmatch(r"(Extra|Comment)=(.*)", words[2])
            assert found, words
            setattr(self, found[1].lower(), found[2])
            return Result(tuple(command), 0, "", "")
        reason = f" Reason={self.reason} [root@2026-11-22T16:40:00]" if self.reason else ""
        texts = "".join(f" {key}={text}" for key, text in (("Comment", self.comment), ("Extra", self.extra)) if text)
        return Result(tuple(command), 0, f"NodeName=compute-0 State={self.state}{reason}{texts}\n", "")
