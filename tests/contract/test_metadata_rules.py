# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules that reserve the metadata service for root, in a separate network namespace, with real sockets."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.metadata.options import MetadataOptions
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.metadata.rules import (
    RULES,
    difference,
    drop_in,
    rules,
)

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("nft") or not shutil.which("unshare"), reason="needs root, nft and unshare"
)
LISTED_UID = 998
TRY = """\
import errno, os, socket, sys
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
for place in sys.argv[2:]:
    host, port = place.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
        print(place, "reached")
    except OSError as error:
        print(place, "refused" if error.errno == errno.ECONNREFUSED else error)
"""
CONNECT_IN_A_LOOP = """\
import os, socket, time
os.setgroups([]); os.setgid(65534); os.setuid(65534)
tries = reached = 0
deadline = time.monotonic() + 3
while time.monotonic() < deadline:
    tries += 1
    try:
        socket.create_connection(("169.254.169.254", 80), timeout=2).close()
        reached += 1
    except OSError:
        pass
print(tries, reached)
"""
# A server for the two addresses of Azure's host.
SERVER = r"""import socket, subprocess, sys, threading
for port in (80, 8080, 32526, 53):
    for host in ("169.254.169.254", "168.63.129.16"):
        listener = socket.create_server((host, port))
        threading.Thread(target=lambda l=listener: [l.accept()[0].close() for _ in range(99999)], daemon=True).start()
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("168.63.129.16", 53))
def dns():
    while True:
        asked, who = server.recvfrom(512)
        question = asked[12:].split(b"\0", 1)
        kind = question[1][:4]
        answer = b"\xc0\x0c" + kind + b"\0\0\0\x3c\0\x04\x0a\x09\x08\x07" if kind[1] == 1 else b""
        head = asked[:2] + b"\x81\x80\0\1" + (b"\0\1" if answer else b"\0\0") + b"\0\0\0\0"
        server.sendto(head + question[0] + b"\0" + kind + answer, who)
threading.Thread(target=dns, daemon=True).start()
sys.exit(subprocess.run(sys.argv[1:]).returncode)
"""
ENTER = """\
set -e
ip link set lo up
ip address add 169.254.169.254/32 dev lo
ip address add 168.63.129.16/32 dev lo
echo "nameserver 168.63.129.16" > "$1/resolv.conf"
echo "hosts: dns" > "$1/nsswitch.conf"
mount --bind "$1/resolv.conf" /etc/resolv.conf
mount --bind "$1/nsswitch.conf" /etc/nsswitch.conf
if [ -s "$1/rules" ]; then nft -f "$1/rules"; nft -f "$1/rules"; fi
cd "$1"
exec "$2" -I world.py sh -c "$3"
"""


