# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host's packet filter and forwarding: changed while a simulator runs, and restored afterwards."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

from simulator.backends.containers.command import run
from simulator.backends.containers.places import locked, run_dir

FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
BRIDGE_PREFIX = "hpcai"


def _table(tag: str) -> str:
    return f"hpcai_{tag}"


def open_for(tag: str, bridge: str, cidr: str) -> None:
    """Allow machines to connect to the outside through NAT, and to and from the host."""
    with locked(run_dir() / "firewall.lock"):
        before = FORWARDING.read_text(encoding="ascii").strip()
        if before == "0":
            (run_dir() / "ip_forward.before").write_text(before, encoding="ascii")
            FORWARDING.write_text("1\n", encoding="ascii")
    run(
        ["nft", "-f", "-"],
        stdin=(
            f"table ip {_table(tag)} {{\n"
            "  chain postrouting {\n"
            "    type nat hook postrouting priority 100;\n"
            f'    ip saddr {cidr} oifname != "{bridge}" masquerade\n'
            "  }\n"
            "}\n"
        ),
    )
    # Our own table cannot accept packets that another table drops (container engines and ufw set FORWARD to DROP). So
    # the rules are added to that chain itself, and only if it does not accept everything.
    for chain, rules in (("FORWARD", (["-i", bridge], ["-o", bridge])), ("INPUT", (["-i", bridge],))):
        if _closed(chain):
            for rule in rules:
                run(["iptables", "-w", "-I", chain, *rule, "-m", "comment", "--comment", _table(tag), "-j", "ACCEPT"])


def _closed(chain: str) -> bool:
    if not shutil.which("iptables"):
        return False
    return run(["iptables", "-w", "-S", chain], check=False).strip() not in ("", f"-P {chain} ACCEPT")


def close_for(tag: str) -> None:
    """Remove all rules. If this was our last network and forwarding was off before, switch it off again."""
    if _table(tag) in run(["nft", "list", "tables", "ip"]):
        run(["nft", "delete", "table", "ip", _table(tag)], check=False)
    if shutil.which("iptables"):
        for chain in ("FORWARD", "INPUT"):
            for line in run(["iptables", "-w", "-S", chain], check=False).splitlines():
                words = shlex.split(line)
                if words[:1] == ["-A"] and _table(tag) in words:
                    run(["iptables", "-w", "-D", *words[1:]], check=False)
    with locked(run_dir() / "firewall.lock"):
        before = run_dir() / "ip_forward.before"
        links = json.loads(run(["ip", "-json", "link", "show", "type", "bridge"]) or "[]")
        ours = [link for link in links if link.get("ifname", "").startswith(BRIDGE_PREFIX)]
        if before.exists() and not ours:
            FORWARDING.write_text(before.read_text(encoding="ascii") + "\n", encoding="ascii")
            before.unlink()
