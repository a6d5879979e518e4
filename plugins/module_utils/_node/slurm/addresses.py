# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Addresses of the cluster's nodes, as a job's prolog can find them: a node's name in Slurm is not its machine's."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from ..machine.root import Root
from ..machine.run import Run, must
from . import own_node
from .hostlist import HostlistError, expand
from .nodes import PLACEHOLDER_ADDRESS


def told(environment: Mapping[str, str], root: Root) -> dict[str, str]:
    """Return the addresses that slurmd told the prolog, else those in its slurm.conf; no placeholders."""
    found = {**_configured(environment, root), **_aliases(environment)}
    return {name: address for name, address in found.items() if address != PLACEHOLDER_ADDRESS}


def asked(names: Sequence[str], controllers: Sequence[str], run: Run) -> dict[str, str]:
    """Return the addresses that slurmctld has of these nodes; no placeholders.

    :raises CommandFailed: slurmctld does not answer.
    """
    words = ["sinfo", "--noheader", "--all", "--Node", f"--nodes={','.join(names)}", "--format=%N %o"]
    shown = must(own_node.ask_slurm(controllers, words, run)).stdout
    pairs = [line.split() for line in shown.splitlines()]
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2 and pair[1] != PLACEHOLDER_ADDRESS}


def _aliases(environment: Mapping[str, str]) -> dict[str, str]:
    """name:address:hostname,... of nodes that joined by themselves; an IPv6 address stands in brackets."""
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
