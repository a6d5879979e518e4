# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""``beegfs-ctl``: the two lists that show whether a file system is up, in the real tool's format."""

from __future__ import annotations

import socket
import sys
import time
from typing import Any

from .settings import VERSION, Insecure, Settings, Wrong
from .wire import Peer, Peers, Refused

INVALID_CONFIG, RUNTIME_ERROR = 1, 3
NODE_NOT_REACHABLE, TARGET_NOT_ONLINE = 5, 6
MANAGEMENT_PATIENCE_S = 2.5
KINDS = {"meta": "meta", "metadata": "meta", "storage": "storage", "client": "client"}
KINDS |= {"mgmt": "mgmt", "management": "mgmt"}
_LIST_NODES = {"--nodetype", "--details", "--nicdetails", "--reachable", "--errorcodes"}
_LIST_TARGETS = {"--nodetype", "--state", "--nodesfirst", "--longnodes", "--hidenodeid", "--errorcodes"}


class Failed(Exception):
    """The management does not answer."""


def _ask(settings: Settings, doing: str) -> dict[str, Any]:
    host = settings.text("sysMgmtdHost")
    if not host:
        raise Wrong("Management host undefined")
    peer: Peer = (host, settings.port("connMgmtdPortTCP"))
    until = time.monotonic() + MANAGEMENT_PATIENCE_S
    while True:
        try:
            return Peers(settings.secret()).ask(peer, "all")[0]
        except (Refused, TimeoutError):
            raise Failed(doing) from None
        except OSError:
            if time.monotonic() > until:
                raise Failed(f"Management node communication failed: {host}") from None
            time.sleep(0.2)


def _reachable(node: dict[str, Any]) -> bool:
    try:
        socket.create_connection((node["address"], node["port"]), timeout=3).close()
    except OSError:
        return False
    return True


def list_nodes(settings: Settings, options: dict[str, str]) -> int:
    """``--listnodes``"""
    kind = KINDS.get(options.get("--nodetype", ""))
    if kind is None:
        print("Invalid or missing node type.", file=sys.stderr)
        return INVALID_CONFIG
    found = _ask(settings, "Node download failed.")
    nodes, lost = found[kind], False
    for node in nodes:
        print(f"{node['name']} [ID: {node['number']}]")
        if options.keys() & {"--details", "--nicdetails"}:
            tcp = 0 if kind == "client" else node["port"]
            print(f"   Ports: UDP: {node['port']}; TCP: {tcp}\n   Interfaces: eth0(TCP) ")
        if "--reachable" in options:
            there = kind == "client" or _reachable(node)
            lost = lost or not there
            print(f"   Reachable: <{'yes' if there else 'no'}>")
    if options.keys() & {"--details", "--nicdetails"}:
        print(f"\nNumber of nodes: {len(nodes)}")
        if kind == "meta" and nodes:
            print(f"Root: {min(node['number'] for node in nodes)}")
    return NODE_NOT_REACHABLE if lost and "--errorcodes" in options else 0


def list_targets(settings: Settings, options: dict[str, str]) -> int:
    """``--listtargets``"""
    kind = KINDS.get(options.get("--nodetype", "storage"))
    if kind not in ("meta", "storage"):
        print("Invalid node type.", file=sys.stderr)
        return INVALID_CONFIG
    found = _ask(settings, "Metadata nodes download failed")
    names = {node["number"]: node["name"] for node in found[kind]}
    targets = found["targets"] if kind == "storage" else [{**node, "node": node["number"]} for node in found["meta"]]
    state, long, hidden = "--state" in options, "--longnodes" in options, "--hidenodeid" in options
    first = "--nodesfirst" in options and not long and not hidden

    def line(node: str, target: str, reachability: str, consistency: str) -> str:
        shown = [f"{node:>8}"] if first else []
        shown.append(f"{target:>8}")
        shown += [f"{reachability:>16} {consistency:>12}"] if state else []
        shown += [] if first or hidden else [f"{node:>8}" if not long or "[" not in node else f"  {node}"]
        return " ".join(shown)

    print(line("NodeID", "TargetID", "Reachability", "Consistency"))
    print(line("======", "========", "============", "==========="))
    if kind == "meta" and not targets:
        print(" [ERROR: No metadata servers found]", file=sys.stderr)
        return RUNTIME_ERROR
    worst = 0
    for target in targets:
        node = f"beegfs-{kind} {names[target['node']]} [ID: {target['node']}]" if long else str(target["node"])
        print(line(node, str(target["number"]), target["state"], "Good"))
        if target["state"] != "Online":
            worst = TARGET_NOT_ONLINE
    return worst if {"--errorcodes", "--state"} <= options.keys() else 0


MODES = {"--listnodes": (list_nodes, _LIST_NODES), "--listtargets": (list_targets, _LIST_TARGETS)}


def main(argv: list[str]) -> int:
    """``beegfs-ctl --cfgFile=FILE MODE [OPTIONS]``"""
    words = argv[1:]
    modes = [word for word in words if word in MODES]
    options = dict(word.partition("=")[::2] for word in words if word not in MODES)
    configured = [word for word in words if _is_setting(word)]
    if not modes:
        print("No mode defined. (A stand-in: it knows --listnodes and --listtargets.)", file=sys.stderr)
        return INVALID_CONFIG
    run, known = MODES[modes[0]]
    unknown = sorted(options.keys() - known - {word.partition("=")[0] for word in configured})
    if unknown:
        print(f"Invalid argument: {unknown[0]}", file=sys.stderr)
        return INVALID_CONFIG
    try:
        return run(Settings(configured, "/etc/beegfs/beegfs-client.conf"), options)
    except Wrong as error:
        print(f"\nError: {error}\n\n[BeeGFS Control Tool Version: {VERSION}, a stand-in]\n", file=sys.stderr)
        return INVALID_CONFIG
    except Insecure as error:
        print(f"\nUnrecoverable error: {error}\n", file=sys.stderr)
        return RUNTIME_ERROR
    except Failed as error:
        print(error, file=sys.stderr)
        return RUNTIME_ERROR


def _is_setting(word: str) -> bool:
    key = word.lstrip("-").partition("=")[0]
    return key.startswith(("cfgFile", "conn", "sys")) and "=" in word
