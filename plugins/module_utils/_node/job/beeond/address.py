# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Where the job's first node is reached. No name need resolve to it: a node's name in Slurm is not its machine's."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Callable

from ...machine.config import ConfigError
from ...machine.root import Root
from ...machine.run import CommandFailed, Run
from ...slurm import own_node, slurmd_env
from ...slurm.hostlist import HostlistError, expand
from ...slurm.nodes import PLACEHOLDER_ADDRESS
from .failures import OwnFailure

Ask = Callable[[str], str]
"""Returns a node's address as slurmctld has it; empty where it has none."""


def address_of(node: str, environment: Mapping[str, str], root: Root, ask: Ask) -> str:
    """Return a node's address: as slurmd was told it for this job, else as its slurm.conf has it, else from slurmctld.

    :raises OwnFailure: nobody knows one.
    """
    for found in (_alias(node, environment), _configured(node, environment, root)):
        if found and found != PLACEHOLDER_ADDRESS:
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
            return own_node.address(node, env.controllers, run) if env else ""
        except (ConfigError, CommandFailed):
            return ""

    return ask


def _alias(node: str, environment: Mapping[str, str]) -> str:
    """name:address:hostname,... of nodes that joined by themselves; an IPv6 address stands in brackets."""
    for word in re.split(r",(?![^\[]*\])", environment.get("SLURM_NODE_ALIASES") or ""):
        match = re.fullmatch(r"([^:]+):(\[[^\]]+\]|[^:]+):[^:]+", word)
        if match and match[1] == node:
            return match[2].strip("[]")
    return ""


def _configured(node: str, environment: Mapping[str, str], root: Root) -> str:
    path = environment.get("SLURM_CONF") or ""
    text = root.text(path) if os.path.isabs(path) else None
    for line in (text or "").splitlines():
        keys = dict(word.split("=", 1) for word in line.split() if "=" in word)
        named = {key.lower(): value.strip('"') for key, value in keys.items()}
        if "nodename" in named and "nodeaddr" in named:
            found = _paired(node, named["nodename"], named["nodeaddr"])
            if found:
                return found
    return ""


def _paired(node: str, names: str, addresses: str) -> str:
    try:
        listed: Sequence[str] = expand(names)
        return dict(zip(listed, expand(addresses))).get(node, "")
    except HostlistError:
        return ""
