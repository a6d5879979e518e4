# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Users kill, stop, name and group their processes while jobs start, run and end, mount file systems, and occupy ports.
No node may be drained."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from stand_ins import long_command_line

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
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(15, sys.argv[1].replace("_", "\\r").encode(), 0, 0, 0) == 0
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
"""Mounts a FUSE file system in a user namespace, and never answers the request of its own child. The argument is the
name of both processes, in which ``_`` becomes a carriage return."""

MOUNT_PROGRAM = "/opt/users_mount.py"
USERS_MOUNT = """\
import os, socket, subprocess, sys
ours, theirs = socket.socketpair()
os.environ["_FUSE_COMMFD"] = str(theirs.fileno())
subprocess.run(["fusermount3", "--", sys.argv[1]], pass_fds=[theirs.fileno()], check=True)
_sent, [server], _flags, _address = socket.recv_fds(ours, 1, 1)
while sys.argv[2:]:
    os.read(server, 1 << 20)
"""
"""Mounts a FUSE file system on a folder of its user, which all processes see. With a second argument it stays until the
connection is aborted, but answers no request; without one, the mount stays without a server."""

PORT_PROGRAM = "/opt/occupy_port.py"
OCCUPY_PORT = f"""\
import os, socket, struct, sys, time
server = socket.socket()
for second in range(70):
    try:
        server.bind(("", {PORT}))
        break
    except OSError:
        time.sleep(1)
if sys.argv[1:]:
    server.listen()
    client = socket.create_connection(("127.0.0.1", {PORT}))
    # With this option, the end of this process removes the connection.
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    server.accept()[0].close()
    server.close()
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
time.sleep(200)
"""
"""Binds the port without listening, so that /proc/net/tcp does not show it. With an argument, it closes a connection at
the port instead: no process owns that any more (FIN-WAIT-2). In TIME-WAIT it would occupy the port for 60 s, also after
the test, as connections of an earlier job can before it."""

LONG_PROGRAM = "/opt/long_command_line.py"
MEASURED = """\
import resource, subprocess, sys
subprocess.run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)
"""
"""Runs a command, and writes the largest memory of one of its processes in MiB after its output."""

BEEOND_JOB = "--constraint=beeond --nodes=1 --ntasks=1 --nodelist=compute-0 --mpi=none"


@pytest.fixture
def target(node: Callable[[str], Node], eventually: Eventually) -> Iterator[Node]:
    """A node, idle before and after."""
    one = node("0")
    eventually(lambda: one.state() == "idle", IDLE_S, one.state)
    yield one
    one.sh("pkill -KILL --uid alice", check=False)
    eventually(one.resumed, IDLE_S, one.state)


@pytest.fixture
def bobs_mount(target: Node, eventually: Eventually) -> Iterator[str]:
    """A FUSE file system of bob on the node, and the name of its service, which ends if the connection is aborted."""
    unit, place = "attack-mount", "/run/bobs_mount"
    target.write(MOUNT_PROGRAM, USERS_MOUNT.encode(), "0755")
    target.sh(
        f"install -d -o bob {place} && "
        f"systemd-run --quiet --collect --uid=bob --unit={unit} python3 {MOUNT_PROGRAM} {place} serve"
    )
    mounted = f"grep ' {place} fuse ' /proc/mounts"
    eventually(lambda: target.sh(mounted, check=False) != "", 30, lambda: target.sh(f"journalctl --unit={unit}"))
    yield unit
    target.sh(f"systemctl stop {unit}; umount --lazy {place}; rmdir {place}", check=False)


def test_a_process_that_hangs_on_its_own_fuse_server_is_released(
    alice: Any, target: Node, bobs_mount: str, eventually: Eventually
) -> None:
    """Before the defence, the node was drained with "Kill task failed" after UnkillableStepTimeout.

    Later, a process whose name looked like a line of /proc/PID/status counted as a process of bob. So bob's connection
    was aborted instead of alice's.
    """
    target.write(PROGRAM, SILENT_SERVER.encode(), "0755")
    name = f"_Uid:{target.sh('id --user bob').strip()}"
    number = alice.sbatch("--nodelist=compute-0 --ntasks=1 --time=5", f"python3 {PROGRAM} {name}")
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
    assert target.sh(f"systemctl is-active {bobs_mount}", check=False).strip() == "active"


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
    # While this service runs, it has a shared lock, and users cannot lock the folder.
    service = "hpcai-events.service"
    target.sh(f"systemctl stop {service}")
    number = ""
    try:
        number = alice.sbatch("--nodelist=compute-0 --ntasks=1 --time=5", "flock /usr/lib/hpcai/lib/. sleep 4712")
        held = "pgrep --uid alice --full '^sleep 4712'"
        eventually(lambda: target.sh(held, check=False) != "", 60, lambda: alice.job(number))
        target.sh("timeout 20 hpcnode --version")
        target.sh(f"timeout 20 systemctl start {service}")
    finally:
        # The epilog runs while a process of the user may still hold the lock.
        alice.run(f"scancel {number}")
        target.sh(f"systemctl start {service}")
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


