# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A node's own entry at slurmctld, from a machine that has no slurm.conf."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from typing import Callable

from ..machine.run import CommandFailed, Result, Run, must
from . import nodes
from .node_text import records
from .nodes import NodeState

PORT = 6817
"""slurmctld's port, where the controller's address has none."""
CONNECT_S = 3.0
"""Seconds for a controller to take a connection."""
ANSWER_S = 8
"""Seconds for one question to slurmctld."""

Reach = Callable[[Sequence[str]], str]


class NoController(RuntimeError):
    """No controller takes a connection; the message names them and why."""


def reach(controllers: Sequence[str]) -> str:
    """Return this machine's address as the first controller sees it that takes a connection.

    Asked first, because Slurm's own tools try for nine seconds where nobody listens.

    :raises NoController: none does.
    """
    problems = []
    for controller in controllers:
        host, port = _host_and_port(controller)
        try:
            with socket.create_connection((host, port), timeout=CONNECT_S) as connection:
                return str(connection.getsockname()[0])
        except OSError as error:
            problems.append(f"{host}:{port}: {error.strerror or error}")
    raise NoController("; ".join(problems) or "none is known")


def _host_and_port(controller: str) -> tuple[str, int]:
    host, colon, port = controller.rpartition(":")
    # More than one colon is an IPv6 address.
    if colon and port.isdecimal() and ":" not in host:
        return host, int(port)
    return controller.strip("[]"), PORT


def ask(name: str, controllers: Sequence[str], run: Run) -> NodeState | None:
    """Return the node as slurmctld has it; None if it does not show one of that name.

    One that never had a machine is not shown where the site's PrivateData lacks ``cloud``.

    :raises CommandFailed: slurmctld does not answer, or does not believe who asks.
    """
    return nodes.parse(_show(name, controllers, run)).get(name)


def address(name: str, controllers: Sequence[str], run: Run) -> str:
    """Return the node's NodeAddr; empty if slurmctld does not show a node of that name.

    :raises CommandFailed: slurmctld does not answer, or does not believe who asks.
    """
    node = ask(name, controllers, run)
    return node.address if node else ""


def text(name: str, key: str, controllers: Sequence[str], run: Run) -> str:
    """Return Extra or Comment of the node's record up to its first blank; empty if there is none.

    :raises CommandFailed: slurmctld does not answer, or does not believe who asks.
    """
    record = records(_show(name, controllers, run)).get(name)
    found = re.findall(rf" {re.escape(key)}=(\S+)", record.after_reason) if record else []
    return found[-1] if found else ""


def _show(name: str, controllers: Sequence[str], run: Run) -> str:
    shown = ask_slurm(controllers, ["scontrol", "--oneliner", "show", "node", name], run)
    if shown.rc != 0 and "not found" in f"{shown.stdout}{shown.stderr}":
        return ""
    return must(shown).stdout


def update(name: str, words: Sequence[str], controllers: Sequence[str], run: Run) -> bool:
    """Change the node at slurmctld, as root of any machine of the cluster may; whether it knows the node.

    :raises CommandFailed: slurmctld refused for another reason.
    """
    result = ask_slurm(controllers, ["scontrol", "update", f"NodeName={name}", *words], run)
    if result.rc != 0 and "Invalid node name" in f"{result.stdout}{result.stderr}":
        return False
    must(result)
    return True


def ask_slurm(controllers: Sequence[str], words: Sequence[str], run: Run) -> Result:
    """Return the answer of one of Slurm's commands, within a limit.

    :param words: the command and its arguments.
    :raises CommandFailed: slurmctld does not answer.
    """
    server = f"SLURM_CONF_SERVER={','.join(controllers)}"
    result = run(["timeout", "--kill-after=1", str(ANSWER_S), "env", server, *words])
    if result.rc == 124:
        raise CommandFailed(f"slurmctld at {', '.join(controllers)} gave no answer in {ANSWER_S} s")
    return result
