# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How two states of Slurm's files differ."""

from __future__ import annotations

import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import shipped
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.effects import Need, Release
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.shipped import Snapshot

OLD: Release = (22, 5)
CONF = """\
ClusterName=one
SchedulerParameters=a
TaskPlugin=task/affinity
NodeName=compute-[0,3] NodeAddr=10.0.0.[5-6] CPUs=2 State=UNKNOWN
NodeName=compute-[4-5] NodeAddr=127.0.0.1 CPUs=2 State=CLOUD
PartitionName=compute Nodes=compute-[0,3-5]
"""


class Folder:
    """A folder of configuration files below a root."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = Root(str(root))
        self.path = root / "etc/slurm"
        self.path.mkdir(parents=True)

    def holds(self, **files: str) -> Snapshot:
        """What the files say; names without ``.conf``."""
        for name, text in files.items():
            (self.path / f"{name}.conf").write_text(text, encoding="utf-8")
        return shipped.read_snapshot(self.root, "/etc/slurm")


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> Folder:
    """An empty folder."""
    return Folder(tmp_path)


def differences(before: Snapshot, after: Snapshot, release: Release = OLD) -> list[tuple[str, Need, Need]]:
    """What changed and what it needs."""
    return [
        (change.what, change.effect.slurmctld, change.effect.slurmd)
        for change in shipped.changes(before, after, release)
    ]


def test_comments_order_and_case_are_no_change(folder: Folder) -> None:
    before = folder.holds(slurm=CONF)
    after = folder.holds(slurm="# new\nTASKPLUGIN=task/affinity\n" + CONF.replace("TaskPlugin=task/affinity\n", ""))
    assert differences(before, after) == []


def test_each_changed_key_is_named_with_what_it_needs(folder: Folder) -> None:
    before = folder.holds(slurm=CONF)
    after = folder.holds(slurm=CONF.replace("=a\n", "=b\n").replace("task/affinity", "task/none"))
    assert differences(before, after) == [
        ("slurm.conf SchedulerParameters changed", Need.RECONFIGURE, Need.RECONFIGURE),
        ("slurm.conf TaskPlugin changed", Need.RECONFIGURE, Need.RESTART),
    ]


def test_nodes_are_named_as_host_lists(folder: Folder) -> None:
    before = folder.holds(slurm=CONF)
    joined = CONF.replace("compute-[0,3] NodeAddr=10.0.0.[5-6]", "compute-[0,3-4] NodeAddr=10.0.0.[5-7]")
    after = folder.holds(slurm=joined.replace("compute-[4-5]", "compute-[5-6]"))
    assert differences(before, after) == [
        ("new nodes in slurm.conf: compute-6", Need.RESTART, Need.RECONFIGURE),
        ("nodes changed in slurm.conf: compute-4", Need.RESTART, Need.RECONFIGURE),
    ]
    assert ("nodes no longer in slurm.conf: compute-6", Need.RESTART, Need.RECONFIGURE) in differences(after, before)


def test_a_partition_that_goes_is_known_by_name(folder: Folder) -> None:
    before = folder.holds(slurm=CONF)
    (change,) = shipped.changes(before, folder.holds(slurm=CONF[: CONF.index("PartitionName")]), OLD)
    assert (change.what, change.partition) == ("slurm.conf PartitionName=compute was removed", "compute")
    assert change.effect.loses_jobs


def test_other_files_count_by_what_they_say(folder: Folder) -> None:
    before = folder.holds(slurm=CONF, gres="Name=gpu File=/dev/nvidia0\n", cgroup="ConstrainCores=yes\n")
    same = folder.holds(gres="# all\nName=gpu   File=/dev/nvidia0\n")
    assert differences(before, same) == []
    after = folder.holds(gres="Name=gpu File=/dev/nvidia1\n", cgroup="ConstrainCores=no\n")
    assert differences(before, after) == [
        ("cgroup.conf ConstrainCores changed", Need.RECONFIGURE, Need.RECONFIGURE),
        ("gres.conf changed", Need.RESTART, Need.RESTART),
    ]


def test_no_value_stands_in_what_is_kept(folder: Folder) -> None:
    kept = repr(folder.holds(slurm=CONF + "AccountingStoragePass=secret-socket\n"))
    assert "AccountingStoragePass" in kept
    assert "secret" not in kept


def test_a_node_is_told_only_what_restarts_its_slurmd(folder: Folder) -> None:
    snapshot = folder.holds(slurm=CONF, plugstack="required /usr/lib/hpcai/pyxis/spank_pyxis.so\n")
    part = shipped.part_for_node(shipped.part_for_slurmd(snapshot, OLD), "compute-3")
    assert sorted(part) == ["plugstack.conf", "slurm.conf NodeName=compute-3", "slurm.conf TaskPlugin"]
    bigger = folder.holds(slurm=CONF.replace("CPUs=2", "CPUs=4"))
    moved = folder.holds(slurm=CONF.replace("10.0.0.[5-6]", "10.0.0.[7-8]"))
    for after, changed in ((bigger, ["slurm.conf NodeName=compute-3 changed"]), (moved, [])):
        then = shipped.part_for_node(shipped.part_for_slurmd(after, OLD), "compute-3")
        assert [change.what for change in shipped.part_changes(part, then, "compute-3", OLD)] == changed
    # A node that has no line, because it has no name yet.
    assert "slurm.conf NodeName=" not in str(shipped.part_for_node(shipped.part_for_slurmd(snapshot, OLD), ""))


def test_digests_are_those_of_the_files_that_are_there(folder: Folder) -> None:
    folder.holds(slurm=CONF, gres="")
    (folder.path / "slurmdbd.conf").write_text("StoragePass=secret\n", encoding="utf-8")
    assert list(shipped.file_digests(folder.root, "/etc/slurm")) == ["slurm.conf"]
