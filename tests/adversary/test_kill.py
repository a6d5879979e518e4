# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Users kill and stop their processes while jobs start, run and end, and occupy ports. No node may be drained."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from simulated.node import Node

Eventually = Callable[..., float]
IDLE_S = 150
"""Seconds until a job has ended: KillWait is 30 s, and no attack may last until UnkillableStepTimeout (600 s)."""
PORT = 9003
"""The port of BeeGFS' storage server, shifted by beeond_port_shift."""
ATTACKS = {
    "kills all of its processes": "kill -KILL -1",
    "stops all of its processes": "kill -STOP -1",
    "ignores SIGTERM": "trap '' TERM INT CONT HUP; while :; do sleep 1; done",
    "leaves a background process in its own session": "setsid sleep 4712 & exit 0",
    "kills its slurmstepd": "kill -KILL $PPID; pkill -KILL slurmstepd; sleep 4712",
    "closes its input and output": "exec >&- 2>&- <&-; sleep 4712",
}

DAILY = {"stops all of its processes", "kills its slurmstepd"}

PROGRAM = "/opt/silent_fuse_server.py"
SILENT_SERVER = """\
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
uid, gid = os.getuid(), os.getgid()
assert libc.unshare(0x10000000 | 0x00020000) == 0, os.strerror(ctypes.get_errno())
for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
    with open(f"/proc/self/{name}", "w") as file:
        file.write(text)
place = f"/tmp/fuse.{os.getpid()}"
os.mkdir(place)
server = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()
assert libc.mount(b"x", place.encode(), b"fuse", 0, options) == 0, os.strerror(ctypes.get_errno())
if os.fork() == 0:
    # The hanging child keeps a copy of the server's file open, so the connection survives the server.
    os.stat(f"{place}/file")
asked = os.read(server, 1 << 20)
unique = struct.unpack_from("<Q", asked, 8)[0]
os.write(server, struct.pack("<IiQ", 80, 0, unique) + struct.pack("<4I2H2I2H8I", 7, 31, 0, 0, 0, 0, 4096, 1, *[0] * 10))
os.read(server, 1 << 20)
os.waitpid(-1, 0)
"""
"""Mounts a FUSE file system in a user namespace, and never answers the request of its own child."""


@pytest.fixture
def target(node: Callable[[str], Node], eventually: Eventually) -> Iterator[Node]:
    """A node, idle before and after."""
    one = node("0")
    eventually(lambda: one.state() == "idle", IDLE_S, one.state)
    yield one
    one.sh("pkill -KILL --uid alice", check=False)
    eventually(one.resumed, IDLE_S, one.state)


def test_a_process_that_hangs_on_its_own_fuse_server_is_released(
    alice: Any, target: Node, eventually: Eventually
) -> None:
    """Before the defence, the node was drained with "Kill task failed" after UnkillableStepTimeout."""
    target.write(PROGRAM, SILENT_SERVER.encode(), "0755")
    number = alice.sbatch("--nodelist=compute-0 --ntasks=1 --time=5", f"python3 {PROGRAM}")
    hangs = f"pgrep --full '^python3 {PROGRAM}' | xargs --no-run-if-empty ps -o stat=,wchan:32= -p"
    # At first, a signal can still interrupt the wait of the process.
    eventually(lambda: "request_wait_answer" in target.sh(hangs, check=False), 60, lambda: target.sh(hangs, False))
    alice.run(f"scancel {number}")
    # As Slurm does after KillWait.
    target.sh("pkill -KILL --uid alice", check=False)
    eventually(lambda: target.sh(hangs, check=False).startswith("D"), 30, lambda: target.sh(hangs, check=False))
    # The health program calls this script every five minutes.
    free = "/etc/hpcai/health.d/10-unkillable"
    eventually(lambda: "aborted FUSE connection" in target.sh(free, check=False), 60, lambda: target.sh(hangs, False))
    eventually(lambda: target.sh(hangs, check=False) == "", 30, lambda: target.sh(hangs, check=False))
    eventually(lambda: target.state() == "idle", IDLE_S, target.state)


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(attack, id=name, marks=() if name in DAILY else pytest.mark.thorough)
        for name, attack in ATTACKS.items()
    ],
)
def test_killed_and_stopped_processes_drain_no_node(
    alice: Any, target: Node, eventually: Eventually, attack: str
) -> None:
    body = attack.replace("$", "\\$")
    script = f'srun --mpi=none --ntasks=1 sh -c "{body}" & sh -c "{body}"; wait'
    number = alice.check_output(
        "sbatch --parsable --output=/dev/null --nodelist=compute-0 --ntasks=1 --time=5 <<'END'\n#!/bin/sh\n"
        f"{script}\nEND"
    )
    eventually(lambda: alice.job(number)["JobState"] != "PENDING", 60, lambda: alice.job(number))
    target.sh("sleep 2")
    alice.run(f"scancel {number}")
    eventually(lambda: "drain" in target.state() or target.state() == "idle", IDLE_S, target.state)
    assert target.state() == "idle"


