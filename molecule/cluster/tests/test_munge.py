# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The munge key is rotated under a job that runs on two nodes."""

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
    """What was rotated.

    :ivar keys: the old key and the new one.
    :ivar job: number of a job that ran on two nodes all the while.
    :ivar run: what the playbook ended with.
    """

    keys: tuple[str, str]
    job: str
    run: Recap


@pytest.fixture(scope="module")
def rotation(
    azure: Cluster, controller: Host, inventory_source: Path, alice: Any, eventually: Callable[..., float]
) -> Rotation:
    """A rotation: a new secret in the vault, then the playbook, as talkative as can be."""
    old, new = controller.check_output(f"cat {KEY_FILE}").strip(), secrets.token_hex(64)
    job = alice.sbatch("--nodes=2 --ntasks-per-node=1 --time=10", 'srun --mpi=none sh -c "trap : USR1; sleep 600; :"')
    eventually(lambda: f"{job}.0" in controller.check_output("squeue --steps --noheader"), 30, lambda: alice.job(job))
    admin(azure, "put", "secrets/hpcai-sim/munge-key", {"value": new})
    return Rotation((old, new), job, azure.playbook(PLAYBOOK, inventory_source, "-vvv", "--diff"))


def test_all_machines_have_the_new_key(rotation: Rotation, controller: Host, computes: list[Host]) -> None:
    assert rotation.run.rc == 0, rotation.run.output
    for host in (controller, *computes):
        assert host.check_output(f"cat {KEY_FILE}") == rotation.keys[1]
        # munge restarted on it.
        assert host.check_output("munge --no-input | unmunge --no-output && echo decoded") == "decoded"


def test_no_key_is_in_what_the_rotation_prints(rotation: Rotation) -> None:
    assert all(len(key) >= 32 for key in rotation.keys)
    for key in rotation.keys:
        assert key not in rotation.run.output


def test_the_job_went_on_and_listens(
    rotation: Rotation, alice: Any, controller: Host, eventually: Callable[..., float]
) -> None:
    told = alice.job(rotation.job)
    assert (told["JobState"], told["Restarts"], told["NumNodes"]) == ("RUNNING", "0", "2")
    controller.check_output(f"scancel --signal=USR1 {rotation.job}")
    eventually(
        lambda: alice.job(rotation.job)["JobState"] == "COMPLETED", 60, lambda: alice.job(rotation.job)["JobState"]
    )


@pytest.mark.thorough
def test_a_rotation_that_was_cut_off_is_repeated(
    rotation: Rotation, azure: Cluster, controller: Host, inventory_source: Path, alice: Any
) -> None:
    """It stopped slurmctld and got no further. All machines have the vault's key, so that nothing else happens."""
    controller.check_output("systemctl stop slurmctld")
    run = azure.playbook(PLAYBOOK, inventory_source)
    assert run.rc == 0, run.output
    assert run.changed == 1, run.output
    assert "nothing was rotated" in " ".join(run.output.split())
    assert len(alice.srun("--mpi=none --nodes=2 --ntasks-per-node=1", "hostname").split()) == 2
