# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What dead jobs left behind goes, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.containers import sweep

from .conftest import Node

ME = os.getuid()


@pytest.fixture
def scratch(node: Node) -> Path:
    """A scratch with containers and images of this user: of jobs 7 and 8, and one that he named himself."""
    top = node.folder / "scratch"
    for name in ("pyxis_7_7.0", "pyxis_7_torch", "pyxis_8.0", "pyxis_mine", "pyxis_9x", "mine", "pyxis_7"):
        (top / f"data/user-{ME}" / name / "usr").mkdir(parents=True)
    (top / f"pyxis/{ME}").mkdir(parents=True)
    for name in ("7.0.squashfs", "8.1.squashfs", "notes.txt"):
        (top / f"pyxis/{ME}" / name).touch()
    return top


def found(node: Node) -> list[str]:
    """What would be removed."""
    left = sweep.leftovers("/scratch/data", "/scratch/pyxis", node.root)
    return [Path(one.path).name for one in left]


def test_only_what_bears_a_jobs_name_is_found(node: Node, scratch: Path) -> None:
    assert found(node) == ["pyxis_7_7.0", "pyxis_7_torch", "pyxis_8.0", "7.0.squashfs", "8.1.squashfs"]


def test_a_job_that_runs_keeps_its_own(node: Node, scratch: Path) -> None:
    for pid, uid in ((100, 0), (102, 1001)):
        node.write(f"/proc/{pid}/stat", f"{pid} (slurmstepd) S 1 " + " ".join(["0"] * 48))
        node.write(f"/proc/{pid}/status", f"Uid:\t{uid}\t{uid}\n")
    node.write("/proc/100/cmdline", "slurmstepd: [7.0]\0")
    # Anybody's process may have such a title.
    node.write("/proc/102/cmdline", "slurmstepd: [8.0]\0")
    node.write("/proc/101/cmdline", "/usr/sbin/slurmd\0")
    assert found(node) == ["pyxis_8.0", "8.1.squashfs"]


def test_folders_of_strangers_and_links_are_passed_over(node: Node, scratch: Path) -> None:
    (scratch / f"data/user-{ME + 1}/pyxis_3_3.0").mkdir(parents=True)
    (scratch / f"data/user-{ME + 2}").symlink_to(scratch / f"data/user-{ME}")
    (scratch / "data/other-5/pyxis_3_3.0").mkdir(parents=True)
    assert found(node) == ["pyxis_7_7.0", "pyxis_7_torch", "pyxis_8.0", "7.0.squashfs", "8.1.squashfs"]


def test_it_is_removed_as_the_user_whose_it_is(node: Node, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = sweep.leftovers("/scratch/data", "/scratch/pyxis", node.root)
    assert sweep.remove(left, node.run) == []
    assert found(node) == []
    assert (scratch / f"data/user-{ME}/pyxis_mine").is_dir()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    node.asked.clear()
    sweep.remove([sweep.Leftover(1001, str(scratch / "nothing.squashfs"))], node.run)
    assert all("--reuid=1001" in command and "--regid=65534" in command for command in node.asked)
    assert len(node.asked) == 2
