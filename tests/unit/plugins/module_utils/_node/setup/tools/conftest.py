# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Small node tools and wheels to install below a temporary root."""

from __future__ import annotations

import hashlib
import os
import pathlib
import subprocess
import sys
import zipfile
from collections.abc import Mapping

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools import disk
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools.plan import (
    ToolOptions,
    ToolPlan,
    plan,
    wanted_disk,
)

INSIDE = "import sys; from .. import about; sys.stdout.write(about.TEXT)"


def sources(version: str) -> dict[str, bytes]:
    """A node tool that prints its version, half of it in each of two files; one file is of this version alone."""
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
        self.wheel: str | None = None
        self.wheel_sha256: str | None = None
        self.wheel_needed = False

    def wish(self, version: str) -> ToolOptions:
        """What to install."""
        interpreter = os.path.realpath(sys.executable)
        return ToolOptions(version, sources(version), self.wheel, self.wheel_sha256, interpreter, os.geteuid())

    def plan(self, version: str) -> ToolPlan:
        """Say what would be done."""
        found = disk.read_disk(self.root)
        return plan(found, wanted_disk(found, self.wish(version))[0], disk.trees_in_use(self.root))

    def install(self, version: str) -> ToolPlan:
        """Install a version."""
        found = disk.read_disk(self.root)
        after, self.wheel_needed = wanted_disk(found, self.wish(version))
        return disk.apply(self.root, after)

    def remove(self) -> ToolPlan:
        """Remove it."""
        return disk.apply(self.root, {})

    def path(self, path: str) -> pathlib.Path:
        """Where something of the machine lies."""
        return self.folder / path.lstrip("/")

    def says(self) -> str:
        """What the installed tool prints; an error is no answer."""
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

    def make_wheel(self, version: str = "1.2", **files: str) -> None:
        """Make a wheel, and want it."""
        path = self.folder.parent / f"nvidia_ml_py-{version}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("pynvml.py", f"VERSION = '{version}'\n")
            archive.writestr(f"nvidia_ml_py-{version}.dist-info/METADATA", f"Name: nvidia-ml-py\nVersion: {version}\n")
            for name, text in files.items():
                archive.writestr(name, text)
        self.wheel, self.wheel_sha256 = str(path), hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is brought to the disk, which takes no time here."""
    paths: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda handle: paths.append(os.readlink(f"/proc/self/fd/{handle}")))
    return paths


@pytest.fixture
def machine(tmp_path: pathlib.Path, synced: list[str]) -> Machine:
    """A machine without anything."""
    folder = tmp_path / "root"
    folder.mkdir()
    return Machine(folder)
