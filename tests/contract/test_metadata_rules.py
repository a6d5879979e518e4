# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules that keep the metadata service for root, in a network namespace of their own, with real sockets."""

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
LISTENED = 998
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
KNOCK = """\
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
# The two addresses, as Azure's host has them; whatever is sent to them reaches this.
WORLD = r"""import socket, subprocess, sys, threading
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
    """What a command prints in a namespace where these rules are loaded."""
    folder.chmod(0o755)
    for name, content in {"rules": text, "world.py": WORLD, "try.py": TRY}.items():
        (folder / name).write_text(content, encoding="utf-8")
    words = ["unshare", "--net", "--mount", "sh", "-c", ENTER, "sh", str(folder), sys.executable, command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def attempts(folder: Path, text: str, uid: int) -> dict[str, str]:
    """What a user meets at each of the places."""
    places = [f"{host}:{port}" for host in ("169.254.169.254", "168.63.129.16") for port in (80, 8080, 32526, 53)]
    shown = inside(folder, text, f"{sys.executable} -I try.py {uid} {' '.join(places)}")
    return dict(line.split(" ", 1) for line in shown.splitlines())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder that every user may enter."""
    for folder in (tmp_path, *tmp_path.parents):
        if os.stat(folder).st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(os.stat(folder).st_mode | 0o055)
    return tmp_path


def test_without_rules_everybody_reaches_all(place: Path) -> None:
    """The attack: a user asks for the node's token."""
    assert set(attempts(place, "", 65534).values()) == {"reached"}


def test_other_users_are_refused_there_and_nowhere_else(place: Path) -> None:
    met = attempts(place, rules((0, LISTENED), has_agent=False), 65534)
    refused = {where for where, what in met.items() if what == "refused"}
    assert refused == {"169.254.169.254:80", "168.63.129.16:80", "168.63.129.16:32526"}
    assert {what for where, what in met.items() if where not in refused} == {"reached"}


@pytest.mark.parametrize("uid", [0, LISTENED])
def test_root_and_listed_users_reach_all(place: Path, uid: int) -> None:
    assert set(attempts(place, rules((0, LISTENED), has_agent=False), uid).values()) == {"reached"}


def test_a_user_who_is_root_in_his_own_namespace_is_refused(place: Path) -> None:
    text = rules((0,), has_agent=False)
    (place / "own.py").write_text(TRY.replace("os.setgroups([]); ", ""), encoding="utf-8")
    become = "setpriv --reuid 65534 --clear-groups unshare --user --map-root-user"
    assert (
        inside(place, text, f"{become} {sys.executable} -I own.py 0 169.254.169.254:80")
        == "169.254.169.254:80 refused\n"
    )


def test_names_are_still_resolved_by_azures_dns(place: Path) -> None:
    command = "setpriv --reuid 65534 --clear-groups getent ahostsv4 storage.example.net"
    assert inside(place, rules((0,), has_agent=False), command).startswith("10.9.8.7 ")


def test_translated_addresses_are_seen_as_they_were_sent(place: Path) -> None:
    """The simulator leads 169.254.169.254 elsewhere; so may a site."""
    text = rules((0,), has_agent=False) + (
        "table ip site {\n  chain output {\n    type nat hook output priority -100;\n"
        "    ip daddr 169.254.169.254 tcp dport 80 dnat to 168.63.129.16:8080\n  }\n}\n"
    )
    command = f"{sys.executable} -I try.py"
    assert inside(place, text, f"{command} 65534 169.254.169.254:80") == "169.254.169.254:80 refused\n"
    assert inside(place, text, f"{command} 0 169.254.169.254:80") == "169.254.169.254:80 reached\n"


@pytest.mark.parametrize(("in_one", "comes_through"), [(True, False), (False, True)])
def test_only_reloads_in_one_transaction_leave_no_gap(place: Path, in_one: bool, comes_through: bool) -> None:
    """The attack: knock all the time while the site's rules, which flush all others, are loaded again and again."""
    site, ours = place / "site", place / "rules"
    site.write_text("flush ruleset\ntable ip site {\n  chain x {\n  }\n}\n", encoding="utf-8")
    (place / "knock.py").write_text(KNOCK, encoding="utf-8")
    text = drop_in(MetadataOptions(guard=True, site_rules=str(site))).replace(RULES, str(ours))
    (reload,) = [line.partition("=")[2] for line in text.splitlines() if line.startswith("ExecReload=/")]
    (place / "reload.sh").write_text(reload if in_one else f"nft -f {site}; nft -f {ours}", encoding="utf-8")
    command = (
        f"{sys.executable} -I knock.py > said & knocking=$!; "
        "while kill -0 $knocking 2> /dev/null; do sh reload.sh; done; cat said"
    )
    tries, reached = (int(word) for word in inside(place, rules((0,), has_agent=False), command).split())
    assert tries > 100
    assert (reached > 0) is comes_through


@pytest.mark.parametrize("has_agent", [False, True])
def test_the_kernel_shows_the_rules_as_the_file_has_them(place: Path, has_agent: bool) -> None:
    text = rules((0, LISTENED), has_agent)
    shown = inside(place, text, "nft --json list table inet hpcai_metadata")
    assert difference(text, lambda command: Result(tuple(command), 0, shown, "")) == ""
    shown = inside(
        place, text + "delete table inet hpcai_metadata\n", "nft list table inet hpcai_metadata 2>&1 || true"
    )
    answer = Result(("nft",), 1, "", shown)
    assert difference(text, lambda _command: answer) == "the kernel has no table inet hpcai_metadata"
