# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Diagnostics, goodput and recovery on a cluster with real slurmctld and slurmdbd, in which nodes are killed.

The tests run in order: the ledger is computed for the window in which the others killed a node.
"""

from __future__ import annotations

import calendar
import json
import math
import re
import shlex
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from simulated.cluster import RESOURCE_GROUP, SCALE_SET, Cluster, Recap
from simulated.node import Node, wait_for
from simulated.own_cluster import own_cluster

NAME, PORT, NETWORK = "watch", 8482, "10.68.0.0/24"
CONTROLLER, VICTIM = "10.68.0.4", "3"
SECRETS = {
    "/var/log/slurm/planted.log": "password=PlantedInTheLog",
    "/etc/hpcai/planted.json": '{"schema": 1, "token": "PlantedInSettings"}',
}
# Nodes share no folder here, so the folder of the first node counts. A heartbeat shows when the work really ended.
TRAINING = """\
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --requeue --open-mode=append --output=watch-%j.log
#SBATCH --comment=hpcai:recover,hpcai:training=trial
mkdir -p trial
step=$(ls trial | sed 's/^step//' | sort -n | tail -1)
step=${step:-0}
echo "start $EPOCHREALTIME at step $step"
srun --overlap --ntasks=2 sleep 900 &
ranks=$!
while kill -0 $ranks 2>/dev/null; do
    for beat in 1 2 3 4 5; do sleep 0.2; echo "beat $EPOCHREALTIME"; done
    step=$((step + 1))
    if [ $((step % 10)) = 0 ]; then
        mkdir -p trial/step$step && touch trial/step$step/.complete
        at=$EPOCHREALTIME
        hpcnode train progress $step --saved && echo "saved $at step $step" && echo "noted $EPOCHREALTIME"
    fi
done
"""
HANGING = """\
#!/bin/bash
#SBATCH --requeue --open-mode=append --output=watch-%j.log --comment=hpcai:recover
srun --overlap hpcnode recover watch --limit 15 --start 60 --settle 1 &
for step in 1 2 3; do hpcnode train progress $step; sleep 1; done
srun --overlap python3 -c 'import time; time.sleep(900)'
"""
SLOW = """\
#!/bin/bash
#SBATCH --output=watch-%j.log --comment=mine
srun --overlap hpcnode recover watch --limit 15 --start 60 --settle 1 --end=finished-$SLURM_JOB_ID &
for step in 1 2 3 4; do hpcnode train progress $step; sleep 9; done
hpcnode recover suspect $SLURM_JOB_NODELIST
touch finished-$SLURM_JOB_ID
wait
"""
BUG = """\
#!/bin/bash
#SBATCH --requeue --open-mode=append --output=watch-%j.log --comment=hpcai:recover
exit 3
"""
VARIABLES = {
    "slurm_accounting": True,
    "health_checks_goodput": {"days": 1, "metrics": "/var/lib/hpcai/metrics"},
    "health_checks_recovery": {"interval_s": 5, "limits": {"first_wait_s": 5}},
    "health_checks_capture": {"on_fault": True, "keep": 2},
    "slurm_conf": {"SlurmdTimeout": 20},
}
NOTICED_S, AGAIN_S, ENDED_S = 180, 120, 120
"""Until slurmctld notices a dead node, until its job runs again, and until a short job has ended, in seconds."""

cluster, inventory = own_cluster(NAME, PORT, NETWORK)


@pytest.fixture(scope="module")
def site(cluster: Cluster, inventory: Path) -> Recap:
    """A run of site.yml with accounting, ledger and recovery, on three nodes: one is a spare for the training."""
    cluster.set_capacity(3)
    return cluster.site(inventory, "-e", json.dumps(VARIABLES))


def root(cluster: Cluster, command: str, check: bool = True) -> str:
    """Run a command on the controller as root."""
    return cluster.ssh(CONTROLLER, f"sudo sh -c {shlex.quote(command)}", check=check)


def submit(cluster: Cluster, script: str, *options: str) -> str:
    """Submit a job, and return its number."""
    name = f"/tmp/{abs(hash(script))}.sh"
    cluster.ssh(CONTROLLER, f"printf %s {shlex.quote(script)} > {name}")
    return cluster.ssh(CONTROLLER, f"sbatch --parsable {' '.join(options)} {name}").strip()


def job_of(cluster: Cluster, number: str) -> dict[str, str]:
    """The fields of a job."""
    shown = cluster.ssh(CONTROLLER, f"scontrol --oneliner show job {number}")
    return dict(word.split("=", 1) for word in shown.split() if "=" in word)


def decisions(cluster: Cluster, number: str) -> list[dict[str, Any]]:
    """The decisions about a job."""
    found = json.loads(root(cluster, "hpcnode recover status --json"))["decisions"]
    return [one for one in found if str(one["job"]) == number]


def journal(cluster: Cluster) -> str:
    """The recovery's journal."""
    return root(cluster, "journalctl -u hpcai-recovery --no-pager | tail -20", check=False)


