# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Azure's metadata service: the rules that allow it only for root and listed users are loaded."""

from __future__ import annotations

from ...machine.bpf import BpfError
from ...machine.proxy_agent import ProxyAgent, read_proxy_agent
from ...machine.root import Root
from ...setup.metadata import connect
from ...setup.metadata.options import SETTINGS, MetadataProblem, read_guard, read_users
from ...setup.metadata.rules import AGENT_PORT, ATTACH, NFT, RULES, SERVICE, TABLE, RulesUnreadable, difference
from ..check import BOOT, FAIL, OBSERVE, PERIODIC, UNKNOWN, WARN, Answer, Check, Context, Finding, Reading

_OPEN = "every user of this machine can reach the metadata service, and use the node's identity"


def _measure(context: Context) -> Answer:
    root = context.root
    agent = read_proxy_agent(root)
    guard = read_guard(root)
    if guard is None:
        return Answer(skipped=f"no {SETTINGS}: the role hpcai.azure.node_tools has not run here")
    if not guard and agent is not None and agent.enforces:
        return Answer(skipped=f"Azure's guest proxy agent restricts the access instead: {agent.state}")
    if not guard:
        return Answer(skipped=f"turned off by {SETTINGS}, so {_OPEN}")
    text = root.text(RULES)
    if text is None:
        words = f"{root.at(RULES)} is missing: after the next boot, {_OPEN}"
        return Answer(findings=(Finding(FAIL, words, hint="Run site.yml, which writes it"),))
    try:
        differs = difference(text, context.run)
    except RulesUnreadable as error:
        return Answer(findings=(Finding(UNKNOWN, str(error), hint=f"Run '{NFT} list ruleset' as root"),))
    findings = [] if not differs else [Finding(FAIL, f"{differs}: {_OPEN}", hint=f"Run 'systemctl reload {SERVICE}'")]
    if agent is not None and str(AGENT_PORT) not in text:
        words = "Azure's guest proxy agent was installed after the rules, and forwards requests of all users"
        findings.append(Finding(WARN, words, hint="Run site.yml, which writes the rules again"))
    unfiltered = _unfiltered(root)
    if unfiltered:
        words = f"{unfiltered}: a job that inherits one, as from slurmstepd's PMIx, can use the node's identity"
        findings.append(Finding(WARN, words, hint=f"Run '{ATTACH}' as root, or site.yml"))
    return Answer(
        good=f"only root and listed users reach the metadata service{_words(agent)}",
        readings=(Reading("metadata_rules", differs or "loaded"),)
        + ((Reading("metadata_security_protocol", agent.state or "no state known"),) if agent else ()),
        findings=tuple(findings),
        limit=f"the table inet {TABLE} is as in {RULES}",
    )


def _unfiltered(root: Root) -> str:
    """Return what is wrong with the kernel filter; empty if that is not known, as in a container."""
    try:
        return connect.difference(root, read_users(root))
    except (BpfError, MetadataProblem):
        return ""


def _words(agent: ProxyAgent | None) -> str:
    return f"; Azure's guest proxy agent: {agent.state or 'no state known'}" if agent else ""


METADATA_SERVICE = Check(
    name="metadata_service",
    title="Metadata service",
    explain=(
        "The rules of nftables let only root and the users in node_tools_metadata_users reach Azure's metadata "
        "service. The check fails if these rules are not loaded, or differ from /etc/hpcai/metadata.nft. It warns in "
        "two cases in which a job could still reach the service. First, the filter that hpcnode attaches to connect(2) "
        "is missing. The rules check the user who opened a socket, so without the filter, a job could use a socket "
        "that it inherits from root. Second, Azure's guest proxy agent, which forwards requests of all users, was "
        "installed after the rules."
    ),
    tiers=(PERIODIC, BOOT),
    measure=_measure,
    action=OBSERVE,
)
