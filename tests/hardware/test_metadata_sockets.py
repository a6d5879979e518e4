# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A user inherits sockets that root opened, and tries to connect them to the metadata service.

With ``srun --mpi=pmix``, slurmstepd's plugin mpi/pmix leaves a listening socket open in each task. Here root passes
several kinds of sockets to a user's process. A program on the machine itself answers at the two addresses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from hardware.slurm import OneNode
from hardware.vm import Machine

pytestmark = pytest.mark.thorough

METADATA, HOST = "169.254.169.254", "168.63.129.16"
SERVICE = f"""\
import contextlib
import socket
import threading


def serve(place):
    server = socket.create_server(place)
    while True:
        connection, _peer = server.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(10)
            connection.sendall(b"token")


for place in (("{METADATA}", 80), ("{HOST}", 80), ("{HOST}", 32526), ("{HOST}", 53)):
    threading.Thread(target=serve, args=(place,)).start()
"""
ATTACK = """\
import ctypes
import json
import os
import socket
import struct

libc = ctypes.CDLL(None, use_errno=True)
server = socket.create_server(("127.0.0.1", 0))
connected = socket.create_connection(server.getsockname())
accepted, _peer = server.accept()
sockets = {
    "own": None,
    "connected": connected,
    "accepted": accepted,
    "listening": socket.create_server(("127.0.0.1", 0)),
    "IPv6": socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True),
    "fast open": socket.create_server(("127.0.0.1", 0)),
    "user namespace": socket.create_server(("127.0.0.1", 0)),
}


def ask(name, given, address, port):
    used = given or socket.socket()
    if given and libc.connect(given.fileno(), struct.pack("H14x", socket.AF_UNSPEC), 16):
        return "cannot be disconnected"
    # A timeout makes Python use a non-blocking socket, which does not support fast open.
    used.settimeout(None if name == "fast open" else 5)
    place = ("::ffff:" + address if name == "IPv6" else address, port)
    try:
        if name == "fast open":
            used.sendto(b"ask", socket.MSG_FASTOPEN, place)
        else:
            used.connect(place)
            used.sendall(b"ask")
        return used.recv(10).decode() or "closed"
    except OSError as error:
        return error.strerror or str(error)


if os.fork() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    # Makes the process dumpable, so that it owns its files below /proc again.
    libc.prctl(4, 1, 0, 0, 0)
    found = {}
    for name, given in sockets.items():
        if name == "user namespace":
            assert libc.unshare(0x10000000) == 0
            with open("/proc/self/uid_map", "w") as file:
                file.write("0 65534 1")
            assert os.getuid() == 0
        for place in PLACES:
            found[f"{name} {place}"] = ask(name, given, place.split(":")[0], int(place.split(":")[1]))
    print(json.dumps(found), flush=True)
    raise SystemExit
raise SystemExit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
BLOCKED = [f"{METADATA}:80", f"{HOST}:80", f"{HOST}:32526"]
OPEN = [f"{HOST}:53"]


def attack(machine: Machine) -> dict[str, str]:
    """The answer or the error that the user got, by socket and address."""
    found: dict[str, str] = json.loads(machine.run("python3 /opt/attack.py"))
    return found


def verdict(machine: Machine) -> str:
    """The verdict of the health check metadata_service."""
    machine.succeeds("hpcnode health run periodic --only metadata_service --json > /run/metadata_service.json")
    (check,) = json.loads(machine.run("cat /run/metadata_service.json"))["checks"]
    return str(check["verdict"])


@pytest.fixture(scope="module")
def machine_with_service(one_node: OneNode) -> Iterator[Machine]:
    """The node, with a service at the two addresses."""
    machine = one_node.machine
    machine.write("/opt/service.py", SERVICE)
    machine.write("/opt/attack.py", ATTACK.replace("PLACES", json.dumps([*BLOCKED, *OPEN])))
    addresses = (METADATA, HOST)
    machine.run("; ".join(f"ip address add {address}/32 dev lo" for address in addresses))
    machine.run("systemd-run --quiet --unit=metadata-stand-in python3 /opt/service.py")
    machine.wait_until(f"python3 -c 'import socket; socket.create_connection((\"{HOST}\", 53), 2)'")
    yield machine
    machine.run("systemctl stop metadata-stand-in; hpcnode metadata attach")
    machine.run("; ".join(f"ip address del {address}/32 dev lo" for address in addresses))


def test_inherited_sockets_cannot_reach_the_metadata_service(machine_with_service: Machine) -> None:
    found = attack(machine_with_service)
    reached = {
        name: answer
        for name, answer in found.items()
        if answer not in ("Operation not permitted", "Connection refused")
    }
    # DNS at the host's address stays reachable.
    assert reached == {name: "token" for name in found if name.endswith(OPEN[0])}
    assert len(reached) == 7
    root = f"import socket; s = socket.create_connection(('{METADATA}', 80), 5); s.sendall(b'ask'); print(s.recv(10))"
    assert "token" in machine_with_service.run(f'python3 -c "{root}"')
    assert verdict(machine_with_service) == "pass"


def test_loading_the_rules_again_restores_a_detached_filter(
    machine_with_service: Machine,
) -> None:
    machine_with_service.run("hpcnode metadata detach")
    found = attack(machine_with_service)
    assert {place: found[f"listening {place}"] for place in BLOCKED} == dict.fromkeys(BLOCKED, "token")
    assert found[f"own {BLOCKED[0]}"] == "Connection refused"
    assert verdict(machine_with_service) == "warn"
    machine_with_service.run("systemctl reload hpcai-metadata")
    assert attack(machine_with_service)[f"listening {BLOCKED[0]}"] == "Operation not permitted"
    assert verdict(machine_with_service) == "pass"