def log_times(log: str, word: str) -> list[float]:
    """The times of the lines of a job's log that begin with a word."""
    return [float(line.split()[1]) for line in log.splitlines() if line.startswith(f"{word} ")]


@pytest.fixture(scope="module")
def killed(cluster: Cluster, site: Recap) -> dict[str, Any]:
    """A training on two nodes, one of which loses its power.

    ``noticed`` is the end of the first run in slurmdbd, and ``again`` the first line of the second run, in seconds
    since the epoch; ``log`` is the job's log on its first node.
    """
    assert site.rc == 0, site.output
    began = time.time()
    number = submit(cluster, TRAINING)
    first = Node.of(cluster, CONTROLLER, "0")
    path = f"/home/azureuser/watch-{number}.log"
    # Where users have no shared folders, the controller writes to a file of its own.
    cluster.ssh(CONTROLLER, f"touch {path}")
    wait_for(lambda: first.sh(f"cat {path}", check=False).count("saved ") >= 2, 120, lambda: job_of(cluster, number))
    died = time.time()
    power = cluster.sdk().virtual_machine_scale_set_vms
    power.begin_power_off(RESOURCE_GROUP, SCALE_SET, VICTIM, skip_shutdown=True).result()
    wait_for(lambda: job_of(cluster, number).get("Restarts") == "1", NOTICED_S, lambda: job_of(cluster, number))
    wait_for(
        lambda: first.sh(f"cat {path}").count("start ") == 2,
        AGAIN_S,
        lambda: (job_of(cluster, number), journal(cluster)),
    )
    ended = root(
        cluster, f"TZ=UTC sacct --duplicates --noheader --parsable2 --allocations --jobs={number} --format=End"
    )
    noticed = float(calendar.timegm(time.strptime(ended.split()[0], "%Y-%m-%dT%H:%M:%S")))
    log = first.sh(f"cat {path}")
    print("\ntraining:", {"died": died, "noticed": noticed, "starts": log_times(log, "start")})
    return {"job": number, "began": began, "noticed": noticed, "again": log_times(log, "start")[1], "log": log}


def test_a_second_run_changes_nothing(cluster: Cluster, inventory: Path, site: Recap) -> None:
    assert site.rc == 0, site.output
    again = cluster.site(inventory, "-e", json.dumps(VARIABLES))
    assert (again.rc, again.changed) == (0, 0), again.output


def test_a_training_of_a_dead_node_goes_on_in_a_minute(cluster: Cluster, killed: dict[str, Any]) -> None:
    job = job_of(cluster, killed["job"])
    assert job["NodeList"] == "compute-[0,17]"
    assert job["ExcNodeList"] == "compute-3"
    (mine,) = decisions(cluster, killed["job"])
    assert (mine["action"], mine["problem"], mine["leave_out"]) == ("requeue", "", ["compute-3"])
    assert "it advanced from step 0 to" in mine["reason"]
    assert 0 < killed["again"] - killed["noticed"] < 60
    # It continues from its last checkpoint.
    saved, started = (
        [line for line in killed["log"].splitlines() if line.startswith(f"{w} ")] for w in ("saved", "start")
    )
    before = [line for line in saved if float(line.split()[1]) < killed["again"]]
    assert started[1].split()[-1] == before[-1].split()[-1]
    assert mine["reason"] in cluster.ssh(CONTROLLER, f"cat watch-{killed['job']}.log")


