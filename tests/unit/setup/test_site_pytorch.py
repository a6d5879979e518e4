# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where `make site` finds PyTorch for its training, and what it says without."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from typing import Any

import pytest

from simulated import frameworks

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "site/pytorch.py"
NODES = ["10.77.0.68", "10.77.0.69"]


@pytest.fixture
def script() -> Any:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("site_pytorch", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Nodes:
    """Nodes of which some have PyTorch, by interpreter."""

    def __init__(self, *_where: Any, **found: list[str]) -> None:
        self.found = found

    def ssh(self, address: str, command: str, check: bool = True) -> str:
        """Answer as the shell of a node does."""
        python = command.split(maxsplit=1)[0].rpartition("/")[2]
        return "found\n" if address in self.found.get(python, []) else ""


def test_what_the_nodes_have_is_used(script: Any) -> None:
    assert script.interpreter(Nodes(python3=NODES), NODES) == "python3"
    assert script.interpreter(Nodes(python=NODES), NODES) == frameworks.PYTHON


def test_given_wheels_are_installed_on_each_node(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    installed: list[str] = []
    monkeypatch.setattr(frameworks, "packages", pathlib.Path)
    monkeypatch.setattr(frameworks, "install", lambda _cluster, address, _packages: installed.append(address))

    assert script.interpreter(Nodes(python3=NODES[:1]), NODES) == frameworks.PYTHON
    assert installed == NODES


def test_without_wheels_one_line_says_what_to_set(
    script: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HPCAI_TORCH_FILES", raising=False)
    monkeypatch.setattr(script, "Cluster", Nodes)
    monkeypatch.setattr(sys, "argv", ["pytorch.py", "http://127.0.0.1:1", "state", *NODES])
    script.main()
    shown = capsys.readouterr()

    assert shown.out == ""
    assert shown.err.startswith("The training is left out: ")
    assert "HPCAI_TORCH_FILES" in shown.err
    assert shown.err.count("\n") == 1
