# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faulty nodes: which are drained, with which reason, and how they return. Afterwards, both nodes are idle.

Slurm calls the health checks every five minutes; the tests call the same program, so that they need not wait. GPUs and
InfiniBand ports are stand-ins; tests/hardware tests the kernel log and disks on the emulated machine.
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
"""Seconds until the arbiter has decided. It runs every two seconds here, and a node reports as soon as systemd notices
new results."""
UNIT = "[Service]\\nExecStart=/bin/sleep infinity\\n"
OURS = "hpcai: health: "


@pytest.fixture
def both(node: Callable[[str], Node]) -> Iterator[list[Node]]:
    """Both nodes, healthy and in scheduling. Afterwards, all changes of a test are undone."""
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
    """Let the arbiter restart nodes if a drain does not help, which is off by default."""
    file = "/etc/hpcai/health_arbiter.json"
    controller.check_output(f'cp {file} /root/ && sed -i \'s/"escalate": false/"escalate": true/\' {file}')
    controller.check_output("systemctl restart hpcai-health-arbiter")
    yield
    controller.check_output(f"mv /root/health_arbiter.json {file} && systemctl restart hpcai-health-arbiter")


@pytest.fixture
def devices(both: list[Node], tmp_path: Path) -> Iterator[Devices]:
    """Stand-ins for devices of the first node, removed afterwards."""
    given = Devices(both[0], tmp_path)
    yield given
    given.take_away()


def boot_of(one: Node) -> str:
    """The start time of the node's systemd, which identifies the boot. A container has the boot id of its host."""
    return one.sh("systemctl show --property=UserspaceTimestamp --value", check=False).strip()


def check(one: Node) -> None:
    """Run the health checks as Slurm does every five minutes."""
    # Reports have times in whole seconds, and one from the same second as a drain does not count as newer.
    time.sleep(1.1)
    one.sh("/usr/libexec/hpcai/health", check=False)


def start_needed_service(one: Node) -> None:
    """Start a service on the node, and configure that the site needs it."""
    one.sh(f"printf '{UNIT}' > /run/systemd/system/played.service && systemctl daemon-reload && systemctl start played")
    settings = dict(json.loads(one.sh("cat /etc/hpcai/health.json")))
    settings["options"] = {"services": {"needed": ["played"]}}
    one.sh(f"printf '%s' '{json.dumps(settings)}' > /etc/hpcai/health.json")


def start_job(alice: Any, one: Node, eventually: Eventually) -> str:
    """Start a job on the node that runs until end_job, and return its number."""
    one.sh("rm -f /run/enough /var/tmp/begun")
    # Slurm reports a job as running as soon as its prolog starts.
    script = "touch /var/tmp/begun; until [ -e /run/enough ]; do sleep 1; done"
    job = alice.sbatch(f"--nodelist={one.name} --ntasks=1 --time=9", script)
    eventually(lambda: bool(one.sh("ls /var/tmp/begun", check=False)), 60, lambda: alice.job(job))
    return str(job)


def end_job(alice: Any, one: Node, job: str, eventually: Eventually) -> None:
    """End the job, which must still be running, and check that it completes."""
    assert alice.job(job)["JobState"] == "RUNNING"
    one.sh("touch /run/enough")
    eventually(lambda: alice.job(job)["JobState"] == "COMPLETED", 60, lambda: alice.job(job))


def reasons(controller: Host) -> dict[str, str]:
    """The reason of each drained or down node, as sinfo -R shows it, without spares."""
    lines = controller.check_output("sinfo --list-reasons --noheader --format='%%N|%%E'").splitlines()
    found = {name.strip(): reason.strip() for name, _bar, reason in (line.partition("|") for line in lines)}
    return {name: reason for name, reason in found.items() if reason and not reason.startswith(SPARE)}


def status(controller: Host) -> dict[str, Any]:
    """The arbiter's status."""
    return dict(json.loads(controller.run("hpcnode arbiter status --json").stdout))


def test_healthy_nodes_report_and_stay_in_scheduling(
    controller: Host, both: list[Node], eventually: Eventually
) -> None:
    for one in both:
        shown = controller.check_output(f"scontrol --oneliner show node {one.name}")
        assert " Extra=hpcai-health/1;" in shown, one.sh("journalctl --no-pager -u hpcai-health-report | tail -20")
        assert ";f=" not in shown.partition(" Extra=")[2], one.sh("hpcnode health status", check=False)
    eventually(lambda: status(controller)["status"] == 0, DECIDED_S, lambda: status(controller))
    assert reasons(controller) == {}


@pytest.mark.thorough
def test_a_stopped_service_drains_the_node_until_it_runs_again(
    controller: Host, alice: Any, both: list[Node], eventually: Eventually
) -> None:
    faulty, other = both
    start_needed_service(faulty)
    check(faulty)
    assert reasons(controller) == {}
    job = start_job(alice, faulty, eventually)
    faulty.sh("systemctl stop played")
    check(faulty)
    eventually(lambda: faulty.name in reasons(controller), DECIDED_S, lambda: status(controller))
    assert reasons(controller)[faulty.name] == f"{OURS}services: played is inactive, but the site needs it"
    assert other.state() == "idle"
    end_job(alice, faulty, job, eventually)
    eventually(lambda: faulty.state() == "drained", 30, faulty.state)
    faulty.sh("systemctl start played")
    check(faulty)
    eventually(lambda: faulty.state() == "idle", DECIDED_S, lambda: status(controller))
    assert reasons(controller) == {}