def test_the_ledger_adds_up_and_counts_the_lost_seconds(cluster: Cluster, killed: dict[str, Any]) -> None:
    since, until = (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(killed[when])) for when in ("began", "again"))
    found = json.loads(root(cluster, f"hpcnode goodput --json --since {since} --until {until}"))
    total = sum(bucket["node_seconds"] for bucket in found["buckets"].values())
    # The 32 spare nodes do not count.
    assert found["nodes"] == 3
    assert total + found["absent_node_seconds"] == pytest.approx(found["nodes"] * found["seconds"], abs=1)
    (work,) = [one for one in found["work"] if one["name"] == "trial"]
    assert work["interruptions"] == 1
    # What the test counts: from the time in the job's note of its last save to the moment at which slurmctld ended the
    # run, of which Slurm cuts the fraction. The training's log bounds the time in the note.
    first_run = killed["log"].rpartition("start ")[0]
    words = f"JobId={killed['job']} due to failure of node"
    line = root(cluster, f"grep --max-count=1 {shlex.quote(words)} /var/log/slurm/slurmctld.log")
    moment, _point, fraction = line[1:24].partition(".")
    ended = calendar.timegm(time.strptime(moment, "%Y-%m-%dT%H:%M:%S")) + float(f"0.{fraction}")
    comment = root(cluster, f"squeue --noheader --jobs={killed['job']} --format=%k")
    note = re.search(r"hpcai:saved=0\.(\d+)\.(\d+)", comment)
    assert note, comment
    step, noted = note[1], int(note[2]) / 1000
    # The node may have died between its note and these two lines.
    logged = re.search(rf"^saved (\S+) at step {step}\nnoted (\S+)$", first_run, re.MULTILINE)
    assert logged is None or float(logged[1]) <= noted <= float(logged[2])
    own = math.floor(ended) - noted
    lost = found["buckets"]["lost"]["node_seconds"] / 2
    beat = log_times(first_run, "beat")[-1] - ended
    print("\nlost:", {"own": own, "ledger": lost, "last beat after": beat})
    # Both are whole seconds less the same time, and slurmctld may write its log in the second after it read the clock.
    assert lost == pytest.approx(own, abs=1.01)
    assert found["buckets"]["kept"]["node_seconds"] > 0
    assert found["buckets"]["down"]["node_seconds"] > 0
    assert found["reliability"]["all"]["failures"] >= 1


def test_a_hang_is_ended_and_the_job_starts_again(cluster: Cluster, killed: dict[str, Any]) -> None:
    node = Node.of(cluster, CONTROLLER, "17")
    node.write("/usr/local/bin/py-spy", (Path(sys.executable).parent / "py-spy").read_bytes(), "755")
    number = submit(cluster, HANGING, "--nodelist=compute-17")
    wait_for(lambda: bool(decisions(cluster, number)), ENDED_S, lambda: (job_of(cluster, number), journal(cluster)))
    assert decisions(cluster, number)[0]["action"] == "requeue"
    assert "the program made no progress and was ended" in decisions(cluster, number)[0]["reason"]
    log = node.sh(f"cat /home/azureuser/watch-{number}.log")
    assert "has not changed for" in log
    assert re.search(r"process \d+: Process \d+: \S*python3 -c import time; time.sleep\(900\)", log), log
    assert "<module> (<string>:1)" in log
    cluster.ssh(CONTROLLER, f"scancel {number}")


def test_a_users_bug_is_not_retried_forever(cluster: Cluster, killed: dict[str, Any]) -> None:
    number = submit(cluster, BUG)
    wait_for(
        lambda: [one["action"] for one in decisions(cluster, number)] == ["requeue", "hold"],
        ENDED_S,
        lambda: (job_of(cluster, number), journal(cluster)),
    )
    job = job_of(cluster, number)
    assert (job["JobState"], job["Priority"]) == ("PENDING", "0")
    assert "Held" in cluster.ssh(CONTROLLER, f"scontrol show job {number} | grep AdminComment")
    cluster.ssh(CONTROLLER, f"scontrol release {number} && scancel {number}")


def test_a_slow_step_is_no_hang_and_a_slow_node_is_checked_after_the_job(
    cluster: Cluster, killed: dict[str, Any]
) -> None:
    node = Node.of(cluster, CONTROLLER, "17")
    node.sh("rm -f /run/hpcai/health/deep.json")
    cluster.ssh(CONTROLLER, f"scancel {killed['job']}")
    number = submit(cluster, SLOW, "--nodelist=compute-17")
    wait_for(lambda: job_of(cluster, number)["JobState"] == "COMPLETED", ENDED_S, lambda: job_of(cluster, number))
    assert "has not changed for" not in node.sh(f"cat /home/azureuser/watch-{number}.log")
    wait_for(
        lambda: "deep" in node.sh("cat /run/hpcai/health/deep.json", check=False),
        ENDED_S,
        lambda: (journal(cluster), cluster.ssh(CONTROLLER, "squeue; sacct -n -X -a")),
    )
    (order,) = decisions(cluster, number)
    assert (order["action"], order["node"]) == ("check", "compute-17")
    # It was the only job on the node, so no check refused to run because of a job.
    assert "it would disturb" not in node.sh("cat /run/hpcai/health/deep.json")
    assert "drain" not in node.state()


def test_the_timer_writes_metrics(cluster: Cluster, killed: dict[str, Any]) -> None:
    root(cluster, "systemctl start hpcai-goodput.service")
    assert 'hpcai_goodput_node_seconds{bucket="idle"}' in root(cluster, "cat /var/lib/hpcai/metrics/hpcai_goodput.prom")


