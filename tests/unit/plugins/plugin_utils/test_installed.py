# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An installed hpcnode is called only if its code is byte-identical to the controller's."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils import _installed
from ansible_collections.hpcai.azure.plugins.plugin_utils._installed import (
    CORE,
    OTHER_CODE,
    Answer,
    call,
    command,
    core_digest,
)

HPCNODE = """\
#!/bin/sh
echo "hpcnode boot: scratch: one disk is slow" >&2
printf '{"schema": 1, "command": "boot", "status": %s, "words": "%s"}\\n' "${STATUS:-0}" "$*"
exit "${STATUS:-0}"
"""


@dataclass
class Node:
    """A folder with the files of a node."""

    folder: Path

    def __post_init__(self) -> None:
        (self.folder / "usr/bin").mkdir(parents=True)
        (self.folder / "usr/bin/hpcnode").write_text(HPCNODE)
        (self.folder / "usr/bin/hpcnode").chmod(0o755)
        shutil.copytree(CORE / "cli", self.core / "cli")

    @property
    def core(self) -> Path:
        return self.folder / "usr/lib/hpcai/lib/hpcai_node"

    def sh(self, script: str) -> subprocess.CompletedProcess[str]:
        inside = script.replace("/usr/", f"{self.folder}/usr/")
        return subprocess.run(["sh", "-c", inside], capture_output=True, text=True, check=False)

    def _low_level_execute_command(self, script: str) -> dict[str, Any]:
        done = self.sh(script)
        return {"rc": done.returncode, "stdout": done.stdout, "stderr": done.stderr}


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node with a part of the core. The tests treat this part as the complete core."""
    made = Node(tmp_path)
    digest = core_digest(made.core)
    monkeypatch.setattr(_installed, "core_digest", lambda: digest)
    return made


def ask(node: Any, *words: str) -> Answer | None:
    """The answer of the installed hpcnode to an action. The node replaces the action's only method that is used."""
    return call(node, words)


def test_identical_code_is_called_with_the_arguments(node: Node) -> None:
    answer = ask(node, "boot", "run", "scratch disks")
    assert answer == Answer(
        {"schema": 1, "command": "boot", "status": 0, "words": "--json boot run scratch disks"},
        ["scratch: one disk is slow"],
    )
    assert "'scratch disks'" in command(["scratch disks"], core_digest(CORE))


def edit(node: Node) -> None:
    with (node.core / "cli/main.py").open("a", encoding="utf-8") as file:
        file.write("\n")


def rename(node: Node) -> None:
    (node.core / "cli/main.py").rename(node.core / "cli/other.py")


def add(node: Node) -> None:
    (node.core / "more.py").touch()


def lose(node: Node) -> None:
    shutil.rmtree(node.core)


@pytest.mark.parametrize("change", [edit, rename, add, lose])
def test_different_code_is_not_called(node: Node, change: Callable[[Node], None]) -> None:
    change(node)
    done = node.sh(command(["boot", "run"], _installed.core_digest()))
    assert (done.returncode, done.stdout) == (OTHER_CODE, "")
    assert ask(node, "boot", "run") is None


@pytest.mark.parametrize(
    "answer",
    [
        "echo no JSON",
        "echo '{}'",
        """echo '{"status": 0}'; exit 1""",
        """echo '{"status": 3, "error": "wrong usage"}'; exit 3""",
    ],
)
def test_an_invalid_answer_is_none(node: Node, answer: str) -> None:
    (node.folder / "usr/bin/hpcnode").write_text(f"#!/bin/sh\n{answer}\n")
    assert ask(node, "boot", "run") is None
