# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A job user requests a token of the node's identity from Azure's metadata service, and with it the munge key from the
vault.

Before the rules of ``hpcai.azure.metadata_access``, any process could do this: a job got the key, ran its own munged,
and the controller accepted it as root.
"""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from testinfra.host import Host

from simulated.cluster import Cluster
from simulated.hosts import User
from simulated.node import VAULT, Node, admin

IMAGE = "/var/tmp/hpcai-metadata.sqsh"
MAKE_IMAGE = Path(__file__).resolve().parents[1] / "site/make_image.sh"
TOKEN = "/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https://vault.azure.net"
# bash can send HTTP requests without another program, and is in the container image, too.
ASK = (
    "exec 3<>/dev/tcp/169.254.169.254/80 && "
    f'printf "GET %s HTTP/1.0\\r\\nHost: x\\r\\nMetadata: true\\r\\n\\r\\n" "{TOKEN}" >&3 && cat <&3'
)
PREEMPT = {"EventType": "Preempt", "NotBefore": "Mon, 19 Sep 2044 18:29:47 GMT"}
REFUSED = "Connection refused"
CONNECT_IN_A_LOOP = """
import socket, sys, time
tries = reached = 0
deadline = time.monotonic() + float(sys.argv[1])
while time.monotonic() < deadline:
    tries += 1
    try:
        socket.create_connection(("169.254.169.254", 80), timeout=2).close()
        reached += 1
    except OSError:
        pass
print(tries, reached, flush=True)
"""
# The site's rules flush all others, as Debian's do. Here they include the simulator's route to its metadata service.
RELOAD = """
set -e
cp /etc/nftables.conf /run/nftables.conf.before
nft list table ip hpcai_imds > /run/hpcai_imds.nft
trap 'cp /run/nftables.conf.before /etc/nftables.conf; systemctl stop nftables; nft -f /run/hpcai_imds.nft' EXIT
{ echo "flush ruleset"; cat /run/hpcai_imds.nft; } > /etc/nftables.conf
systemctl start nftables
for number in 1 2 3 4 5 6; do
    systemctl reload nftables
    systemctl restart nftables
    systemctl reset-failed nftables
