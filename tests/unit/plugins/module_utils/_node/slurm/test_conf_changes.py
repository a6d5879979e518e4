# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How two states of the configuration differ, and what each change needs."""

from __future__ import annotations

import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import conf_changes
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.conf_changes import (
    Release,
    Reload,
    Snapshot,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.releases import has_known_effects

OLD: Release = (22, 5)
NEW: Release = (24, 11)
RECONFIGURE, RESTART = Reload.RECONFIGURE, Reload.RESTART


@pytest.mark.parametrize(
    ("key", "release", "slurmctld", "slurmd"),
    [
        ("SchedulerParameters", OLD, RESTART, RESTART),
        ("SchedulerParameters", NEW, RECONFIGURE, RECONFIGURE),
        ("MaxJobCount", OLD, RESTART, RESTART),
        ("maxjobcount", NEW, RECONFIGURE, RECONFIGURE),
        ("TaskPlugin", OLD, RESTART, RESTART),
        ("TaskPlugin", NEW, RECONFIGURE, RECONFIGURE),
        ("ProctrackType", OLD, RESTART, RESTART),
        ("GresTypes", OLD, RESTART, RESTART),
        ("SlurmctldPort", NEW, RESTART, RECONFIGURE),
        ("SlurmdPort", NEW, RECONFIGURE, RESTART),
        ("AuthType", NEW, RESTART, RESTART),
        ("KeyOfTheFuture", NEW, RESTART, RESTART),
        ("KeyOfTheFuture", OLD, RESTART, RESTART),
    ],
)
def test_each_key_needs_what_the_manual_says(key: str, release: Release, slurmctld: Reload, slurmd: Reload) -> None:
    effect = conf_changes.effect_of(key, release)
    assert (effect.slurmctld, effect.slurmd) == (slurmctld, slurmd)
    assert effect.source


def test_keys_with_a_special_effect_are_keys_of_slurm() -> None:
    named = {
        key
        for name, keys in vars(conf_changes).items()
        if name.isupper() and isinstance(keys, frozenset)
        for key in keys
    }
    assert len(named) > 10
    assert all(map(has_known_effects, named))


def test_changes_that_lose_jobs_are_marked() -> None:
    assert conf_changes.effect_of("SelectType", OLD).loses_jobs
    assert conf_changes.effect_of("StateSaveLocation", NEW).loses_jobs
    assert conf_changes.effect_of_partitions(is_removed=True).loses_jobs
    assert not conf_changes.effect_of_partitions(is_removed=False).loses_jobs
    assert not conf_changes.effect_of("ProctrackType", OLD).loses_jobs


def test_an_old_slurmctld_is_restarted_if_its_nodes_change() -> None:
    """On a reconfigure it would end: "hostnames inconsistency detected"."""
    assert conf_changes.effect_of_nodes((23, 11)).slurmctld is RESTART
    assert conf_changes.effect_of_nodes((24, 11)).slurmctld is RECONFIGURE
    assert conf_changes.effect_of_hardware(OLD).slurmd is RESTART


@pytest.mark.parametrize(
    ("name", "release", "slurmctld", "slurmd"),
    [
        ("topology.conf", OLD, RECONFIGURE, RECONFIGURE),
        ("cgroup.conf ConstrainCores", OLD, RECONFIGURE, RECONFIGURE),
        ("cgroup.conf CgroupPlugin", OLD, RESTART, RESTART),
        ("gres.conf", OLD, RESTART, RESTART),
        ("gres.conf", NEW, RESTART, RECONFIGURE),
        ("plugstack.conf", OLD, RECONFIGURE, RESTART),
        ("job_container.conf", OLD, RECONFIGURE, RESTART),
        ("job_container.conf", NEW, RECONFIGURE, RESTART),
        ("future.conf", NEW, RESTART, RESTART),
    ],
)
def test_each_file_needs_what_its_manual_says(name: str, release: Release, slurmctld: Reload, slurmd: Reload) -> None:
    effect = conf_changes.effect_of_file(name, release)
    assert (effect.slurmctld, effect.slurmd) == (slurmctld, slurmd)
    assert effect.needs_idle_node == (name == "job_container.conf")


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
        """Write the files and read them all; names without ``.conf``."""
        for name, text in files.items():
            (self.path / f"{name}.conf").write_text(text, encoding="utf-8")
        return conf_changes.read_snapshot(self.root, "/etc/slurm")


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> Folder:
    """An empty folder."""
    return Folder(tmp_path)


def differences(before: Snapshot, after: Snapshot, release: Release = OLD) -> list[tuple[str, Reload, Reload]]:
    """The changes, and what each needs."""
    return [
        (change.what, change.effect.slurmctld, change.effect.slurmd)
        for change in conf_changes.find_changes(before, after, release)
    ]


def test_comments_order_and_case_are_no_change(folder: Folder) -> None:
    before = folder.holds(slurm=CONF)
    after = folder.holds(slurm="# new\nTASKPLUGIN=task/affinity\n" + CONF.replace("TaskPlugin=task/affinity\n", ""))
    assert differences(before, after) == []


def test_each_changed_key_is_named_with_what_it_needs(folder: Folder) -> None:
    before = folder.holds(slurm=CONF)
    after = folder.holds(slurm=CONF.replace("=a\n", "=b\n").replace("task/affinity", "task/none"))
    assert differences(before, after) == [
        ("slurm.conf SchedulerParameters changed", Reload.RESTART, Reload.RESTART),
        ("slurm.conf TaskPlugin changed", Reload.RESTART, Reload.RESTART),
    ]


def test_nodes_are_named_as_host_lists(folder: Folder) -> None:
    before = folder.holds(slurm=CONF)
    joined = CONF.replace("compute-[0,3] NodeAddr=10.0.0.[5-6]", "compute-[0,3-4] NodeAddr=10.0.0.[5-7]")
    after = folder.holds(slurm=joined.replace("compute-[4-5]", "compute-[5-6]"))
    assert differences(before, after) == [
        ("new nodes in slurm.conf: compute-6", Reload.RESTART, Reload.RECONFIGURE),
        ("nodes changed in slurm.conf: compute-4", Reload.RESTART, Reload.RECONFIGURE),
    ]
    assert ("nodes no longer in slurm.conf: compute-6", Reload.RESTART, Reload.RECONFIGURE) in differences(
        after, before
    )


def test_a_removed_partition_is_named(folder: Folder) -> None:
    before = folder.holds(slurm=CONF)
    (change,) = conf_changes.find_changes(before, folder.holds(slurm=CONF[: CONF.index("PartitionName")]), OLD)
    assert (change.what, change.partition) == ("slurm.conf PartitionName=compute was removed", "compute")
    assert change.effect.loses_jobs


def test_other_files_are_compared_by_their_content(folder: Folder) -> None:
    before = folder.holds(slurm=CONF, gres="Name=gpu File=/dev/nvidia0\n", cgroup="ConstrainCores=yes\n")
    same = folder.holds(gres="# all\nName=gpu   File=/dev/nvidia0\n")
    assert differences(before, same) == []
    after = folder.holds(gres="Name=gpu File=/dev/nvidia1\n", cgroup="ConstrainCores=no\n")
    assert differences(before, after) == [
        ("cgroup.conf ConstrainCores changed", Reload.RECONFIGURE, Reload.RECONFIGURE),
        ("gres.conf changed", Reload.RESTART, Reload.RESTART),
    ]


def test_a_snapshot_contains_no_values(folder: Folder) -> None:
    kept = repr(folder.holds(slurm=CONF + "AccountingStoragePass=secret-socket\n"))
    assert "AccountingStoragePass" in kept
    assert "secret" not in kept


def test_a_node_gets_only_what_restarts_its_slurmd(folder: Folder) -> None:
    snapshot = folder.holds(slurm=CONF, plugstack="required /usr/lib/hpcai/pyxis/spank_pyxis.so\n")
    entries = conf_changes.restart_relevant_for(conf_changes.restart_relevant(snapshot, OLD), "compute-3")
    keys = [f"slurm.conf {key}" for key in ("ClusterName", "NodeName=compute-3", "SchedulerParameters", "TaskPlugin")]
    assert sorted(entries) == ["plugstack.conf", *keys]
    bigger = folder.holds(slurm=CONF.replace("CPUs=2", "CPUs=4"))
    moved = folder.holds(slurm=CONF.replace("10.0.0.[5-6]", "10.0.0.[7-8]"))
    for after, changed in ((bigger, ["slurm.conf NodeName=compute-3 changed"]), (moved, [])):
        then = conf_changes.restart_relevant_for(conf_changes.restart_relevant(after, OLD), "compute-3")
        assert [change.what for change in conf_changes.restart_changes(entries, then, "compute-3", OLD)] == changed
    # A node without a name has no node line.
    assert "slurm.conf NodeName=" not in str(
        conf_changes.restart_relevant_for(conf_changes.restart_relevant(snapshot, OLD), "")
    )


def test_digests_leave_out_empty_files_and_slurmdbd_conf(folder: Folder) -> None:
    folder.holds(slurm=CONF, gres="")
    (folder.path / "slurmdbd.conf").write_text("StoragePass=secret\n", encoding="utf-8")
    assert list(conf_changes.file_digests(folder.root, "/etc/slurm")) == ["slurm.conf"]
