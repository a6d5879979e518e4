# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Users fill every file system that they can write to. No node may be drained for this, and jobs of others must run.

The tests fill only small file systems in memory, because the nodes' disks are those of the host.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from simulated.node import Node

Eventually = Callable[..., float]
SMALL = "/var/tmp/small"
SPOOL = "/var/lib/slurm/slurmd"
SETTINGS = "/etc/hpcai/beeond.json"
START_S, IDLE_S = 90, 120


@pytest.fixture
def target(node: Callable[[str], Node], eventually: Eventually) -> Iterator[Node]:
    """A node with small file systems at /tmp, /var/tmp and /var/tmp/small, idle before and after."""
    one = node("0")
    eventually(lambda: one.state() == "idle", IDLE_S, one.state)
    one.sh("mount -o remount,size=32m,nr_inodes=4000 /tmp")
    one.sh("mount -t tmpfs -o size=16m,nr_inodes=4000,mode=1777 small /var/tmp")
    one.sh(f"mkdir -m 1777 {SMALL} && mount -t tmpfs -o size=96m,nr_inodes=9000,mode=1777 small {SMALL}")
    one.sh(f"cp --preserve {SETTINGS} /root/beeond.json")
    try:
        yield one
    finally:
        one.sh(f"cp --preserve /root/beeond.json {SETTINGS}")
        one.sh("find /tmp /dev/shm -xdev -user alice -delete", check=False)
        one.sh(f"umount {SMALL}; umount /var/tmp; mount -o remount,size=50%,nr_inodes=1000000 /tmp", check=False)
        eventually(one.resumed, IDLE_S, one.state)


def fill(alice: Any, folder: str) -> str:
    """Use all space and all inodes of a file system in a job; both commands end when nothing is left.

    Returns the end of what they and srun wrote, for the errors of tests.
    """
    many = f"n=0; while [ $n -lt 10000 ] && : >{folder}/mine/$n; do n=$((n+1)); done"
    body = f"mkdir -p {folder}/mine; cat /dev/zero >{folder}/zero; {many}"
    done = alice.run(f"srun --mpi=none --time=2 --nodelist=compute-0 --ntasks=1 sh -c '{body}'")
    return f"srun ended with the status {done.rc}: {(done.stdout + done.stderr)[-1000:]}"


def test_full_file_systems_of_users_drain_no_node_and_stop_no_job(
    alice: Any, bob: Any, target: Node, eventually: Eventually
) -> None:
    for folder in ("/tmp", "/var/tmp", "/dev/shm"):
        wrote = fill(alice, folder)
        assert target.sh(f"df --output=avail {folder} | tail -n 1").strip() == "0", f"{folder}: {wrote}"
    report = json.loads(target.sh("hpcnode health run periodic --json", check=False))
    failed = [check["name"] for check in report["checks"] if check["verdict"] == "fail"]
    assert "free_space" not in failed
    assert "scratch" not in failed
    bob.srun("--nodelist=compute-0 --ntasks=1 --mpi=none", "true")
    number = bob.sbatch("--nodelist=compute-0 --ntasks=1 --time=2", "true")
    eventually(lambda: bob.job(number)["JobState"] == "COMPLETED", START_S, lambda: bob.job(number))
    eventually(lambda: target.state() == "idle", IDLE_S, target.state)


@pytest.mark.thorough
def test_a_job_that_grows_its_own_batch_script_drains_no_node(
    alice: Any, bob: Any, target: Node, eventually: Eventually
) -> None:
    """Before the defence, the next job had no space for its folder or script, and slurmctld drained the node."""
    kind = target.sh(f"findmnt --noheadings --output FSTYPE --mountpoint {SPOOL}", check=False).strip()
    assert kind == "ext4", "the spool is not a separate file system: the test would fill the host's disk"
    grow = 'exec sh -c \'chmod u+w "$0"; cat /dev/zero >>"$0"; exec sleep 100\' "$0"'
    number = alice.check_output(
        "sbatch --parsable --output=/dev/null --nodelist=compute-0 --ntasks=1 --mem=100 --time=3 <<'END'\n"
        f"#!/bin/sh\n{grow}\nEND"
    )
    left = f"df --output=avail {SPOOL} | tail -n 1"
    # ext4 may keep some KiB that no file of the user can get.
    eventually(lambda: int(target.sh(left)) < 64, START_S, lambda: target.sh(left))
    bob.srun("--nodelist=compute-0 --ntasks=1 --mem=100 --mpi=none", "true")
    other = bob.sbatch("--nodelist=compute-0 --ntasks=1 --mem=100 --time=2", "true")
    eventually(lambda: bob.job(other)["JobState"] == "COMPLETED", START_S, lambda: bob.job(other))
    alice.run(f"scancel {number}")
    eventually(lambda: "drain" in target.state() or target.state() == "idle", IDLE_S, target.state)
    assert target.state() == "idle"


def test_a_full_scratch_requeues_a_beeond_job_and_drains_no_node(
    alice: Any, bob: Any, target: Node, eventually: Eventually
) -> None:
    """Before the defence, a user could drain all nodes: fill their scratch, then submit jobs that request BeeOND."""
    settings = json.loads(target.sh(f"cat {SETTINGS}"))
    settings.update({"data_root": f"{SMALL}/beeond", "least_free_mib": 64})
    target.write(SETTINGS, json.dumps(settings).encode(), "0644")
    # As each boot does.
    target.sh(f"mkdir -m 0700 {SMALL}/beeond")
    fill(alice, SMALL)
    number = bob.sbatch("--nodelist=compute-0 --constraint=beeond --time=2", "true")
    try:
        eventually(lambda: bob.job(number)["Restarts"] == "1", START_S, lambda: bob.job(number))
        shown = bob.check_output(f"scontrol show job {number}")
        assert f"AdminComment=hpcai: compute-0: {SMALL} has 0 MiB free" in shown
        assert "drain" not in target.state()
        done = bob.run("srun --nodelist=compute-0 --constraint=beeond --time=2 --ntasks=1 --mpi=none true")
        assert done.rc != 0
        eventually(lambda: target.state() == "idle", IDLE_S, target.state)
    finally:
        bob.run(f"scancel {number}")


def test_full_container_folders_drain_no_node_when_a_new_user_starts(
    alice: Any, bob: Any, target: Node, eventually: Eventually
) -> None:
    """Before the defence, pyxis had no space for the new user's folder, and slurmctld drained the node."""
    runtime = json.loads(target.sh("cat /etc/hpcai/containers.json"))["pyxis_runtime_path"]
    bobs = f"{runtime}/{bob.check_output('id -u')}"
    target.sh(f"mount -t tmpfs -o size=8m,nr_inodes=500,mode=0755 small {runtime}")
    try:
        alice.srun("--nodelist=compute-0 --ntasks=1 --mpi=none", "true")
        fill(alice, f"{runtime}/$(id -u)")
        assert target.sh(f"df --output=iavail {runtime} | tail -n 1").strip() == "0"
        # The image does not exist: the job fails after pyxis has created or found the folder.
        number = bob.sbatch("--nodelist=compute-0 --time=2 --container-image=/nothing.sqsh", "true")
        eventually(lambda: bob.job(number)["JobState"] == "FAILED", START_S, lambda: (bob.job(number), target.state()))
        assert target.sh(f"stat -c %U {bobs}").strip() == "bob"
        eventually(lambda: target.state() == "idle", IDLE_S, target.state)
    finally:
        bob.run("scancel --me")
        target.sh(f"umount --lazy {runtime}", check=False)
