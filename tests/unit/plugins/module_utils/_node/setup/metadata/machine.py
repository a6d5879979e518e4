# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A machine with fake systemctl and nft: the kernel has the table that was loaded last."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Sequence

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.metadata.rules import RULES, UNIT

NO_TABLE = "Error: No such file or directory\nlist table inet hpcai_metadata\n"


class Machine:
    """A fake machine."""

    def __init__(self, folder: pathlib.Path) -> None:
        """Start with nftables and a service user, and without any rules."""
        self.root = Root(str(folder))
        self.folder = folder
        self.commands: list[str] = []
        self.loaded: str | None = None
        self.active = self.enabled = False
        self.file("usr/sbin/nft", "")
        self.file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\ntelegraf:x:998:998::/:/bin/false\n")

    def file(self, path: str, text: str) -> None:
        """Write a file."""
        file = self.folder / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def run(self, command: Sequence[str]) -> Result:
        """Answer a command."""
        words = " ".join(command)
        if words.startswith("systemctl show"):
            return self._show(command)
        if words.startswith("nft") and " list " in words:
            if self.loaded is None:
                return Result(tuple(command), 1, "", NO_TABLE)
            return Result(tuple(command), 0, listing(self.loaded), "")
        self.commands.append(words)
        if words in ("systemctl start hpcai-metadata.service", "systemctl reload hpcai-metadata.service"):
            self.loaded, self.active = self.root.text(RULES), True
        elif words == "systemctl enable hpcai-metadata.service":
            self.enabled = True
        elif words.startswith("nft delete"):
            self.loaded = None
        return Result(tuple(command), 0, "", "")

    def _show(self, command: Sequence[str]) -> Result:
        exists = self.root.exists(UNIT)
        shown = (
            f"LoadState={'loaded' if exists else 'not-found'}\nActiveState={'active' if self.active else 'inactive'}\n"
            f"SubState=\nUnitFileState={'enabled' if self.enabled else 'disabled' if exists else ''}\n"
            "ExecMainStartTimestamp=\nFragmentPath=\nDropInPaths=\nNeedDaemonReload=no\n"
        )
        return Result(tuple(command), 0, shown, "")


def listing(text: str) -> str:
    """What nft would list after it loaded a file, reduced to what the code reads."""
    items: list[dict[str, object]] = [{"metainfo": {"version": "1.0.6"}}, {"table": {"name": "hpcai_metadata"}}]
    for line in text.splitlines():
        hook, comment = re.search(r"hook (\w+)", line), re.search(r'comment "([^"]*)"', line)
        items += [{"chain": {"name": hook[1], "hook": hook[1]}}] if hook else []
        items += [{"rule": {"comment": comment[1], "expr": []}}] if comment else []
    return json.dumps({"nftables": items})