def test_a_job_that_is_cancelled_while_it_starts_drains_no_node(
    alice: Any, target: Node, eventually: Eventually
) -> None:
    numbers = [alice.sbatch("--nodelist=compute-0 --ntasks=1 --time=2", "true") for _job in range(6)]
    for number in numbers:
        alice.run(f"scancel {number}; scancel --signal=KILL {number}")
    eventually(lambda: target.state() == "idle", IDLE_S, target.state)


def test_a_user_who_locks_hpcnode_drains_no_node(alice: Any, target: Node, eventually: Eventually) -> None:
    """Before the defence, hpcnode waited for the lock, so each prolog, epilog and health check of the node hung."""
    number = alice.sbatch("--nodelist=compute-0 --ntasks=1 --time=5", "flock /usr/lib/hpcai/lib/. sleep 4712")
    held = "pgrep --uid alice --full '^sleep 4712'"
    eventually(lambda: target.sh(held, check=False) != "", 60, lambda: alice.job(number))
    try:
        target.sh("timeout 20 hpcnode --version")
    finally:
        # The epilog runs while a process of the user may still hold the lock.
        alice.run(f"scancel {number}")
    eventually(lambda: "drain" in target.state() or target.state() == "idle", IDLE_S, target.state)
    assert target.state() == "idle"


@pytest.mark.thorough
def test_a_user_who_occupies_a_port_of_beeond_drains_no_node(
    alice: Any, bob: Any, target: Node, eventually: Eventually
) -> None:
    """Before the defence, the prolog of the next job with a BeeGFS failed, and slurmctld drained the node."""
    hold = f'import socket, time; s = socket.socket(); s.bind(("", {PORT})); s.listen(); time.sleep(200)'
    target.write("/opt/hold.py", hold.encode(), "0755")
    # A job with a BeeGFS is exclusive, so the attacker is a process that outlived its job, or that came over ssh.
    target.sh("systemd-run --quiet --collect --uid=alice --unit=attack-port python3 /opt/hold.py")
    held = f"ss --no-header --listening --tcp --numeric 'sport = :{PORT}'"
    eventually(lambda: target.sh(held) != "", 60, lambda: target.sh(held))
    number = bob.sbatch("--nodes=2 --mem=100 --constraint=beeond --time=2", "true")
    try:
        eventually(lambda: bob.job(number)["Restarts"] != "0", IDLE_S, lambda: (bob.job(number), target.state()))
        comment = f"AdminComment=hpcai: {target.name}: port {PORT}/tcp is used by a process of user "
        assert comment in bob.check_output(f"scontrol show job {number}")
    finally:
        bob.run(f"scancel {number}")
        target.sh("systemctl stop attack-port", check=False)
    eventually(lambda: "drain" in target.state() or target.state() == "idle", IDLE_S, target.state)
    assert target.state() == "idle"
