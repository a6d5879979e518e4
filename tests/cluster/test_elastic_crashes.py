# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An elastic set with a real slurmctld whose programs are killed, whose records are lost, and whose clock jumps.

Instances and requests are counted at the simulated Resource Manager.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator

import pytest

from . import test_elastic_faults
from .elastic_cluster import (
    JOIN_S,
    SUSPEND_S,
    ElasticCluster,
    elastic_machines,
    members,
    moment,
    state_of,
    submit,
    wait_for,
)
from .test_elastic_faults import CONTROLLER, IDLE_S, asked, leases, starts, status

# The fixtures of that file: a cluster like that one.
cluster, converged, settled = test_elastic_faults.cluster, test_elastic_faults.converged, test_elastic_faults.settled
JOURNAL = "journalctl --no-pager --quiet --unit=hpcai-elastic"
STATE = "/var/lib/hpcai/elastic/state.json"
HEARTBEAT = "/run/hpcai/elastic/heartbeat"
MOMENTS: dict[str, Callable[[ElasticCluster, str], bool]] = {
    "ordered": lambda cluster, job: 200 in asked(cluster, "PATCH"),
    "leased": lambda cluster, job: bool(leases(cluster)),
    # slurmctld has saved its state by then. A container has the uptime of its host, so slurmctld would not believe a
    # second time that it has booted for this job.
    "joined": lambda cluster, job: state_of(cluster, job) == "RUNNING" and has_joined(cluster),
    "leaving": lambda cluster, job: is_powering_down(cluster),
    "deleting": lambda cluster, job: bool(asked(cluster, "POST")),
}
"""The steps of a machine's life, by what shows them first."""
CLOCK = "/run/clock"
"""The file from which the daemon reads by how much its clock is wrong (libfaketime)."""


# Killed programs


@pytest.mark.parametrize("when", MOMENTS)
def test_a_kill_of_daemon_and_slurmctld_at_each_step_loses_nothing(cluster: ElasticCluster, when: str) -> None:
    job = submit(cluster, 60 if when == "joined" else 1, "--nodelist=gpu-0", "--requeue")
    seconds = JOIN_S + IDLE_S + SUSPEND_S
    wait_for(lambda: MOMENTS[when](cluster, job), seconds, cluster)
    cluster.run(
        "sudo systemctl kill --signal=KILL hpcai-elastic slurmctld; sleep 1; sudo systemctl restart slurmctld "
        "hpcai-elastic"
    )
    wait_for(lambda: "UP" in cluster.run("scontrol ping", check=False), 60, cluster)
    let_two_passes_end(cluster)
    # The order was neither lost nor repeated, and the machine has exactly one lease or is on its way out.
    assert asked(cluster, "PATCH") == [200]
    if when in ("ordered", "leased", "joined"):
        [machine] = elastic_machines(cluster)
        assert leases(cluster) == {"gpu-0": machine["vm_id"]}
    if when in ("ordered", "leased"):
        starts(cluster, job)
    elif when == "joined":
        # slurmctld may have died before it saved that the job runs. It then starts the job again, and drains the node
        # itself ("Duplicate jobid"). Then this node goes, and the job may wait for another one.
        assert state_of(cluster, job) in ("RUNNING", "COMPLETED", "PENDING", "CONFIGURING")
    else:
        wait_for(lambda: not members(cluster), JOIN_S, cluster)
        assert 1 <= len(asked(cluster, "POST")) <= 2
        assert state_of(cluster, job) in ("COMPLETED", "")


def has_joined(cluster: ElasticCluster) -> bool:
    """Whether the daemon has noticed that the machine is in use."""
    return [one["state"] for one in status(cluster)["sets"]["gpu"]["slots"] if one["slot"] == "gpu-0"] == ["joined"]


def is_powering_down(cluster: ElasticCluster) -> bool:
    """Whether Slurm powers the node down."""
    return cluster.run("sinfo --noheader --nodes=gpu-0 --format=%T").strip().endswith(("!", "%"))


def let_two_passes_end(cluster: ElasticCluster) -> None:
    """Wait for the end of two passes that begin from now on."""
    seen = {cluster.run(f"cat {HEARTBEAT}").strip()}

    def is_over() -> bool:
        seen.add(cluster.run(f"cat {HEARTBEAT}").strip())
        # The first new heartbeat may be of a pass that had begun before.
        return len(seen) > 3

    wait_for(is_over, 90, cluster)


def test_a_program_that_is_killed_costs_one_pass(cluster: ElasticCluster) -> None:
    program = "/usr/libexec/hpcai/elastic-resume"
    cluster.run(f"sudo cp --preserve {program} /root/elastic-resume")
    try:
        cluster.run(f"printf '#!/bin/sh\\nkill -9 $$\\n' | sudo tee {program} >/dev/null")
        job = submit(cluster, 10)
        submitted = moment(cluster, CONTROLLER, "date +%s")
        starts(cluster, job, JOIN_S + 20)
        ordered = moment(cluster, CONTROLLER, f"{JOURNAL} --output=short-unix --grep=orders --reverse")
        # The daemon finds what Slurm waits for in its next pass, after at most 15 s.
        assert ordered - submitted <= 20
        asks = cluster.run(f"sudo {JOURNAL} --since=@{submitted:.0f} --grep='Slurm asks'", check=False)
        assert "resume" not in asks
    finally:
        cluster.run(f"sudo cp --preserve /root/elastic-resume {program}")


