# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes that fall ill: who is drained, with which reason, and how they come back. Both nodes are idle again afterwards.

Slurm itself calls the checks every five minutes; here the program that it calls is called, so that no test waits for
that. GPUs and InfiniBand ports are stand-ins; a kernel's own log and real disks are tested on the emulated machine.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from testinfra.host import Host

from simulated.cluster import SPARE
from simulated.devices import Devices, check_only, expect_devices
from simulated.node import Node

Eventually = Callable[..., float]
DECIDED_S = 45
"""The arbiter of this scenario looks every two seconds; a node tells when systemd has seen its results."""
UNIT = "[Service]\\nExecStart=/bin/sleep infinity\\n"
OURS = "hpcai: health: "


@pytest.fixture
def both(node: Callable[[str], Node]) -> Iterator[list[Node]]:
    """Both nodes, good and in scheduling; whatever a test did to them is undone."""
    nodes = [node("0"), node("3")]
    for one in nodes:
        one.sh("cp /etc/hpcai/health.json /root/health.json && cp /etc/hpcai/node.json /root/node.json")
        check(one)
    yield nodes
    for one in nodes:
        one.sh("rm -f /usr/local/sbin/systemctl /run/systemd/system/played.service && systemctl daemon-reload")
        one.sh("cp /root/health.json /etc/hpcai/health.json && cp /root/node.json /etc/hpcai/node.json")
        check(one)
    for one in nodes:
        one.cluster.ssh(one.controller, "sudo systemctl stop hpcai-health-arbiter")
        one.cluster.ssh(one.controller, "sudo rm -f /var/lib/hpcai/health/arbiter.json")
        one.cluster.ssh(one.controller, "sudo systemctl start hpcai-health-arbiter")
        if "drain" in one.state():
            one.cluster.ssh(one.controller, f"sudo scontrol update nodename={one.name} state=resume")


@pytest.fixture
def escalating(controller: Host) -> Iterator[None]:
    """The arbiter restarts nodes that a drain does not help; by default it does not."""
    file = "/etc/hpcai/health_arbiter.json"
    controller.check_output(f'cp {file} /root/ && sed -i \'s/"escalate": false/"escalate": true/\' {file}')
    controller.check_output("systemctl restart hpcai-health-arbiter")
    yield
    controller.check_output(f"mv /root/health_arbiter.json {file} && systemctl restart hpcai-health-arbiter")


@pytest.fixture
def devices(both: list[Node], tmp_path: Path) -> Iterator[Devices]:
    """Stand-ins for devices of the first node, which is good again afterwards."""
    given = Devices(both[0], tmp_path)
    yield given
    given.take_away()


def boot_of(one: Node) -> str:
    """Which boot it is. A container has the kernel's own boot id of its host."""
    return one.sh("systemctl show --property=UserspaceTimestamp --value", check=False).strip()


def check(one: Node) -> None:
    """What Slurm has each node do every five minutes."""
    # A report's time has whole seconds, and one of the second of a drain is not from after it.
    time.sleep(1.1)
    one.sh("/usr/libexec/hpcai/health", check=False)


def played_service(one: Node) -> None:
    """The site needs a service on this node, and it runs."""
    one.sh(f"printf '{UNIT}' > /run/systemd/system/played.service && systemctl daemon-reload && systemctl start played")
    settings = dict(json.loads(one.sh("cat /etc/hpcai/health.json")))
    settings["options"] = {"services": {"needed": ["played"]}}
    one.sh(f"printf '%s' '{json.dumps(settings)}' > /etc/hpcai/health.json")


def start_job(alice: Any, one: Node, eventually: Eventually) -> str:
    """Start a job on that node which ends when it is told to; its number."""
    one.sh("rm -f /run/enough /var/tmp/begun")
    # To Slurm a job runs from the beginning of its prolog on.
    script = "touch /var/tmp/begun; until [ -e /run/enough ]; do sleep 1; done"
    job = alice.sbatch(f"--nodelist={one.name} --ntasks=1 --time=9", script)
    eventually(lambda: bool(one.sh("ls /var/tmp/begun", check=False)), 60, lambda: alice.job(job))
    return str(job)


