# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The names of a job's nodes in /etc/hosts."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.hosts import BLOCK, write_hosts
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.slurmd_env import ENV_FILE, slurmd_env

SYSTEMS = "127.0.0.1 localhost\n127.0.1.1 gpu000000\n"
CONF = "NodeName=gpu-[0-1] NodeAddr=10.0.0.[5-6]\nNodeName=odd NodeAddr=odd.internal\n"


class Node:
    """A node with a fake slurmctld."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.root = folder, Root(str(folder))
        self.answers = "gpu-7 10.0.0.77\n"
        self.asked = 0
        self.write("/etc/hosts", SYSTEMS)
        self.write("/spool/slurm.conf", CONF)
        self.write(ENV_FILE, slurmd_env("gpu-0", ["10.0.0.4"]))
        (folder / "run/hpcai").mkdir(parents=True)

    def write(self, path: str, text: str) -> None:
        """Write a file."""
        target = self.folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def run(self, words: Sequence[str]) -> Result:
        """Answer as slurmctld does; without an answer, time out."""
        self.asked += 1
        return Result(tuple(words), 0 if self.answers else 124, self.answers, "")

    def prolog(self, nodes: str) -> str:
        """Run a job's prolog."""
        return write_hosts({"SLURM_CONF": "/spool/slurm.conf", "SLURM_JOB_NODELIST": nodes}, self.root, self.run)

    @property
    def hosts(self) -> str:
        """The content of /etc/hosts."""
        return (self.folder / "etc/hosts").read_text(encoding="utf-8")


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Node:
    """A node that has had no job yet."""
    return Node(tmp_path)


def block(*lines: str) -> str:
    """Return /etc/hosts with these lines in our block."""
    return "".join(f"{line}\n" for line in (f"# BEGIN {BLOCK}", *lines, f"# END {BLOCK}")) + SYSTEMS


def test_nodes_in_slurm_conf_are_written_without_asking_slurmctld(node: Node) -> None:
    assert node.prolog("gpu-[0-1]") == ""
    assert node.hosts == block("10.0.0.5 gpu-0", "10.0.0.6 gpu-1")
    assert node.asked == 0


def test_a_second_job_changes_nothing(node: Node) -> None:
    node.prolog("gpu-0")
    before = (node.folder / "etc/hosts").stat().st_ino
    node.prolog("gpu-1")
    assert (node.folder / "etc/hosts").stat().st_ino == before


def test_the_address_of_a_joined_node_is_asked_for_once_and_kept(node: Node) -> None:
    assert node.prolog("gpu-[0,7]") == ""
    assert "10.0.0.77 gpu-7\n" in node.hosts
    assert node.prolog("gpu-0") == ""
    assert "10.0.0.77 gpu-7\n" in node.hosts
    assert node.asked == 1


def test_a_new_address_replaces_the_old_one(node: Node) -> None:
    node.prolog("gpu-[0,7]")
    node.answers = "gpu-7 10.0.0.78\n"
    node.prolog("gpu-[0,7]")
    assert node.hosts == block("10.0.0.5 gpu-0", "10.0.0.6 gpu-1", "10.0.0.78 gpu-7")


def test_unknown_names_are_reported_and_the_others_are_written(node: Node) -> None:
    node.answers = ""
    message = node.prolog("gpu-[0,7-8]")
    assert message.startswith("no address is known for gpu-7, gpu-8 (slurmctld at 10.0.0.4 gave no answer")
    assert node.hosts == block("10.0.0.5 gpu-0", "10.0.0.6 gpu-1")


def test_an_address_that_is_a_host_name_is_not_written(node: Node) -> None:
    assert "odd" in node.prolog("odd")
    assert "odd" not in node.hosts
