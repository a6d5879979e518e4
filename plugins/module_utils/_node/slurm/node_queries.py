# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A node's queries to slurmctld, on a machine without slurm.conf: its own entry, and addresses of other nodes."""

from __future__ import annotations

import errno
import ipaddress
import os
import re
import socket
from collections.abc import Mapping, Sequence
from typing import Callable

from ..machine.root import Root
from ..machine.run import CommandFailed, Result, Run, must
from . import nodes
from .hostlist import HostlistError, expand
from .nodes import PLACEHOLDER_ADDRESS, NodeState, parse_records

PORT = 6817
"""slurmctld's port, if the controller's address has none."""
CONNECT_S = 3.0
"""Timeout for a connection to a controller, in seconds."""
ANSWER_S = 8
"""Timeout for one query to slurmctld, in seconds."""

FindOwnAddress = Callable[[Sequence[str]], str]


class NoController(RuntimeError):
    """No controller accepts a connection; the message lists them and the errors."""


def find_own_address(controllers: Sequence[str]) -> str:
    """Return this machine's address on the connection to the first controller that accepts one.

    Call this first, because Slurm's own tools try for nine seconds if no slurmctld listens.

    :raises NoController: no controller accepts a connection.
    """
    problems = []
    for controller in controllers:
        host, port = _host_and_port(controller)
        try:
            with socket.create_connection((host, port), timeout=CONNECT_S) as connection:
                return str(connection.getsockname()[0])
        except OSError as error:
            problems.append(f"{host}:{port}: {error.strerror or error}")
    raise NoController("; ".join(problems) or "no controller is known")


def is_own_address(address: str) -> bool:
    """Whether this machine has an address; also true for a name or a public address, which cannot be judged here.

    A machine in Azure has its public address on none of its interfaces.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return True
    if not parsed.is_private:
        return True
    family = socket.AF_INET6 if parsed.version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError as error:
            return error.errno != errno.EADDRNOTAVAIL
    return True


def _host_and_port(controller: str) -> tuple[str, int]:
    host, colon, port = controller.rpartition(":")
    # An address with more than one colon is IPv6.
    if colon and port.isdecimal() and ":" not in host:
        return host, int(port)
    return controller.strip("[]"), PORT


def query_node(name: str, controllers: Sequence[str], run: Run) -> NodeState | None:
    """Return the node from slurmctld; None if slurmctld does not show it.

    A node that never had a machine is not shown if the site's PrivateData lacks ``cloud``.

    :raises CommandFailed: slurmctld does not answer, or does not accept this machine's credentials.
    """
    return nodes.parse_nodes(_show_node(name, controllers, run)).get(name)


def query_address(name: str, controllers: Sequence[str], run: Run) -> str:
    """Return the node's NodeAddr; empty if slurmctld does not show the node.

    :raises CommandFailed: slurmctld does not answer, or does not accept this machine's credentials.
    """
    node = query_node(name, controllers, run)
    return node.address if node else ""


def query_text(name: str, key: str, controllers: Sequence[str], run: Run) -> str:
    """Return Extra or Comment of the node's record up to its first blank; empty if there is none.

    :raises CommandFailed: slurmctld does not answer, or does not accept this machine's credentials.
    """
    record = parse_records(_show_node(name, controllers, run)).get(name)
    found = re.findall(rf" {re.escape(key)}=(\S+)", record.after_reason) if record else []
    return found[-1] if found else ""


def _show_node(name: str, controllers: Sequence[str], run: Run) -> str:
    shown = run_command(controllers, ["scontrol", "--oneliner", "show", "node", name], run)
    if shown.rc != 0 and "not found" in f"{shown.stdout}{shown.stderr}":
        return ""
    return must(shown).stdout


def update_node(name: str, words: Sequence[str], controllers: Sequence[str], run: Run) -> bool:
    """Change the node at slurmctld, which root may do on any machine of the cluster; return whether the node exists.

    :raises CommandFailed: slurmctld refused for another reason.
    """
    result = run_command(controllers, ["scontrol", "update", f"NodeName={name}", *words], run)
    if result.rc != 0 and "Invalid node name" in f"{result.stdout}{result.stderr}":
        return False
    must(result)
    return True


def run_command(controllers: Sequence[str], words: Sequence[str], run: Run) -> Result:
    """Run one of Slurm's commands with a timeout, and return its result.

    :param words: the command and its arguments.
    :raises CommandFailed: slurmctld does not answer.
    """
    server = f"SLURM_CONF_SERVER={','.join(controllers)}"
    result = run(["timeout", "--kill-after=1", str(ANSWER_S), "env", server, *words])
    if result.rc == 124:
        raise CommandFailed(f"slurmctld at {', '.join(controllers)} gave no answer in {ANSWER_S} s")
    return result


def prolog_addresses(environment: Mapping[str, str], root: Root) -> dict[str, str]:
    """Return the addresses that slurmd passed to the prolog, else those in its slurm.conf; without placeholders."""
    found = {**_configured(environment, root), **_aliases(environment)}
    return {name: address for name, address in found.items() if address != PLACEHOLDER_ADDRESS}


def query_addresses(names: Sequence[str], controllers: Sequence[str], run: Run) -> dict[str, str]:
    """Return slurmctld's addresses of these nodes; without placeholders.

    :raises CommandFailed: slurmctld does not answer.
    """
    words = ["sinfo", "--noheader", "--all", "--Node", f"--nodes={','.join(names)}", "--format=%N %o"]
    return parse_addresses(must(run_command(controllers, words, run)).stdout)


def parse_addresses(shown: str) -> dict[str, str]:
    """Return the addresses in lines of ``sinfo --Node --format='%N %o'``, by node; without placeholders."""
    pairs = [line.split() for line in shown.splitlines()]
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2 and pair[1] != PLACEHOLDER_ADDRESS}


def _aliases(environment: Mapping[str, str]) -> dict[str, str]:
    """Parse name:address:hostname,... of nodes that joined automatically; an IPv6 address is in brackets."""
    found = {}
    for word in re.split(r",(?![^\[]*\])", environment.get("SLURM_NODE_ALIASES") or ""):
        match = re.fullmatch(r"([^:]+):(\[[^\]]+\]|[^:]+):[^:]+", word)
        if match:
            found[match[1]] = match[2].strip("[]")
    return found


def _configured(environment: Mapping[str, str], root: Root) -> dict[str, str]:
    path = environment.get("SLURM_CONF") or ""
    text = root.text(path) if os.path.isabs(path) else None
    found: dict[str, str] = {}
    for line in (text or "").splitlines():
        keys = dict(word.split("=", 1) for word in line.split() if "=" in word)
        named = {key.lower(): value.strip('"') for key, value in keys.items()}
        if "nodename" in named and "nodeaddr" in named:
            found.update(_paired(named["nodename"], named["nodeaddr"]))
    return found


def _paired(names: str, addresses: str) -> dict[str, str]:
    try:
        return dict(zip(expand(names), expand(addresses)))
    except HostlistError:
        return {}
