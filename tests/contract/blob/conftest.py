# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A storage account, and nodes that stage from it, each a process of hpcnode."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stand_ins.blob.azurite import Azurite, NotHere, azcopy_in, installed
from stand_ins.blob.sas import account_sas

REPOSITORY = Path(__file__).resolve().parents[3]
SRC = REPOSITORY / "plugins/module_utils"
_HPCNODE = "from _node.cli.main import main; raise SystemExit(main())"


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder of azcopy and Azurite."""
    try:
        return installed()
    except NotHere as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def account(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    """The storage account of all tests; each test creates its own container."""
    made = Azurite(programs, tmp_path_factory.mktemp("azurite"))
    yield made
    made.end()


class Node:
    """hpcnode as a job's step calls it on a node.

    :ivar sas: a file with a SAS.
    :ivar work: folder for azcopy's logs and plans.
    """

    def __init__(self, folder: Path, azcopy: str) -> None:
        self._azcopy = azcopy
        self.work = folder / "work"
        self.work.mkdir()
        self.sas = folder / "sas"
        self.write_sas(account_sas())

    def write_sas(self, sas: str) -> None:
        """Write a SAS to the file."""
        self.sas.write_text(sas + "\n", encoding="ascii")
        self.sas.chmod(0o600)

    def command(self, *words: str) -> list[str]:
        """The command line of hpcnode."""
        call = [sys.executable, "-c", _HPCNODE, "stage", "--json", "--every", "0.5"]
        if words[0] in ("run", "plan"):
            call += ["--sas-file", str(self.sas), "--azcopy", self._azcopy, "--work", str(self.work)]
        return [*call, *words]

    def environment(self, **more: str) -> dict[str, str]:
        """The environment of hpcnode: outside of Slurm, unless ``more`` has Slurm's variables."""
        plain = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        return {**plain, "PYTHONPATH": str(SRC), "HOME": str(self.work), **more}

    def start(self, *words: str, **more: str) -> subprocess.Popen[str]:
        """Start hpcnode without waiting for it."""
        return subprocess.Popen(
            self.command(*words),
            env=self.environment(**more),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __call__(self, *words: str, **more: str) -> dict[str, Any]:
        """Run hpcnode and return its JSON output, with ``stdout`` and ``stderr`` added."""
        return answer_of(self.start(*words, **more))


def answer_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for hpcnode, and return its JSON output, with ``stdout`` and ``stderr`` added."""
    stdout, stderr = process.communicate(timeout=120)
    assert stdout, stderr
    return {**json.loads(stdout), "stdout": stdout, "stderr": stderr}


@pytest.fixture
def node(programs: Path, tmp_path: Path) -> Node:
    return Node(tmp_path, azcopy_in(programs))
