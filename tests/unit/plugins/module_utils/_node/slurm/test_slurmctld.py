# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeping slurmctld on its configuration, with the least disturbance."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import conf_changes, slurmctld

from .played import Machine, keep_time

CONF = "ClusterName=one\nSchedulerParameters=a\nMaxJobCount=10\nNodeName=compute-0 CPUs=2\nPartitionName=p Nodes=ALL\n"
OTHER_PARTITION = f"{CONF[:-1]} PriorityTier=2\n"
RESTART, RECONFIGURE = "systemctl restart slurmctld", "scontrol reconfigure"


@pytest.fixture
def machine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A controller whose slurmctld was never started."""
    made = Machine(tmp_path)
    keep_time(made, monkeypatch)
    made.write("/etc/slurm/slurm.conf", CONF)
    return made


def converge(machine: Machine) -> slurmctld.Plan:
    """One run of the module."""
    del machine.done[:]
    facts = slurmctld.read_facts(machine.root, machine.run)
    made = slurmctld.plan(facts)
    slurmctld.apply(made, facts, 5, machine.root, machine.run)
    return made


@pytest.fixture
def running(machine: Machine) -> Machine:
    """A controller that was converged."""
    converge(machine)
    machine.now += 1000
    return machine


def test_slurmctld_is_started_and_then_left_alone(machine: Machine) -> None:
    assert converge(machine).verbs == ("enable", "restart")
    pid = machine.pid
    assert converge(machine).verbs == ()
    assert (machine.done, machine.pid) == ([], pid)


def test_a_changed_partition_needs_only_a_reconfigure(running: Machine) -> None:
    running.write("/etc/slurm/slurm.conf", OTHER_PARTITION)
    made = converge(running)
    assert made.verbs == ("reconfigure",)
    (reason,) = made.reasons
    assert reason.startswith("slurm.conf PartitionName=p changed (slurm.conf(5)")
    assert running.done == [RECONFIGURE]
    assert converge(running).verbs == ()


def test_a_key_that_needs_a_restart_gets_one_and_no_reconfigure(running: Machine) -> None:
    running.write("/etc/slurm/slurm.conf", OTHER_PARTITION.replace("=a", "=b"))
    assert converge(running).verbs == ("restart",)
    assert running.done == [RESTART]
    assert converge(running).verbs == ()


def test_a_comment_changes_nothing_for_slurmctld(running: Machine) -> None:
    running.write("/etc/slurm/slurm.conf", f"# new\n{CONF}")
    assert converge(running).verbs == ()


def test_a_new_node_restarts_slurmctld_only_in_old_releases(running: Machine) -> None:
    running.write("/etc/slurm/slurm.conf", CONF.replace("compute-0", "compute-[0-1]"))
    made = slurmctld.plan(slurmctld.read_facts(running.root, running.run))
    assert made.verbs == ("restart",)
    assert "new nodes in slurm.conf: compute-1" in made.reasons[0]
    running.release = "25.11.2"
    assert slurmctld.plan(slurmctld.read_facts(running.root, running.run)).verbs == ("reconfigure",)


def test_an_interrupted_run_is_completed_by_the_next_one(running: Machine) -> None:
    running.write("/etc/slurm/slurm.conf", OTHER_PARTITION)
    # The next run does not write the file, because it is already correct.
    running.now += 1000
    assert converge(running).verbs == ("reconfigure",)


def test_a_restart_by_others_counts_for_the_files_that_existed_then(running: Machine) -> None:
    running.write("/etc/slurm/slurm.conf", CONF.replace("=10", "=20"))
    running.now += 10
    running.start()
    assert converge(running).verbs == ()
    running.write("/etc/slurm/slurm.conf", OTHER_PARTITION.replace("=10", "=20"))
    assert converge(running).verbs == ("reconfigure",)


def test_a_process_without_a_record_is_restarted(running: Machine) -> None:
    """slurmctld crashed between two changes, so that the record is of the process before."""
    running.write("/etc/slurm/slurm.conf", CONF.replace("=10", "=20"))
    running.now += 10
    running.start()
    running.now += 10
    running.write("/etc/slurm/slurm.conf", CONF.replace("=a", "=b"))
    made = converge(running)
    assert made.verbs == ("restart",)
    assert "there is no record" in made.reasons[0]


def test_a_slurmctld_that_a_reconfigure_ends_is_an_error_with_its_log(running: Machine) -> None:
    running.write("/etc/slurm/slurm.conf", OTHER_PARTITION)
    running.dies_of_reconfigure = True
    with pytest.raises(CommandFailed, match=r"stopped with its new configuration.* hostnames inconsistency detected"):
        converge(running)


def test_a_slurmctld_that_does_not_answer_is_an_error(machine: Machine) -> None:
    machine.on_start = lambda: setattr(machine, "active", "failed")
    with pytest.raises(CommandFailed, match="does not answer after 5 s: slurmctld is failed: fatal"):
        converge(machine)


def test_the_record_is_private_and_of_one_process(running: Machine) -> None:
    path = running.folder / "run/hpcai/slurmctld.taken.json"
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    record = json.loads(path.read_text(encoding="utf-8"))
    assert record["process"].startswith(f"{running.pid}@")
    path.write_text("{", encoding="utf-8")
    assert converge(running).verbs == ()


def test_jobs_that_would_be_lost_are_named(running: Machine) -> None:
    running.write("/etc/slurm/slurm.conf", CONF[: CONF.index("PartitionName")])
    running.jobs = ["11", "12"]
    made = slurmctld.plan(slurmctld.read_facts(running.root, running.run))
    assert slurmctld.jobs_at_stake(made.losing, running.run) == {"slurm.conf PartitionName=p was removed": ["11", "12"]}
    assert running.done[-1] == "squeue --noheader --format=%i --partition=p"
    running.jobs = []
    assert slurmctld.jobs_at_stake(made.losing, running.run) == {}


def test_running_jobs_of_removed_nodes_are_named(running: Machine) -> None:
    """For example after the max of an elastic set was lowered."""
    running.write("/etc/slurm/slurm.conf", CONF.replace("compute-0", "compute-1"))
    made = slurmctld.plan(slurmctld.read_facts(running.root, running.run))
    (losing,) = made.losing
    asked = []

    def run(words: Sequence[str], **_options: object) -> Result:
        asked.append(" ".join(words))
        return Result(tuple(words), 0, "17|alice|RUNNING|compute-0\n", "")

    assert slurmctld.jobs_at_stake([losing], run) == {losing.what: ["17"]}
    assert "--nodelist=compute-0" in asked[0]
    assert "PENDING" not in asked[0]


def test_nodes_get_file_digests_and_what_restarts_slurmd(running: Machine) -> None:
    digests = conf_changes.file_digests(running.root, slurmctld.FOLDER)
    handed_out = slurmctld.for_slurmd(slurmctld.read_facts(running.root, running.run), digests)
    assert handed_out["release"] == [22, 5]
    assert list(handed_out["files"]) == ["slurm.conf"]
    assert list(handed_out["part"]["hardware"]) == ["compute-0"]