def end_job(alice: Any, one: Node, job: str, eventually: Eventually) -> None:
    """Let that job end, which has run all the time, and see that it ends well."""
    assert alice.job(job)["JobState"] == "RUNNING"
    one.sh("touch /run/enough")
    eventually(lambda: alice.job(job)["JobState"] == "COMPLETED", 60, lambda: alice.job(job))


def reasons(controller: Host) -> dict[str, str]:
    """The reason of each node that is out, as sinfo -R shows it; without those that have no machine yet."""
    lines = controller.check_output("sinfo --list-reasons --noheader --format='%%N|%%E'").splitlines()
    found = {name.strip(): reason.strip() for name, _bar, reason in (line.partition("|") for line in lines)}
    return {name: reason for name, reason in found.items() if reason and not reason.startswith(SPARE)}


def status(controller: Host) -> dict[str, Any]:
    """What the arbiter says."""
    return dict(json.loads(controller.run("hpcnode arbiter status --json").stdout))


def test_good_nodes_report_and_stay_in(controller: Host, both: list[Node], eventually: Eventually) -> None:
    for one in both:
        shown = controller.check_output(f"scontrol --oneliner show node {one.name}")
        assert " Extra=hpcai-health/1;" in shown, one.sh("journalctl --no-pager -u hpcai-health-report | tail -20")
        assert ";f=" not in shown.partition(" Extra=")[2], one.sh("hpcnode health status", check=False)
    eventually(lambda: status(controller)["status"] == 0, DECIDED_S, lambda: status(controller))
    assert reasons(controller) == {}


@pytest.mark.thorough
def test_a_service_dies_the_node_drains_its_job_ends_well_and_it_returns(
    controller: Host, alice: Any, both: list[Node], eventually: Eventually
) -> None:
    ill, other = both
    played_service(ill)
    check(ill)
    assert reasons(controller) == {}
    job = start_job(alice, ill, eventually)
    ill.sh("systemctl stop played")
    check(ill)
    eventually(lambda: ill.name in reasons(controller), DECIDED_S, lambda: status(controller))
    assert reasons(controller)[ill.name] == f"{OURS}services: played is inactive, and the site needs it"
    assert other.state() == "idle"
    end_job(alice, ill, job, eventually)
    eventually(lambda: ill.state() == "drained", 30, ill.state)
    ill.sh("systemctl start played")
    check(ill)
    eventually(lambda: ill.state() == "idle", DECIDED_S, lambda: status(controller))
    assert reasons(controller) == {}


@pytest.mark.thorough
def test_a_tool_that_hangs_drains_nothing(controller: Host, both: list[Node]) -> None:
    for one in both:
        one.sh(
            "printf '#!/bin/sh\\nexec sleep 600\\n' > /usr/local/sbin/systemctl; chmod 0755 /usr/local/sbin/systemctl"
        )
        one.sh("PATH=/usr/local/sbin:/usr/sbin:/usr/bin hpcnode health run periodic", check=False)
        found = dict(json.loads(one.sh("cat /run/hpcai/health/periodic.json")))
        assert {check["name"]: check["verdict"] for check in found["checks"]}["services"] == "unknown"
    time.sleep(15)
    assert reasons(controller) == {}


@pytest.mark.thorough
def test_a_reason_of_an_operator_stays(controller: Host, both: list[Node], eventually: Eventually) -> None:
    ill = both[0]
    controller.check_output(f"scontrol update nodename={ill.name} state=drain reason='bad fan, ticket 4711'")
    expect_devices(ill, hca_count=2)
    check(ill)
    shown = f"scontrol --oneliner show node {ill.name}"
    eventually(
        lambda: "f=ib_ports:" in controller.check_output(shown), DECIDED_S, lambda: controller.check_output(shown)
    )
    time.sleep(6)
    assert reasons(controller)[ill.name] == "bad fan, ticket 4711"
    ill.sh("cp /root/node.json /etc/hpcai/node.json")
    check(ill)
    time.sleep(10)
    assert reasons(controller)[ill.name] == "bad fan, ticket 4711"