def test_the_ledger_survives_a_restart_of_slurmctld(cluster: Cluster, killed: dict[str, Any]) -> None:
    window = " ".join(
        f"--{name} {time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(when))}"
        for name, when in (("since", killed["began"]), ("until", killed["noticed"]))
    )
    before = json.loads(root(cluster, f"hpcnode goodput --json {window}"))
    root(cluster, "systemctl restart slurmctld")
    wait_for(lambda: "UP" in cluster.ssh(CONTROLLER, "scontrol ping", check=False), 60, lambda: "no slurmctld")
    after = json.loads(root(cluster, f"hpcnode goodput --json {window}"))
    assert after["buckets"] == before["buckets"]


def test_without_slurmdbd_there_is_an_error(cluster: Cluster, killed: dict[str, Any]) -> None:
    root(cluster, "systemctl stop slurmdbd")
    try:
        answer = json.loads(root(cluster, "hpcnode goodput --json; true"))
        assert answer["status"] == 1
        assert "slurmdbd" in answer["error"]
    finally:
        root(cluster, "systemctl start slurmdbd")


def test_diagnostics_contain_no_planted_secret(
    cluster: Cluster, inventory: Path, killed: dict[str, Any], tmp_path: Path
) -> None:
    for path, text in SECRETS.items():
        root(cluster, f"printf '%s\\n' {shlex.quote(text)} > {path}")
    root(cluster, "cat /etc/hpcai/planted.json >> /var/log/slurm/slurmctld.log")
    root(cluster, "ln -sf /etc/munge/munge.key /var/log/slurm/slurmdbd.log.link")
    run = cluster.playbook(
        "playbooks/diagnose.yml",
        inventory,
        "-e",
        f"hpcai_diagnose_folder={tmp_path}",
        "-e",
        "hpcai_diagnose=compute000000",
    )
    assert run.rc == 0, run.output
    (bundle,) = tmp_path.glob("hpcai-incident-*.tar.gz")
    with tarfile.open(bundle) as archive:
        names = archive.getnames()
        texts = [file.read() for file in map(archive.extractfile, archive.getmembers()) if file]
    assert any(name.endswith("/items/slurmctld_log.txt") for name in names), run.output
    munge_key = root(cluster, "base64 --wrap=0 /etc/munge/munge.key").strip()
    everything = b"\n".join(texts).decode("utf-8", "replace")
    assert "PlantedIn" not in everything
    assert munge_key[:40] not in everything


def test_a_node_collects_its_diagnostics_when_it_finds_a_fault(cluster: Cluster, killed: dict[str, Any]) -> None:
    node = Node.of(cluster, CONTROLLER, "0")
    settings = json.loads(node.sh("cat /etc/hpcai/node.json"))
    broken = json.loads(json.dumps(settings))
    for size in broken["vm_sizes"].values():
        size["hca_count"] = 2
    node.sh(f"printf %s {shlex.quote(json.dumps(broken))} > /etc/hpcai/node.json")
    try:
        node.sh("/usr/libexec/hpcai/health; systemctl start hpcai-health-report.service", check=False)
        wait_for(
            lambda: "hpcai-diag-" in node.sh("ls /var/lib/hpcai/diag", check=False),
            120,
            lambda: node.sh("journalctl -u hpcai-diag --no-pager | tail -20", check=False),
        )
    finally:
        node.sh(f"printf %s {shlex.quote(json.dumps(settings))} > /etc/hpcai/node.json")
        node.sh("/usr/libexec/hpcai/health", check=False)


def test_slurms_records_have_the_forms_of_the_unit_tests(cluster: Cluster, killed: dict[str, Any]) -> None:
    """To record them again for unit/plugins/module_utils/_node/ledger/forms, run this with -s."""
    since = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(killed["began"] - 600))
    runs = "JobIDRaw,State,Submit,Eligible,Start,End,ExitCode,NodeList,Partition,User,Comment"
    words = f"--allusers --duplicates --noheader --parsable2 --delimiter=@ --starttime={since} --format={runs}"
    shown = root(cluster, f"TZ=UTC sacct {words}")
    fields = "NodeName,Start,End,State,User,ClusterNodes,Reason"
    events = root(
        cluster, f"TZ=UTC sacctmgr --noheader --parsable2 --readonly show event start={since} format={fields}"
    )
    print(f"\n{shown}\n{events}")
    assert {line.count("@") for line in shown.splitlines()} == {10}
    moment = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
    form = re.compile(rf"([^|]*)\|{moment}\|({moment}|Unknown)\|[A-Z+*~$#!%@^-]*\|([a-z]+(\(\d+\))?)?\|[^|]*\|.*")
    assert all(form.fullmatch(line) for line in events.splitlines())
