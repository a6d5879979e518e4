# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Text that users choose, such as a job's name, is never parsed as a fact, and cannot select another user's job."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from testinfra.host import Host

Eventually = Callable[..., float]
START_S, STOP_S = 120, 180
"""Seconds for prologs that wait for other nodes, and for epilogs, on a busy machine."""
FAULTS = "/etc/beegfs/stand-in-faults"
SCRIPT = "/etc/hpcai/prolog.d/05-adversary"
RESERVATION = "x=1 --State=DRAIN"
HOSTILE = [
    "x JobState=CONFIGURING ArrayJobId=10 ArrayTaskId=7",
    "x\nJobId=1 JobState=COMPLETED Restarts=0 BatchFlag=0\n",
    "1|RUNNING|0|0|0|1|7|",
    "--State=DRAIN --nodelist=ALL",
    "quotes \" ' and, commas = $(id) `id` ; |",
]
# Queries slurmctld for each given job number as a prolog does, with the code of this node.
RECORDS = """
import json, sys
sys.path.insert(0, "/usr/lib/hpcai/lib")
from hpcai_node.job.beeond.job import Job
from hpcai_node.job.requeue import Controller, ask
from hpcai_node.machine.root import Root
from hpcai_node.machine.run import run
from hpcai_node.slurm import slurmd_env
controller = Controller(slurmd_env.read(Root()).controllers, run)
found = [ask(Job(number, 0, 0, (), ""), controller) for number in sys.argv[1:]]
print(json.dumps([(one.state, one.restarts, one.is_batch, one.may_requeue, one.name) for one in found]))
"""


@pytest.fixture(autouse=True)
def clean_up(alice: Any, bob: Any, controller: Host, computes: list[Host], eventually: Eventually) -> Iterator[None]:
    """After each test, no job is left and both nodes are idle."""
    yield
    for host in computes:
        host.run("rm -f %s %s", FAULTS, SCRIPT)

    def is_clean() -> bool:
        # Again each time: slurmctld requeues a job whose prolog failed, also while it is cancelled, and refuses to
        # delete the reservation of a job that has not ended.
        for user in (alice, bob):
            user.run(f"scancel --user={user.name}")
        controller.run("scontrol delete ReservationName=%s", RESERVATION)
        return all_idle(controller, len(computes))

    eventually(is_clean, STOP_S, lambda: states(controller))


def states(controller: Host) -> dict[str, tuple[str, str]]:
    """State and drain reason of each node that has a machine."""
    shown = controller.check_output("sinfo --noheader --Node --Format='NodeList:|,StateLong:|,Reason:|'")
    lines = [line.split("|") for line in shown.splitlines()]
    return {name: (state, reason) for name, state, reason, *_rest in lines if "no such instance" not in reason}


def all_idle(controller: Host, count: int) -> bool:
    """Resume nodes that a prolog drained, as an operator does, and return whether all nodes are idle."""
    now = states(controller)
    for name, (state, reason) in now.items():
        if reason.startswith("hpcai: prolog") and state in ("drained", "idle*"):
            controller.run("scontrol update NodeName=%s State=RESUME", name)
    return [state for state, _reason in now.values()].count("idle") == count


def state_of(user: Any, number: str) -> str:
    """A job's state, from a query for this one field."""
    return str(user.run(f"squeue --noheader --states=all --jobs={number} --Format=State").stdout).strip()


@pytest.mark.thorough
def test_a_job_name_cannot_cancel_another_users_task(
    alice: Any, bob: Any, computes: list[Host], controller: Host, eventually: Eventually
) -> None:
    """When a job's BeeGFS failed, the prolog cancelled, as root, the task that the text in the job's name selected."""
    task = bob.sbatch("--begin=now+1hour --array=7", "true")
    computes[1].check_output("echo storage half-start > %s", FAULTS)
    name = f"x ArrayJobId={task} ArrayTaskId=7 BatchFlag=0"
    number = alice.sbatch(f"--constraint=beeond --time=5 --nodes=2 --job-name={shlex.quote(name)}", "true")
    asked = f"squeue --noheader --states=all --jobs={number} --Format=State:' ',RestartCnt:' '"
    eventually(
        lambda: controller.run(asked).stdout.split() == ["PENDING", "1"], START_S, lambda: controller.run(asked).stdout
    )
    assert state_of(bob, task) == "PENDING"


def test_fields_in_a_job_name_do_not_change_the_jobs_record(alice: Any, computes: list[Host]) -> None:
    """``scontrol show job`` prints the name first, so fields in the name were parsed instead of the real ones."""
    numbers = []
    for text in HOSTILE:
        given = f"--job-name={shlex.quote(text)} --comment={shlex.quote(text)} --hold"
        command = f"sbatch --parsable --output=/dev/null {given} --wrap true"
        numbers.append(alice.check_output(command).partition(";")[0])
    shown = json.loads(computes[0].check_output("/usr/bin/python3 -I -c %s " + " ".join(numbers), RECORDS))
    assert shown == [["PENDING", 0, True, True, number] for number in numbers]


def test_a_failed_prolog_drains_only_its_node_despite_hostile_texts(
    alice: Any, computes: list[Host], controller: Host, eventually: Eventually
) -> None:
    """A failed prolog and its report parse output with the job's name, its comment, its reservation, and the comment
    of the node."""
    one = computes[0]
    name = one.check_output(". /etc/hpcai/slurmd.env; set -- $SLURMD_OPTIONS; echo $2")
    others = {node: state for node, (state, _reason) in states(controller).items() if node != name}
    before = controller.check_output("sinfo --noheader --Node --nodes=%s --Format=Comment:' '", name).strip()
    # No line break: one in an operator's comment hides the node's report from the arbiter, which reports that.
    text = "x State=IDLE Reason=fine NodeName=none State=IDLE"
    controller.check_output("scontrol update NodeName=%s Comment=%s", name, text)
    options = f"Nodes={name} Users=alice StartTime=now Duration=10 Flags=IGNORE_JOBS"
    controller.check_output(f"scontrol create reservation ReservationName=%s {options}", RESERVATION)
    try:
        one.check_output("printf '#!/bin/sh\\necho broken >&2\\nexit 1\\n' > %s && chmod 755 %s", SCRIPT, SCRIPT)
        given = " ".join(f"--{key}={shlex.quote(HOSTILE[1])}" for key in ("job-name", "comment"))
        given += f" --reservation={shlex.quote(RESERVATION)}"
        alice.check_output(f"sbatch --parsable --output=/dev/null --time=2 {given} --wrap true")
        wanted = "hpcai: prolog: 05-adversary"
        eventually(lambda: states(controller)[name][1].startswith(wanted), START_S, lambda: states(controller))
        now = {node: state for node, (state, _reason) in states(controller).items() if node != name}
        assert now == others
    finally:
        controller.run("scontrol update NodeName=%s Comment=%s", name, "" if before == "(null)" else before)