@pytest.mark.thorough
def test_where_all_nodes_fail_at_once_the_cap_holds_also_through_the_prolog(
    controller: Host, alice: Any, both: list[Node], eventually: Eventually
) -> None:
    """One node in ten may be out, rounded up: of two nodes it is one."""
    for one in both:
        expect_devices(one, hca_count=2)
    job = alice.sbatch("--nodes=2 --exclusive --time=5", "sleep 1")
    eventually(lambda: len(reasons(controller)) == 1, 90, lambda: (reasons(controller), status(controller)))
    [(out, reason)] = reasons(controller).items()
    assert reason.startswith(f"{OURS}ib_ports: 0 of 2 ")
    for one in both:
        check(one)
    time.sleep(15)
    assert list(reasons(controller)) == [out]
    told = status(controller)
    assert told["status"] == 1
    assert [alert["kind"] for alert in told["alerts"]][:1] == ["cap"]
    assert list(told["refused"]) == [one.name for one in both if one.name != out]
    alice.run(f"scancel {job}")
    for one in both:
        one.sh("cp /root/node.json /etc/hpcai/node.json")
    # A prolog that began before may still tell what it found, after a check that came between.
    eventually(lambda: all_checked(both, controller), 2 * DECIDED_S, lambda: status(controller))


def all_checked(nodes: list[Node], controller: Host) -> bool:
    """Whether no node is out any more, once each has checked itself again, as it does from time to time."""
    for one in nodes:
        check(one)
    return reasons(controller) == {}


def test_a_gpu_vanishes_the_job_ends_well_and_a_restart_through_slurm_mends_it(
    controller: Host, alice: Any, both: list[Node], devices: Devices, escalating: None, eventually: Eventually
) -> None:
    ill, other = both
    devices.put(gpus=2)
    check_only(ill, ["gpu_count"])
    check(ill)
    assert reasons(controller) == {}
    job, boot = start_job(alice, ill, eventually), boot_of(ill)
    devices.lose_gpu(1)
    check(ill)
    eventually(
        lambda: "gpu_count: 1 of 2 GPUs: " in reasons(controller).get(ill.name, ""),
        DECIDED_S,
        lambda: status(controller),
    )
    assert reasons(controller)[ill.name].startswith(OURS)
    assert other.state() == "idle"
    # A restart is what helps, and it waits for the job.
    eventually(
        lambda: f"{OURS}reboot: gpu_count: " in reasons(controller)[ill.name], DECIDED_S, lambda: reasons(controller)
    )
    assert boot_of(ill) == boot
    end_job(alice, ill, job, eventually)
    eventually(lambda: boot_of(ill) not in ("", boot), 120, lambda: "it did not restart")
    eventually(lambda: ill.slurmd() == "active", 120, ill.boot)
    found = json.loads(ill.sh("cat /run/hpcai/health/boot.json"))["checks"]
    assert [(one["verdict"], one["summary"]) for one in found if one["name"] == "gpu_count"] == [("pass", "2 GPUs")]
    # A container has been up for as long as its host, so slurmctld still waits for the boot that it asked for.
    controller.check_output(f"scontrol update nodename={ill.name} state=resume")
    check(ill)
    eventually(lambda: ill.state() == "idle" and not reasons(controller), 60, lambda: status(controller))


@pytest.mark.thorough
def test_a_link_flaps_the_job_ends_well_and_the_node_returns_when_it_is_steady(
    controller: Host, alice: Any, both: list[Node], devices: Devices, eventually: Eventually
) -> None:
    ill, other = both
    devices.put(hcas=1)
    check_only(ill, ["ib_flaps", "ib_ports"])
    check(ill)
    job = start_job(alice, ill, eventually)
    # As often as it may within a day.
    devices.flap(4)
    check(ill)
    time.sleep(6)
    assert reasons(controller) == {}
    devices.flap(1)
    check(ill)
    eventually(lambda: ill.name in reasons(controller), DECIDED_S, lambda: status(controller))
    assert reasons(controller)[ill.name] == f"{OURS}ib_flaps: mlx5_ib0 lost its link 5 times within 24 hours"
    assert other.state() == "idle"
    end_job(alice, ill, job, eventually)
    eventually(lambda: ill.state() == "drained", 30, ill.state)
    # As a boot leaves it, after the cable has been changed.
    ill.sh("rm -f /run/hpcai/health/history.json")
    check(ill)
    check(ill)
    eventually(lambda: ill.state() == "idle", DECIDED_S, lambda: status(controller))
