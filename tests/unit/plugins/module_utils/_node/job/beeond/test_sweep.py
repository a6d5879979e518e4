# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The sweep removes leftovers of dead jobs, but nothing of live jobs and nothing foreign."""

from __future__ import annotations

import time
from dataclasses import replace

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond import sweep

from .conftest import SETTINGS, Node

LATER = 7200.0


def swept(node: Node, runs: bool | None = False, later: float = LATER) -> tuple[list[str], list[str]]:
    """Return the dead jobs, and messages about jobs whose state is unknown."""
    found = sweep.find_leftovers(SETTINGS, node.root, node.run)
    live = sweep.live_here(node.root)
    gone, unsure = sweep.of_dead_jobs(found, live, lambda _job: runs, SETTINGS, time.time() + later)
    return [held.job for held in gone], unsure


def test_leftovers_of_a_dead_job_are_found_and_removed(node: Node) -> None:
    assert node.start().started
    assert swept(node) == (["17"], [])
    gone = [one.held for one in sweep.find_leftovers(SETTINGS, node.root, node.run)]
    assert sweep.clean(gone, node.machine) == []
    assert node.leftovers() == []
    assert swept(node) == ([], [])


def test_a_job_with_a_slurmstepd_is_live(node: Node) -> None:
    assert node.start().started
    node.stepd("17")
    assert swept(node) == ([], [])


def test_a_job_that_slurmctld_reports_as_running_is_live(node: Node) -> None:
    assert node.start().started
    assert swept(node, runs=True) == ([], [])


def test_a_job_is_not_dead_while_slurmctld_is_silent(node: Node) -> None:
    assert node.start().started
    gone, [unsure] = swept(node, runs=None)
    assert gone == []
    assert "job 17 has parts on this node, but slurmctld does not answer" in unsure


def test_a_job_that_may_still_be_starting_is_left_alone(node: Node) -> None:
    assert node.start().started
    assert swept(node, later=800) == ([], [])
    assert swept(node, later=1000) == (["17"], [])


def test_data_of_an_earlier_boot_is_dead_without_asking_slurmctld(node: Node) -> None:
    assert node.start().started
    node.run(["rm", "--", str(node.path("/run/hpcai/beeond"))])
    node.units.clear()
    node.run(["umount", "/beeond"])
    node.file("/proc/sys/kernel/random/boot_id", "boot-2")
    assert swept(node, runs=None, later=0) == (["17"], [])


def test_a_mount_without_a_job_is_found(node: Node) -> None:
    node.run(["mount", "-t", "beegfs", "beegfs_nodev", "/beeond", "-o", "nosuid,nodev"])
    assert swept(node, runs=None, later=0) == (["0"], [])
    sweep.clean([one.held for one in sweep.find_leftovers(SETTINGS, node.root, node.run)], node.machine)
    assert node.mounted == []


def test_a_unit_without_data_or_mount_is_found(node: Node) -> None:
    node.units["hpcai-beeond-storage@23.service"] = "active"
    node.units["beegfs-storage.service"] = "active"
    assert [one.held.job for one in sweep.find_leftovers(SETTINGS, node.root, node.run)] == ["23"]


def test_another_beegfs_and_foreign_folders_are_left_alone(node: Node) -> None:
    for path in ("/scratch/beeond/99/files", "/scratch/beeond/notes", "/scratch/beegfs/storage"):
        node.path(path).mkdir(parents=True)
    node.file("/scratch/beeond/98/.hpcai-beeond", '{"job": "97"}')
    node.file("/proc/self/mountinfo", "40 1 0:50 / /mnt/beegfs rw - beegfs beegfs_nodev rw\n")
    assert sweep.find_leftovers(SETTINGS, node.root, node.run) == []


def test_a_one_node_job_is_found_by_its_mount(node: Node) -> None:
    from .conftest import JOB

    assert node.start(replace(JOB, nodes=("gpu-0",))).started
    node.run(["rm", "--", str(node.path("/run/hpcai/beeond")), str(node.path("/scratch/beeond"))])
    assert [one.held.job for one in sweep.find_leftovers(SETTINGS, node.root, node.run)] == ["17"]