def inside(folder: Path, text: str, command: str) -> str:
    """Run a command in a namespace with these rules, and return its output."""
    folder.chmod(0o755)
    for name, content in {"rules": text, "world.py": SERVER, "try.py": TRY}.items():
        (folder / name).write_text(content, encoding="utf-8")
    words = ["unshare", "--net", "--mount", "sh", "-c", ENTER, "sh", str(folder), sys.executable, command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def attempts(folder: Path, text: str, uid: int) -> dict[str, str]:
    """The result of a user's connection to each address."""
    places = [f"{host}:{port}" for host in ("169.254.169.254", "168.63.129.16") for port in (80, 8080, 32526, 53)]
    shown = inside(folder, text, f"{sys.executable} -I try.py {uid} {' '.join(places)}")
    return dict(line.split(" ", 1) for line in shown.splitlines())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that every user may enter."""
    for path in (tmp_path, *tmp_path.parents):
        if os.stat(path).st_uid == os.geteuid() and path != Path("/"):
            path.chmod(os.stat(path).st_mode | 0o055)
    return tmp_path


def test_without_rules_all_users_can_connect(folder: Path) -> None:
    """The attack: a user requests the node's token."""
    assert set(attempts(folder, "", 65534).values()) == {"reached"}


def test_other_users_are_refused_only_at_the_metadata_ports(folder: Path) -> None:
    results = attempts(folder, rules((0, LISTED_UID), has_agent=False), 65534)
    refused = {where for where, what in results.items() if what == "refused"}
    assert refused == {"169.254.169.254:80", "168.63.129.16:80", "168.63.129.16:32526"}
    assert {what for where, what in results.items() if where not in refused} == {"reached"}


@pytest.mark.parametrize("uid", [0, LISTED_UID])
def test_root_and_listed_users_can_connect(folder: Path, uid: int) -> None:
    assert set(attempts(folder, rules((0, LISTED_UID), has_agent=False), uid).values()) == {"reached"}


def test_root_of_a_user_namespace_is_refused(folder: Path) -> None:
    text = rules((0,), has_agent=False)
    (folder / "own.py").write_text(TRY.replace("os.setgroups([]); ", ""), encoding="utf-8")
    become = "setpriv --reuid 65534 --clear-groups unshare --user --map-root-user"
    assert (
        inside(folder, text, f"{become} {sys.executable} -I own.py 0 169.254.169.254:80")
        == "169.254.169.254:80 refused\n"
    )


def test_users_can_still_use_azures_dns(folder: Path) -> None:
    command = "setpriv --reuid 65534 --clear-groups getent ahostsv4 storage.example.net"
    assert inside(folder, rules((0,), has_agent=False), command).startswith("10.9.8.7 ")


def test_the_rules_apply_before_addresses_are_translated(folder: Path) -> None:
    """The simulator redirects 169.254.169.254 to another address, and a site may do so, too."""
    text = rules((0,), has_agent=False) + (
        "table ip site {\n  chain output {\n    type nat hook output priority -100;\n"
        "    ip daddr 169.254.169.254 tcp dport 80 dnat to 168.63.129.16:8080\n  }\n}\n"
    )
    command = f"{sys.executable} -I try.py"
    assert inside(folder, text, f"{command} 65534 169.254.169.254:80") == "169.254.169.254:80 refused\n"
    assert inside(folder, text, f"{command} 0 169.254.169.254:80") == "169.254.169.254:80 reached\n"


@pytest.mark.parametrize(
    ("one_transaction", "connects"), [(True, False), (False, True)], ids=["one transaction", "two transactions"]
)
def test_only_reloads_in_one_transaction_leave_no_gap(folder: Path, one_transaction: bool, connects: bool) -> None:
    """The attack: connect in a loop while the site's rules, which flush all others, are loaded repeatedly."""
    site, ours = folder / "site", folder / "rules"
    site.write_text("flush ruleset\ntable ip site {\n  chain x {\n  }\n}\n", encoding="utf-8")
    (folder / "knock.py").write_text(CONNECT_IN_A_LOOP, encoding="utf-8")
    text = drop_in(MetadataOptions(guard=True, site_rules=str(site))).replace(RULES, str(ours))
    (reload,) = [line.partition("=")[2] for line in text.splitlines() if line.startswith("ExecReload=/")]
    (folder / "reload.sh").write_text(reload if one_transaction else f"nft -f {site}; nft -f {ours}", encoding="utf-8")
    command = (
        f"{sys.executable} -I knock.py > said & knocking=$!; "
        "while kill -0 $knocking 2> /dev/null; do sh reload.sh; done; cat said"
    )
    tries, reached = (int(word) for word in inside(folder, rules((0,), has_agent=False), command).split())
    assert tries > 100
    assert (reached > 0) is connects


@pytest.mark.parametrize("has_agent", [False, True])
def test_the_kernels_rules_equal_those_of_the_file(folder: Path, has_agent: bool) -> None:
    text = rules((0, LISTED_UID), has_agent)
    shown = inside(folder, text, "nft --json list table inet hpcai_metadata")
    assert difference(text, lambda command: Result(tuple(command), 0, shown, "")) == ""
    # nft fails because the table is gone; its message is compared.
    shown = inside(
        folder, text + "delete table inet hpcai_metadata\n", "nft list table inet hpcai_metadata 2>&1 || true"
    )
    answer = Result(("nft",), 1, "", shown)
    assert difference(text, lambda _command: answer) == "the kernel has no table inet hpcai_metadata"