def test_a_connection_or_a_socket_that_does_not_listen_drains_no_node(
    bob: Any, target: Node, node: Callable[[str], Node], eventually: Eventually
) -> None:
    """Before the defence, they counted as a service of the node, because /proc/net/tcp shows no user of them."""
    both = (target, node("3"))
    wanted = f"port {PORT}/tcp is in use, but no service listens on it"
    run = f"systemd-run --quiet --collect --property=Type=notify --uid=alice --unit=attack-port python3 {PORT_PROGRAM}"
    number = ""
    try:
        for one, argument in zip(both, ("", "closed"), strict=True):
            one.write(PORT_PROGRAM, OCCUPY_PORT.encode(), "0755")
            one.sh(f"{run} {argument}")
        number = bob.sbatch("--nodes=2 --mem=100 --constraint=beeond --time=2", "true")
        log = f"cat /var/log/hpcai/jobs/{number}.prolog.log"
        for one in both:
            eventually(lambda one=one: wanted in one.sh(log, check=False), 60, lambda one=one: one.sh(log, check=False))
        eventually(lambda: bob.job(number)["Restarts"] != "0", 60, lambda: bob.job(number))
    finally:
        bob.run(f"scancel {number}")
        for one in both:
            one.sh("systemctl stop attack-port", check=False)
        for one in both:
            eventually(lambda one=one: "drain" in one.state() or one.state() == "idle", IDLE_S, one.state)
        states = [one.state() for one in both]
        eventually(both[1].resumed, IDLE_S, both[1].state)
    assert states == ["idle", "idle"]


def test_a_users_mount_on_or_below_beeond_drains_no_node(alice: Any, target: Node, eventually: Eventually) -> None:
    """Before the defence, the epilog could not unmount a folder with a mount in it, and drained the node. It did not
    find a folder under another mount, so the prolog of the next job drained the node."""
    target.write(MOUNT_PROGRAM, USERS_MOUNT.encode(), "0755")
    show = "stat --format=%a:%U /beeond"

    def is_idle_again() -> bool:
        eventually(lambda: "drain" in target.state() or target.state() == "idle", IDLE_S, target.state)
        return target.state() == "idle"

    try:
        # Each job is the first one after the mount of the job before it.
        for place in ("/beeond/inside", "/beeond"):
            mount = f'mkdir -p {place} && python3 {MOUNT_PROGRAM} {place} && grep " {place} fuse " /proc/mounts'
            shown = alice.srun(BEEOND_JOB, f"sh -c '{show} && {mount}'").splitlines()
            assert (shown[0], len(shown)) == ("700:alice", 2)
            assert is_idle_again()
        assert alice.srun(BEEOND_JOB, show) == "700:alice"
        assert is_idle_again()
        assert target.sh("grep ' /beeond' /proc/mounts", check=False) == ""
    finally:
        target.sh("umount --lazy /beeond /beeond/inside /beeond", check=False)


def test_a_control_group_that_a_user_names_like_a_job_is_no_job(target: Node) -> None:
    """Before the defence, the health check reported a process that Slurm could not kill, which drains the node."""
    user, unit = target.sh("id --user alice").strip(), "attack-group"
    # Service managers have this tree in control groups of version 1.
    tree = target.sh("cd /sys/fs/cgroup/systemd 2>/dev/null || cd /sys/fs/cgroup; pwd").strip()
    manager = f"user-{user}.slice/user@{user}.service"
    path = f"slurm/uid_{user}/job_59999/step_0"
    group = f"{tree}/user.slice/{manager}/{path}"
    pid = f"systemctl show --property=MainPID --value {unit}"
    try:
        # Root makes the group and moves the process, as the user's service manager does.
        target.sh(
            f"systemd-run --quiet --collect --property=Type=exec --uid=alice --unit={unit} sleep 200 && "
            f"mkdir -p {group} && chown -R alice {tree}/user.slice/{manager}/slurm && {pid} >{group}/cgroup.procs"
        )
        assert f"{manager}/{path}\n" in target.sh(f"cat /proc/$({pid})/cgroup")
        # A process of an ended job is a fault if two runs find it.
        for _run in range(2):
            shown = json.loads(target.sh("hpcnode health run epilog --only leftovers --json", check=False))
            [result] = shown["checks"]
            assert result["verdict"] in ("pass", "warn"), result
            assert "59999" not in result["summary"]
    finally:
        target.sh(f"systemctl stop {unit}; cd {tree}/user.slice && rmdir --parents {manager}/{path}", check=False)


def test_an_endless_command_line_drains_no_node(alice: Any, bob: Any, target: Node, eventually: Eventually) -> None:
    """Before the defence, root read it completely, in the epilog of each other job too: the node was drained when the
    epilog's limit was over, and root's memory grew until the kernel killed other users' jobs."""
    target.write(LONG_PROGRAM, pathlib.Path(long_command_line.__file__).read_bytes(), "0755")
    number = alice.sbatch("--nodelist=compute-0 --ntasks=1 --mem=100 --time=5", f"python3 {LONG_PROGRAM} {1 << 36}")
    pids = "pgrep --uid alice --exact python3"
    length = f"for pid in $({pids}); do head --bytes=100000 /proc/$pid/cmdline | wc --bytes; done"
    try:
        eventually(lambda: target.sh(length, check=False).split() == ["100000"], 60, lambda: alice.job(number))
        bob.srun("--nodelist=compute-0 --ntasks=1 --mem=100 --mpi=none", "true")
        # This check reads the command lines of all processes.
        target.write("/opt/measured.py", MEASURED.encode(), "0755")
        shown = target.sh("timeout 60 python3 /opt/measured.py hpcnode health run deep --only cpu_stream --json")
        answer, _newline, peak_mib = shown.strip().rpartition("\n")
        [result] = json.loads(answer)["checks"]
        assert f"it would disturb job {number}" in result["summary"]
        assert int(peak_mib) < 200
        assert "drain" not in target.state()
    finally:
        alice.run(f"scancel {number}")
    eventually(lambda: "drain" in target.state() or target.state() == "idle", IDLE_S, target.state)
    assert target.state() == "idle"
