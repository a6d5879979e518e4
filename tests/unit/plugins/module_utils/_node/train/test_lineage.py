# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lineage of a run, read from a real repository and a real interpreter."""

from __future__ import annotations

import hashlib
import pathlib
import subprocess
import sys

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import run
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.lineage import lineage
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.record import Record

RECORD = Record("fsdp tiny").begun(["c-0", "c-1"], 1.0, 10)
PACKAGES = ("pytest>=2.4", "no-such-package==1")


def test_the_lineage_names_commit_data_parent_nodes_and_versions(tmp_path: pathlib.Path) -> None:
    trainer, sums = tmp_path / "trainer.py", tmp_path / "sums"
    trainer.write_text("pass\n")
    sums.write_text(f"{'0' * 64}  a\n")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "--quiet"], ["add", "trainer.py", "sums"], ["commit", "--quiet", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    found = lineage(RECORD, str(trainer), str(tmp_path), str(sums), sys.executable, "", PACKAGES, run)
    assert found["recipe"] == "fsdp tiny"
    assert found["parent_step"] == 10
    assert found["nodes"] == ["c-0", "c-1"]
    assert len(found["commit"]) == 40
    assert found["uncommitted_changes"] is False
    assert found["trainer"] == hashlib.sha256(b"pass\n").hexdigest()
    assert found["data"] == hashlib.sha256(sums.read_bytes()).hexdigest()
    assert set(found["versions"]) == {"hpcnode", "python", "pytest"}
    trainer.write_text("changed\n")
    assert lineage(RECORD, str(trainer), str(tmp_path), "", "", "", (), run)["uncommitted_changes"] is True


def test_what_is_unknown_is_empty(tmp_path: pathlib.Path) -> None:
    found = lineage(RECORD, str(tmp_path / "none"), str(tmp_path), "", str(tmp_path / "none"), "image", PACKAGES, run)
    assert (found["trainer"], found["commit"], found["data"], found["image"]) == ("", "", "", "image")
    assert set(found["versions"]) == {"hpcnode"}
