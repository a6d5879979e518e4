# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Commands about a set of nodes that readers of the page copy, and the page's links.

A reader pastes a command into a shell, so it contains only names of nodes from the inventory, and only those that no
shell interprets. The page's commands.js fills the same commands in for the nodes that a reader has filtered.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.catalog import NAMES
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.hostlist import compress

from .._azure.resources import resource_group_of, segment, subscription_of
from .gather import is_time, natural

PORTAL = "https://portal.azure.com/#resource"
DOCUMENTATION = "https://github.com/hpcai/azure/tree/main/docs"
"""The value of documentation in galaxy.yml, which an installed collection lacks."""
GUIDE = "docsite/rst/guide_health.rst"
"""The page of the documentation with a section for each check."""

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_DEFAULT_TIER, _BENCHMARKS = "periodic", "benchmark"


@dataclass(frozen=True)
class Command:
    """A command about nodes. The list of nodes is part of one word, which is quoted for the shell.

    :ivar label: the name of its button.
    :ivar before: the words before that word, with a blank at the end.
    :ivar prefix: the start of that word.
    :ivar folded: whether the nodes are one host list of Slurm's names, else inventory names with commas.
    :ivar quoted: whether that word is quoted. A host list alone is not, because it is no command.
    :ivar after: the words after that word, with a blank at the start.
    """

    label: str
    before: str = ""
    prefix: str = ""
    folded: bool = True
    quoted: bool = True
    after: str = ""

    def text(self, nodes: Iterable[Mapping[str, Any]]) -> str:
        """Return the command for these nodes of a report. Empty if it can contain none of them."""
        usable = [node for node in nodes if is_usable(node)]
        if not usable:
            return ""
        if self.folded:
            names = compress(dict.fromkeys(sorted((node["slurm_name"] for node in usable), key=natural)))
        else:
            names = ",".join(node["host_name"] for node in usable)
        word = f"{self.prefix}{names}"
        return f"{self.before}{shlex.quote(word) if self.quoted else word}{self.after}"


def commands_of(report: Mapping[str, Any]) -> tuple[Command, ...]:
    """Return the commands that the page offers. Without a confirmation in a variable, replace changes nothing."""
    tier = "" if report["tier"] == _DEFAULT_TIER else f"-e {shlex.quote('hpcai_health_tier=' + report['tier'])} "
    if report["tier"] == _BENCHMARKS:
        # A benchmark is no reason to drain or to replace a node.
        return Command("Host list", quoted=False), Command("scontrol show", "scontrol show node ")
    made = f" of {report['time']}" if is_time(report["time"]) else ""
    drained = f" State=DRAIN {shlex.quote(f'Reason=health report{made}')}"
    return (
        Command("Host list", quoted=False),
        Command("scontrol show", "scontrol show node "),
        Command("scontrol drain", "sudo scontrol update ", "NodeName=", after=drained),
        Command("health_check --limit", f"ansible-playbook hpcai.azure.health_check {tier}--limit ", folded=False),
        Command("replace", "ansible-playbook hpcai.azure.replace -e ", "hpcai_replace="),
    )


def is_usable(node: Mapping[str, Any]) -> bool:
    """Say whether the names of a node can be part of a command."""
    return all(_PLAIN_NAME.fullmatch(node[key]) for key in ("host_name", "slurm_name"))


def in_slurm_order(nodes: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the positions of the nodes in the order in which their Slurm names fold best."""
    return sorted(range(len(nodes)), key=lambda place: natural(nodes[place]["slurm_name"]))


def portal_link(azure_id: str) -> str:
    """Return the address of an instance in Azure's portal. Empty if this is not the id of an instance."""
    parts = (subscription_of(azure_id), resource_group_of(azure_id), segment(azure_id, "virtualMachines"))
    return PORTAL + quote(azure_id, safe="/()") if azure_id.startswith("/") and all(parts) else ""


def documentation_link(check: str) -> str:
    """Return the address of the documentation of a check. Empty if this version has no such check."""
    return f"{DOCUMENTATION}/{GUIDE}#{anchor_of(check)}" if check in NAMES else ""


def anchor_of(check: str) -> str:
    """Return the anchor of a check's section, as docutils derives it from the title."""
    return check.replace("_", "-")
