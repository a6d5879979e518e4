# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node with Slurm below a temporary folder, with fake answers of scontrol, dpkg and make."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

SOURCE = "/usr/share/hpcai/pyxis/pyxis-0.24.0.tar.gz"
HEADER = "#define SLURM_VERSION_NUMBER 0x{:02x}{:02x}{:02x}\n"


class Node:
    """A fake node. Its make copies the content of the source into the plugin."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, Root(str(folder))
        self.asked: list[tuple[str, ...]] = []
        self.make = Result((), 0, "", "")
        self.version, self.package = "22.05.8", "22.05.8-4+deb12u3"
        self.slurm("22.05.8")
        self.source(b"one")
        self.write("/usr/bin/enroot", "")
        for hook in ("50-slurm-pmi.sh", "50-slurm-pytorch.sh"):
            self.write(f"/usr/share/enroot/hooks.d/{hook}", "")

    def slurm(self, version: str, package: str = "", headers: str = "") -> None:
        """Install another Slurm."""
        self.version, self.package = version, package or f"{version}-1"
        numbers = [int(piece) for piece in (headers or version).split(".")]
        self.write("/usr/include/slurm/slurm_version.h", HEADER.format(*numbers))

    def source(self, content: bytes, name: str = "pyxis-0.24.0/Makefile", path: str = SOURCE) -> None:
        """Create an archive of pyxis with one file."""
        target = Path(self.root.at(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(target, "w:gz") as tar:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))

    def run(self, command: Sequence[str]) -> Result:
        """Answer a command."""
        self.asked.append(tuple(command))
        words = list(command)
        if words[0].endswith("/scontrol"):
            # As in an image, which has no configuration.
            return Result(tuple(command), 1, "", "scontrol: fatal: Could not establish a configuration source\n")
        if words[0].endswith("/slurmd") and self.version and not self.package:
            return Result(tuple(command), 0, f"slurm-wlm {self.version}\n", "")
        if words[0] == "dpkg-query" and not self.version:
            return Result(tuple(command), 1, "", "no path found matching pattern")
        if words[:2] == ["dpkg-query", "--search"]:
            return Result(tuple(command), 0, f"slurm-client: {words[2]}\n", "")
        if words[:2] == ["dpkg-query", "--show"]:
            return Result(tuple(command), 0, self.package, "")
        if "make" in words:
            return self._make(words)
        if "rm" in words:
            # As the real commands do, but without changing the user.
            import shutil

            path = Path(words[-1])
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        return Result(tuple(command), 0 if words[0] != "rpm" else 1, "", "")

    def _make(self, words: list[str]) -> Result:
        folder = Path(words[words.index("-C") + 1])
        if self.make.rc == 0:
            (folder / "spank_pyxis.so").write_bytes(b"\x7fELF" + (folder / "Makefile").read_bytes())
        return self.make

    def write(self, path: str, text: str) -> None:
        """Write a file."""
        target = Path(self.root.at(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def text(self, path: str) -> str | None:
        """The content of a file; None if it does not exist."""
        return self.root.text(path)

    def record(self) -> dict[str, Any]:
        """The record of the plugin."""
        return dict(json.loads(self.text("/var/lib/hpcai/pyxis.json") or "{}"))

    def files(self) -> dict[str, tuple[int, bytes]]:
        """All files and links, with modes and contents."""
        found = {}
        for path in self.folder.rglob("*"):
            if path.is_symlink():
                found[str(path)] = (0, os.readlink(path).encode())
            elif path.is_file():
                found[str(path)] = (path.stat().st_mode & 0o7777, path.read_bytes())
        return found


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node; the effective uid is faked, so that no command changes the user."""
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    return Node(tmp_path / "node")
