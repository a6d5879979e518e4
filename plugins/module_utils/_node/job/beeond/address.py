# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Where the job's first node is reached. No name need resolve to it: a node's name in Slurm is not its machine's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Callable

from ...machine.config import ConfigError
from ...machine.root import Root
from ...machine.run import CommandFailed, Run
from ...slurm import node_queries, slurmd_env
from ...slurm.nodes import PLACEHOLDER_ADDRESS
from .failures import OwnFailure

Ask = Callable[[str], str]
"""Returns a node's address as slurmctld has it; empty where it has none."""


def address_of(node: str, environment: Mapping[str, str], root: Root, ask: Ask) -> str:
    """Return a node's address: as slurmd was told it for this job, else as its slurm.conf has it, else from slurmctld.

    :raises OwnFailure: nobody knows one.
    """
    found = node_queries.prolog_addresses(environment, root).get(node)
    if found:
        return found
    found = ask(node)
    if not found or found == PLACEHOLDER_ADDRESS:
        raise OwnFailure(f"neither slurm.conf nor slurmctld tells the address of node {node}, which is the job's first")
    return found


def asker(root: Root, run: Run) -> Ask:
    """Return what asks slurmctld, with a limit; silence is no address."""

    def ask(node: str) -> str:
        try:
            env = slurmd_env.read(root)
            return node_queries.query_address(node, env.controllers, run) if env else ""
        except (ConfigError, CommandFailed):
            return ""

    return ask