@pytest.mark.thorough
def test_a_hanging_tool_drains_no_node(controller: Host, both: list[Node]) -> None:
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
def test_an_operators_drain_reason_is_kept(controller: Host, both: list[Node], eventually: Eventually) -> None:
    faulty = both[0]
    controller.check_output(f"scontrol update nodename={faulty.name} state=drain reason='bad fan, ticket 4711'")
    expect_devices(faulty, hca_count=2)
    check(faulty)
    shown = f"scontrol --oneliner show node {faulty.name}"
    eventually(
        lambda: "f=ib_ports:" in controller.check_output(shown), DECIDED_S, lambda: controller.check_output(shown)
    )
    time.sleep(6)
    assert reasons(controller)[faulty.name] == "bad fan, ticket 4711"
    faulty.sh("cp /root/node.json /etc/hpcai/node.json")
    check(faulty)
    time.sleep(10)
    assert reasons(controller)[faulty.name] == "bad fan, ticket 4711"


@pytest.mark.thorough
def test_if_all_nodes_fail_checks_and_prologs_respect_the_drain_limit(
    controller: Host, alice: Any, both: list[Node], eventually: Eventually
) -> None:
    """At most 10 % of the nodes may be drained, rounded up: one of two nodes."""
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
    report = status(controller)
    assert report["status"] == 1
    assert [alert["kind"] for alert in report["alerts"]][:1] == ["cap"]
    assert list(report["refused"]) == [one.name for one in both if one.name != out]
    alice.run(f"scancel {job}")
    for one in both:
        one.sh("cp /root/node.json /etc/hpcai/node.json")
    # A prolog that started earlier may report its old result after a newer check.
    eventually(lambda: all_back_after_checks(both, controller), 2 * DECIDED_S, lambda: status(controller))


def all_back_after_checks(nodes: list[Node], controller: Host) -> bool:
    """Run the health checks on each node, and return whether all nodes are back in scheduling."""
    for one in nodes:
        check(one)
    return reasons(controller) == {}


def test_a_lost_gpu_drains_the_node_until_slurm_has_rebooted_it(
    controller: Host, alice: Any, both: list[Node], devices: Devices, escalating: None, eventually: Eventually
) -> None:
    faulty, other = both
    devices.put(gpus=2)
    check_only(faulty, ["gpu_count"])
    check(faulty)
    assert reasons(controller) == {}
    job, boot = start_job(alice, faulty, eventually), boot_of(faulty)
    devices.lose_gpu(1)
    check(faulty)
    eventually(
        lambda: "gpu_count: 1 of 2 GPUs: " in reasons(controller).get(faulty.name, ""),
        DECIDED_S,
        lambda: status(controller),
    )
    assert reasons(controller)[faulty.name].startswith(OURS)
    assert other.state() == "idle"
    # The arbiter asks for a reboot, which waits for the end of the job.
    eventually(
        lambda: f"{OURS}reboot: gpu_count: " in reasons(controller)[faulty.name], DECIDED_S, lambda: reasons(controller)
    )
    assert boot_of(faulty) == boot
    end_job(alice, faulty, job, eventually)
    eventually(lambda: boot_of(faulty) not in ("", boot), 120, lambda: "it did not restart")
    eventually(lambda: faulty.slurmd() == "active", 120, faulty.boot)
    found = json.loads(faulty.sh("cat /run/hpcai/health/boot.json"))["checks"]
    assert [(one["verdict"], one["summary"]) for one in found if one["name"] == "gpu_count"] == [("pass", "2 GPUs")]
    # The uptime of a container is that of its host, so slurmctld still waits for the reboot that it asked for.
    controller.check_output(f"scontrol update nodename={faulty.name} state=resume")
    check(faulty)
    eventually(lambda: faulty.state() == "idle" and not reasons(controller), 60, lambda: status(controller))


@pytest.mark.thorough
def test_a_flapping_link_drains_the_node_until_it_is_stable(
    controller: Host, alice: Any, both: list[Node], devices: Devices, eventually: Eventually
) -> None:
    faulty, other = both
    devices.put(hcas=1)
    check_only(faulty, ["ib_flaps", "ib_ports"])
    check(faulty)
    job = start_job(alice, faulty, eventually)
    # As often as the limit for 24 hours allows.
    devices.flap(4)
    check(faulty)
    time.sleep(6)
    assert reasons(controller) == {}
    devices.flap(1)
    check(faulty)
    eventually(lambda: faulty.name in reasons(controller), DECIDED_S, lambda: status(controller))
    assert reasons(controller)[faulty.name] == f"{OURS}ib_flaps: mlx5_ib0 lost its link 5 times within 24 hours"
    assert other.state() == "idle"
    end_job(alice, faulty, job, eventually)
    eventually(lambda: faulty.state() == "drained", 30, faulty.state)
    # The state after a boot, with a new cable.
    faulty.sh("rm -f /run/hpcai/health/history.json")
    check(faulty)
    check(faulty)
    eventually(lambda: faulty.state() == "idle", DECIDED_S, lambda: status(controller))
