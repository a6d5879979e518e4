# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The munge key is rotated while a job runs on two nodes."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from testinfra.host import Host

from simulated.cluster import Cluster, Recap
from simulated.node import admin

KEY_FILE = "/etc/munge/munge.key"
PLAYBOOK = "playbooks/rotate_munge_key.yml"


@dataclass(frozen=True)
class Rotation:
    """A rotation of the key.

    :ivar keys: the old key and the new one.
    :ivar job: number of a job that runs on two nodes during the rotation.
    :ivar run: result of the playbook.
    """

    keys: tuple[str, str]
    job: str
    run: Recap


@pytest.fixture(scope="module")
def rotation(
    azure: Cluster, controller: Host, inventory_source: Path, alice: Any, eventually: Callable[..., float]
) -> Rotation:
    """Put a new secret into the vault, then run the playbook with its most verbose output."""
    old, new = controller.check_output(f"cat {KEY_FILE}").strip(), secrets.token_hex(64)
    waits = 'srun --mpi=none sh -c "trap : USR1; sleep 600 & wait; :"'
    job = alice.sbatch("--nodes=2 --ntasks-per-node=1 --time=10", waits)
    eventually(lambda: f"{job}.0" in controller.check_output("squeue --steps --noheader"), 30, lambda: alice.job(job))
    admin(azure, "put", "secrets/hpcai-sim/munge-key", {"value": new})
    return Rotation((old, new), job, azure.playbook(PLAYBOOK, inventory_source, "-vvv", "--diff"))


def test_all_machines_have_the_new_key(rotation: Rotation, controller: Host, computes: list[Host]) -> None:
    assert rotation.run.rc == 0, rotation.run.output
    for host in (controller, *computes):
        assert host.check_output(f"cat {KEY_FILE}") == rotation.keys[1]
        # munge has restarted with the new key.
        assert host.check_output("munge --no-input | unmunge --no-output && echo decoded") == "decoded"


def test_the_rotation_prints_no_key(rotation: Rotation) -> None:
    assert all(len(key) >= 32 for key in rotation.keys)
    for key in rotation.keys:
        assert key not in rotation.run.output


def test_the_job_keeps_running_and_receives_signals(
    rotation: Rotation, alice: Any, controller: Host, eventually: Callable[..., float]
) -> None:
    shown = alice.job(rotation.job)
    assert (shown["JobState"], shown["Restarts"], shown["NumNodes"]) == ("RUNNING", "0", "2")
    controller.check_output(f"scancel --signal=USR1 {rotation.job}")
    eventually(
        lambda: alice.job(rotation.job)["JobState"] == "COMPLETED", 60, lambda: alice.job(rotation.job)["JobState"]
    )


@pytest.mark.thorough
def test_an_interrupted_rotation_can_be_repeated(
    rotation: Rotation, azure: Cluster, controller: Host, inventory_source: Path, alice: Any
) -> None:
    """The interrupted run only stopped slurmctld. All machines have the vault's key, so the next run only starts it."""
    controller.check_output("systemctl stop slurmctld")
    run = azure.playbook(PLAYBOOK, inventory_source)
    assert run.rc == 0, run.output
    assert run.changed == 1, run.output
    assert "nothing was rotated" in " ".join(run.output.split())
    assert len(alice.srun("--mpi=none --nodes=2 --ntasks-per-node=1", "hostname").split()) == 2