done
systemctl stop nftables
nft list table inet hpcai_metadata > /dev/null
"""


@pytest.fixture(scope="module")
def idle(controller: Host, node: Callable[[str], Node]) -> Node:
    """An idle compute node."""
    names = controller.check_output("sinfo --noheader --Node --states=idle --responding --format=%%N").split()
    assert names
    return node(names[0].rpartition("-")[2])


@pytest.fixture
def image(idle: Node) -> Iterator[str]:
    """A container image on the idle node."""
    program = base64.b64encode(MAKE_IMAGE.read_bytes()).decode()
    idle.sh(f"echo {program} | base64 --decode | bash -s {IMAGE}")
    yield IMAGE
    idle.sh(f"rm -f {IMAGE}")


@pytest.fixture
def event(azure: Cluster, idle: Node) -> Iterator[str]:
    """Azure announces that it will preempt the node; returns the id of the event."""
    path = f"events{idle.azure_id}"
    yield str(admin(azure, "post", path, PREEMPT)["events"][-1]["EventId"])
    # An empty request withdraws all events.
    admin(azure, "post", path, {})


def test_root_gets_a_token_so_the_attack_would_work(idle: Node) -> None:
    assert "access_token" in idle.sh(f"bash -c {shlex.quote(ASK)}")


def test_a_login_shell_gets_no_token(alice: User) -> None:
    done = alice.run(f"bash -c {shlex.quote(ASK)}")
    assert done.rc != 0
    assert REFUSED in done.stderr
    assert "access_token" not in done.stdout
    for port in (80, 32526):
        assert REFUSED in alice.run(f"bash -c 'exec 3<>/dev/tcp/168.63.129.16/{port}'").stderr


def test_a_job_gets_no_token_and_no_key(alice: User, idle: Node) -> None:
    where = f"--ntasks=1 --nodelist={idle.name}"
    done = alice.run(f"srun --time=2 {where} bash -c {shlex.quote(ASK)}")
    assert done.rc != 0
    assert REFUSED in done.stderr
    assert "access_token" not in done.stdout
    assert alice.run(f"srun --time=2 {where} cat /etc/munge/munge.key").rc != 0


def test_a_user_who_is_root_in_a_user_namespace_gets_no_token(alice: User) -> None:
    done = alice.run(f"unshare --user --map-root-user bash -c {shlex.quote(ASK)}")
    assert "access_token" not in done.stdout
    assert done.rc != 0


def test_a_job_in_a_container_gets_no_token(alice: User, idle: Node, image: str) -> None:
    inside = f"srun --time=2 --mpi=none --ntasks=1 --mem=100 --nodelist={idle.name} --container-image={image}"
    assert "ID=hpcai-image" in alice.check_output(f"{inside} cat /etc/os-release")
    done = alice.run(f"{inside} bash -c {shlex.quote(ASK)}")
    assert done.rc != 0
    assert REFUSED in done.stderr
    assert "access_token" not in done.stdout


def test_the_vault_gives_nothing_without_a_token(alice: User) -> None:
    ask = (
        "import ssl, urllib.request as u\n"
        f"url = 'https://{VAULT}.vault.azure.net/secrets/munge-key?api-version=7.4'\n"
        "print(u.urlopen(url, timeout=10, context=ssl._create_unverified_context()).read())"
    )
    done = alice.run(f"python3 -c {shlex.quote(ask)}")
    assert done.rc != 0
    assert "401" in done.stderr


def test_a_job_can_read_events_and_start_the_event_of_its_node(
    alice: User, idle: Node, event: str, eventually: Callable[..., float]
) -> None:
    job = f"--ntasks=1 --nodelist={idle.name}"

    def events() -> list[dict[str, Any]]:
        return list(json.loads(alice.srun(job, "hpcnode events show --json"))["events"])

    eventually(lambda: [one["id"] for one in events()] == [event], 60, events)
    (found,) = events()
    assert (found["kind"], found["status"]) == ("Preempt", "Scheduled")
    ready = (
        "import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); "
        f"s.sendto(b'{event}', '/run/hpcai/events/ready'); import time; time.sleep(5)"
    )
    alice.srun(job, f"python3 -c {shlex.quote(ready)}")
    eventually(lambda: [one["status"] for one in events()] == ["Started"], 60, events)


def test_a_user_cannot_start_an_event_while_another_job_has_no_step_on_the_node(
    alice: User, bob: User, idle: Node, event: str
) -> None:
    """Between two steps, the other job's only process on the node is its extern step's, which runs as root."""
    ready = (
        "import socket, time; s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
        f"for _try in range(5): s.sendto(b'{event}', '/run/hpcai/events/ready'); time.sleep(2)"
    )
    options = f"--no-shell --quiet --ntasks=1 --mem=100 --time=4 --nodelist={idle.name} --job-name=hpcai-between"
    bob.check_output(f"salloc {options}", 180)
    try:
        number = bob.check_output("squeue --me --noheader --name=hpcai-between --format=%i")
        idle.sh(f"timeout 60 sh -c 'until pgrep --full \"^slurmstepd: .{number}.extern\"; do sleep 1; done'")
        alice.srun(f"--ntasks=1 --mem=100 --nodelist={idle.name}", f"python3 -c {shlex.quote(ready)}")
        (found,) = json.loads(idle.sh("hpcnode events show --json"))["events"]
        assert (found["id"], found["status"]) == (event, "Scheduled")
    finally:
        bob.run("scancel --me --name=hpcai-between")


def test_a_user_without_a_job_on_the_node_cannot_start_an_event(idle: Node, event: str) -> None:
    ready = (
        f"import socket; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'{event}', '/run/hpcai/events/ready')"
    )
    # root sends it with another user id, because users without a job cannot log in to the node.
    idle.sh(f"setpriv --reuid 65534 --clear-groups python3 -c {shlex.quote(ready)}")
    idle.sh("sleep 3")
    (found,) = json.loads(idle.sh("hpcnode events show --json"))["events"]
    assert (found["id"], found["status"]) == (event, "Scheduled")


@pytest.mark.thorough
def test_a_user_cannot_connect_while_the_sites_rules_are_reloaded(
    alice: User, controller: Host, eventually: Callable[..., float]
) -> None:
    """Before the drop-in of nftables.service, a user who tried all the time could connect during each reload."""
    output = alice.check_output("mktemp")
    alice.check_output(f"nohup python3 -c {shlex.quote(CONNECT_IN_A_LOOP)} 12 > {output} 2>&1 & sleep 1")
    controller.check_output("bash -c %s", RELOAD)
    eventually(lambda: controller.file(output).content_string.strip() != "", 60, lambda: "the attacker did not end")
    tries, reached = (int(word) for word in controller.file(output).content_string.split())
    alice.check_output(f"rm -f {output}")
    assert tries > 100
    assert reached == 0
    # root can reach the metadata service again.
    assert "Connection refused" not in controller.check_output("bash -c %s", ASK)
