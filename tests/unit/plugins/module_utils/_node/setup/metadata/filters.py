# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fake kernel to which filters of connect(2) are attached."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import bpf
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root


class Kernel:
    """The attached programs: kind, name and code by number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Start with a foreign program."""
        self.programs: dict[int, tuple[int, str, bytes]] = {1: (bpf.CONNECT_4, "redirect", b"")}
        self._next = 2
        for name in ("attached", "attach", "detach"):
            monkeypatch.setattr(bpf, name, getattr(self, name))

    def attached(self, _root: Root, kind: int) -> dict[int, str]:
        """List the programs of a kind."""
        return {number: name for number, (of, name, _code) in self.programs.items() if of == kind}

    def attach(self, _root: Root, kind: int, code: bytes, name: str) -> None:
        """Attach a program."""
        assert len(name) <= 15
        self.programs[self._next] = (kind, name, code)
        self._next += 1

    def detach(self, _root: Root, kind: int, number: int) -> None:
        """Detach a program."""
        assert self.programs.pop(number)[0] == kind
