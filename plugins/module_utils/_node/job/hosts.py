# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Writes the names of Slurm's nodes to /etc/hosts, so that a job's ranks can resolve MASTER_ADDR, which is a node name.

Slurm's node names are not in DNS. Each prolog writes the nodes of slurm.conf and those of its job. An enroot container
uses the node's /etc/hosts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from ..machine.config import ConfigError
from ..machine.lock import only_one
from ..machine.root import Root
from ..machine.run import CommandFailed, Run
from ..setup.hosts_file import HOSTS, HOSTS_LOCK, is_address
from ..setup.managed_file import block_lines, change_of, read_file, with_block
from ..slurm import node_queries, slurmd_env
from ..slurm.hostlist import HostlistError, expand

BLOCK = "Slurm nodes, written by hpcnode job hosts"
_LOCK_S = 5.0
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


def write_hosts(environment: Mapping[str, str], root: Root, run: Run) -> str:
    """Write the names that this node needs for a job to /etc/hosts, and return a message about missing ones.

    :param environment: the prolog's, as job/hooks/options.py makes it.
    :raises BrokenBlock: the block in /etc/hosts has no end or no beginning.
    :raises Locked: another prolog is writing the file.
    :raises OSError: the file cannot be written.
    """
    try:
        job_nodes = set(expand(environment.get("SLURM_JOB_NODELIST") or "")) - {""}
    except HostlistError as error:
        return str(error)
    known = node_queries.prolog_addresses(environment, root)
    unknown = sorted(job_nodes - set(known))
    problem = ""
    if unknown:
        try:
            env = slurmd_env.read(root)
            known.update(node_queries.query_addresses(unknown, env.controllers, run) if env else {})
        except (ConfigError, CommandFailed) as error:
            problem = f" ({error})"
    with only_one(root.at(HOSTS_LOCK), _LOCK_S):
        before, mode = read_file(root.at(HOSTS))
        # Keep the names in the block: another job on this node may need one that only its own prolog could resolve.
        names = {**_names_in(block_lines(before or "", BLOCK)), **_usable(known)}
        text = with_block(before or "", BLOCK, [f"{address} {name}" for name, address in sorted(names.items())])
        change_of(root.at(HOSTS), text, mode or 0o644).apply()
    missing = sorted(job_nodes - set(names))
    return f"no address is known for {', '.join(missing)}{problem}" if missing else ""


def _names_in(lines: Collection[str]) -> dict[str, str]:
    pairs = [line.split() for line in lines]
    return {pair[1]: pair[0] for pair in pairs if len(pair) == 2}


def _usable(known: Mapping[str, str]) -> dict[str, str]:
    """Return the entries that /etc/hosts can contain: a node whose address is a DNS name is resolved by that name."""
    return {name: address for name, address in known.items() if _HOST_NAME.fullmatch(name) and is_address(address)}
