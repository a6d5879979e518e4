# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Small node tools to install below a temporary root."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools import disk
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools.layout import SITE, TREES, WHEELS, Disk
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools.plan import ToolPlan, plan, wanted_disk

INSIDE = "import sys; from .. import about; sys.stdout.write(about.TEXT)"


def sources(version: str) -> dict[str, bytes]:
    """A node tool that prints its version, one half from each of two files; one file exists in this version only."""
    return {
        "__init__.py": b"",
        "about.py": f"from .only_{version[0]} import HALF\nTEXT = '{version}' + HALF\n".encode(),
        f"only_{version[0]}.py": f"HALF = ' {version}'\n".encode(),
        "cli/__init__.py": b"",
        "cli/main.py": f"{INSIDE}\n\ndef main(): return 0\n".encode(),
    }


class Machine:
    """A temporary root to install into."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.root = Root(str(folder))
        self.shared: dict[str, str] = {}

    def wanted(self, version: str) -> Disk:
        """The wanted files of a version."""
        python = os.path.realpath(sys.executable)
        return wanted_disk(version, sources(version), python, os.geteuid(), self.shared)

    def plan(self, version: str) -> ToolPlan:
        """Plan the installation of a version."""
        return plan(disk.read_disk(self.root), self.wanted(version), disk.trees_in_use(self.root))

    def install(self, version: str) -> ToolPlan:
        """Install a version."""
        return disk.apply(self.root, self.wanted(version))

    def remove(self) -> ToolPlan:
        """Remove the tool."""
        return disk.apply(self.root, {})

    def path(self, path: str) -> pathlib.Path:
        """Return where a path of the machine is below the root."""
        return self.folder / path.lstrip("/")

    def tool_output(self) -> str:
        """What the installed tool prints; it must succeed."""
        command = [str(self.path("/usr/bin/hpcnode"))]
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout

    def files(self, below: pathlib.Path | None = None) -> Mapping[str, bytes]:
        """Every file below the root or another folder, bytecode left out."""
        folder = below or self.folder
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and not path.is_symlink() and path.suffix != ".pyc"
        }

    def unpack_wheel(self) -> pathlib.Path:
        """Create nvidia-ml-py as version 0.1.0 left it, and return its tree."""
        tree = self.path(f"{TREES}/nvidia_ml_py-13.615.71-53b0f0a4cc43")
        for path in ("pynvml.py", "nvidia_ml_py-13.615.71.dist-info/METADATA", "manifest.json"):
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text("text", encoding="ascii")
        self.path(WHEELS).mkdir()
        self.path(SITE).symlink_to(f"trees/{tree.name}")
        return tree


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that are synced to the disk; the fsync is faked, so that it takes no time."""
    paths: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda handle: paths.append(os.readlink(f"/proc/self/fd/{handle}")))
    return paths


@pytest.fixture
def machine(tmp_path: pathlib.Path, synced: list[str]) -> Machine:
    """An empty machine."""
    folder = tmp_path / "root"
    folder.mkdir()
    return Machine(folder)