def test_leases_whose_file_is_lost_are_restored_from_slurm(cluster: ElasticCluster) -> None:
    job = submit(cluster, 300, "--nodes=2")
    starts(cluster, job)
    # The daemon has noticed that both have joined.
    wait_for(lambda: len(leases(cluster)) == 2, 30, cluster)
    before, began = leases(cluster), moment(cluster, CONTROLLER, "date +%s")
    assert sorted(before.values()) == sorted(members(cluster))
    cluster.run(f"sudo systemctl stop hpcai-elastic; sudo rm {STATE}; sudo systemctl start hpcai-elastic")
    restored = f"{JOURNAL} --since=@{began:.0f} --grep='restored its lease'"
    wait_for(lambda: cluster.run(f"sudo {restored}", check=False).count("restored its lease") == 2, 60, cluster)
    time.sleep(30)
    assert (leases(cluster), state_of(cluster, job)) == (before, "RUNNING")
    assert sorted(before.values()) == sorted(members(cluster))
    assert not asked(cluster, "POST")


def test_an_older_state_of_slurmctld_converges(cluster: ElasticCluster) -> None:
    folder = cluster.run("scontrol show config | sed -n 's/^StateSaveLocation *= *//p'").strip()
    assert folder.startswith("/")
    cluster.run(
        f"sudo systemctl stop slurmctld; sudo rm -rf /root/older; sudo cp --archive {folder} /root/older; "
        "sudo systemctl start slurmctld"
    )
    wait_for(lambda: "UP" in cluster.run("scontrol ping", check=False), 60, cluster)
    job = submit(cluster, 300)
    starts(cluster, job)
    [machine] = members(cluster)
    cluster.run(
        f"sudo systemctl stop slurmctld; sudo sh -c 'rm -rf {folder}/*; cp --archive /root/older/. {folder}/'; "
        "sudo systemctl start slurmctld"
    )
    wait_for(lambda: "UP" in cluster.run("scontrol ping", check=False), 60, cluster)
    # slurmctld knows neither the job nor that the node was powered up.
    wait_for(lambda: machine not in members(cluster), 2 * JOIN_S, cluster)
    again = submit(cluster, 5)
    starts(cluster, again, 2 * SUSPEND_S + JOIN_S)


# Clocks


SLEEP = "/usr/lib/python3/dist-packages/faketime_sleep.pth"
BY_SELECT = (
    'import os, select, time; os.environ.get("FAKETIME_TIMESTAMP_FILE") and '
    'setattr(time, "sleep", lambda s, wait=select.select: (wait([], [], [], s), None)[1])'
)
"""With libfaketime, time.sleep of Python 3.11 (clock_nanosleep until an absolute time) fails with EINVAL."""


@pytest.fixture
def wrong(cluster: ElasticCluster) -> Iterator[Callable[[int], None]]:
    """A function that puts the daemon's wall clock forward or back, in seconds, while it runs.

    All containers of a machine have one clock, so the daemon gets libfaketime, which leaves the monotonic clock alone.
    """
    folder = "/etc/systemd/system/hpcai-elastic.service.d"
    cluster.run("sudo apt-get -q update && sudo apt-get install --yes --no-install-recommends libfaketime >/dev/null")
    library = cluster.run("dpkg --listfiles libfaketime | grep 'libfaketime[.]so[.]1$'").strip()
    settings = (
        f"LD_PRELOAD={library} FAKETIME_TIMESTAMP_FILE={CLOCK} FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1"
    )

    def put(seconds: int) -> None:
        cluster.run(f"echo {seconds:+d} | sudo tee {CLOCK} >/dev/null")

    put(0)
    cluster.run(
        f"sudo mkdir -p {folder}; printf '[Service]\\nEnvironment={settings}\\n' | sudo tee {folder}/clock.conf "
        f">/dev/null; echo {shlex.quote(BY_SELECT)} | sudo tee {SLEEP} >/dev/null; "
        "sudo systemctl daemon-reload; sudo systemctl restart hpcai-elastic"
    )
    yield put
    cluster.run(
        f"sudo rm -r {folder} {SLEEP}; sudo systemctl daemon-reload; sudo systemctl restart hpcai-elastic; "
        "sudo apt-get purge --yes libfaketime >/dev/null"
    )


# Less than 10 minutes, because the programs of slurmctld, whose clock is right, would find the daemon silent.
@pytest.mark.parametrize("seconds", [500, -500])
def test_a_clock_that_jumps_deletes_no_machine_of_a_job(
    cluster: ElasticCluster, wrong: Callable[[int], None], seconds: int
) -> None:
    job = submit(cluster, 120)
    starts(cluster, job)
    wait_for(lambda: len(leases(cluster)) == 1, 30, cluster)
    before, began = leases(cluster), moment(cluster, CONTROLLER, "date +%s")
    wrong(seconds)
    jumped = f"sudo {JOURNAL} --since=@{began:.0f} --grep='the clock was changed by'"
    wait_for(lambda: bool(cluster.run(jumped, check=False).strip()), 60, cluster)
    assert abs(int(cluster.run(f"cat {HEARTBEAT}")) - (began + seconds)) < 120
    waiting = submit(cluster, 1, "--exclusive")
    starts(cluster, waiting)
    assert (state_of(cluster, job), leases(cluster).items() >= before.items()) == ("RUNNING", True)
    assert not asked(cluster, "POST")
    # When the clock is right again, idle machines go as before.
    wrong(0)
    wait_for(lambda: not members(cluster), 120 + IDLE_S + 2 * JOIN_S, cluster)
    assert asked(cluster, "PATCH") == [200, 200]
