# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The nft rules, the service that loads them, the drop-in for nftables.service, and a comparison with the kernel."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...machine.run import Run
from .options import MetadataOptions

TABLE = "hpcai_metadata"
RULES = "/etc/hpcai/metadata.nft"
SERVICE = "hpcai-metadata.service"
UNIT = f"/etc/systemd/system/{SERVICE}"
DROP_IN = "/etc/systemd/system/nftables.service.d/hpcai-metadata.conf"
NFT = "/usr/sbin/nft"
HPCNODE = "/usr/bin/hpcnode"
ATTACH = f"{HPCNODE} metadata attach"
_MARK = "# Written by the module hpcai.azure.metadata_access, which overwrites it."
_COMMENT = re.compile(r'comment "([^"]*)"')

METADATA, HOST = "169.254.169.254", "168.63.129.16"
"""The metadata service, and the host's service for the guest agent (WireServer), which also answers DNS on port 53."""
AGENT, AGENT_PORT = "127.0.0.1", 3080
"""Where Azure's guest proxy agent listens. It runs as root, and eBPF redirects all connections to the two addresses to
it before nftables sees them (Azure/GuestProxyAgent, proxy_agent/src/common/constants.rs)."""


@dataclass(frozen=True)
class GuardedAddress:
    """TCP ports of an address that only root and listed users may reach."""

    name: str
    address: str
    ports: tuple[int, ...]

    @property
    def match(self) -> str:
        """The match part of an nftables rule."""
        several = f"{{ {', '.join(map(str, self.ports))} }}"
        return f"ip daddr {self.address} tcp dport {self.ports[0] if len(self.ports) == 1 else several}"


_AGENT_ADDRESS = GuardedAddress("guest proxy agent", AGENT, (AGENT_PORT,))
_AZURE_ADDRESSES = (
    GuardedAddress("metadata service", METADATA, (80,)),
    GuardedAddress("host service", HOST, (80, 32526)),
)


def guarded(has_agent: bool) -> tuple[GuardedAddress, ...]:
    """Return the addresses that only root and listed users may reach.

    :param has_agent: whether Azure's guest proxy agent is on this machine.
    """
    return (*_AZURE_ADDRESSES, _AGENT_ADDRESS) if has_agent else _AZURE_ADDRESSES


def rules(uids: Sequence[int], has_agent: bool) -> str:
    """Return the file for nft. Loading it replaces the table in one transaction.

    The chains come before address translation (priority -100), so they see the original destination of a packet. They
    need no connection tracking, which would cost time and memory for every other connection of the node.

    :param uids: uids of the allowed users.
    :param has_agent: whether Azure's guest proxy agent is on this machine.
    """
    may = ", ".join(str(uid) for uid in uids)
    # nft allows 128 characters in a comment.
    who = may if len(may) <= 80 else f"{len(uids)} users, {hashlib.sha256(may.encode()).hexdigest()[:16]}"
    output = "".join(f'        {address.match} jump guard comment "{address.name}"\n' for address in guarded(has_agent))
    forward = "".join(
        f'        {address.match} counter reject with tcp reset comment "{address.name}, forwarded"\n'
        for address in _AZURE_ADDRESSES
    )
    return f"""\
{_MARK}
# Only root and these users reach Azure's metadata service, which gives out the node's identity.
table inet {TABLE}
delete table inet {TABLE}
table inet {TABLE} {{
    chain guard {{
        meta skuid {{ {may} }} accept comment "users {who}"
        meta skuid != {{ {may} }} counter reject with tcp reset comment "other users than {who}"
        # A packet whose socket is closed has no user. It may end a connection of root, but not start one.
        tcp flags & syn == syn counter reject with tcp reset comment "no user"
    }}
    chain output {{
        type filter hook output priority -300; policy accept;
{output}    }}
    # Other network namespaces, such as those of containers.
    chain forward {{
        type filter hook forward priority -300; policy accept;
{forward}    }}
}}
"""


def comments_of(text: str) -> list[str]:
    """Return the comments of the rules in a file for nft, in order."""
    return _COMMENT.findall(text)


def unit() -> str:
    """Return the service that loads the rules at boot. slurmd does not start without it."""
    return f"""\
{_MARK}
[Unit]
Description=Restrict Azure's metadata service to root and listed users
DefaultDependencies=no
RequiresMountsFor=/etc/hpcai
# The rules of nftables.service may begin with "flush ruleset".
After=nftables.service
Wants=network-pre.target
Before=network-pre.target systemd-user-sessions.service cron.service crond.service atd.service slurmd.service

[Service]
Type=oneshot
RemainAfterExit=yes
# A stop does nothing: the rules stay.
ExecStart={NFT} -f {RULES}
# A failure is ignored: hpcnode may not be installed, and containers cannot attach the filter. The health check
# metadata_service warns.
ExecStartPost=-{ATTACH}
ExecReload={NFT} -f {RULES}
ExecReload=-{ATTACH}

[Install]
WantedBy=sysinit.target
RequiredBy=slurmd.service
"""


def drop_in(options: MetadataOptions) -> str:
    """Return the drop-in with which nftables.service loads the site's rules and ours in one transaction.

    Without it, "flush ruleset" in the site's rules would leave the metadata service open until ours are loaded again.
    """
    ours, site = f'include "{RULES}"', f'include "{options.site_rules}"'
    reload = f"flush ruleset; {site}; {ours}" if options.reload_flushes else f"{site}; {ours}"
    return f"""\
{_MARK}
[Service]
ExecStart=
ExecStart={NFT} '{site}; {ours}'
ExecReload=
ExecReload={NFT} '{reload}'
ExecStop=
ExecStop={NFT} 'flush ruleset; {ours}'
"""


LIST = ("nft", "--json", "list", "table", "inet", TABLE)
_HOOKS = ("forward", "output")


class RulesUnreadable(RuntimeError):
    """nft does not list the rules; the message says why."""


def difference(text: str, run: Run) -> str:
    """Return how the kernel's table differs from the one in ``text``; empty if it does not.

    Rules are compared by their comments, which nft lists unchanged; the rules themselves are printed differently by
    different versions of nft.

    :raises RulesUnreadable: nft is not installed, has no permission, or its answer is not valid.
    """
    answer = run(LIST)
    if answer.rc != 0:
        message = (answer.stderr.strip() or answer.stdout.strip() or f"exit status {answer.rc}").splitlines()[0]
        if "No such file or directory" in message:
            return f"the kernel has no table inet {TABLE}"
        raise RulesUnreadable(f"nft does not list the table inet {TABLE}: {message}")
    try:
        shown = [item for item in json.loads(answer.stdout)["nftables"] if isinstance(item, dict)]
        table = next(item["table"] for item in shown if "table" in item)
        chains = [item["chain"] for item in shown if "chain" in item]
        found = [_comment(item["rule"]) for item in shown if "rule" in item]
        hooks = sorted(chain["hook"] for chain in chains if "hook" in chain)
    except (ValueError, LookupError, TypeError, StopIteration):
        raise RulesUnreadable(f"'{' '.join(LIST)}' did not return the expected JSON") from None
    if "dormant" in str(table.get("flags", "")):
        return f"the table inet {TABLE} is dormant"
    expected = comments_of(text)
    if sorted(found) != sorted(expected) or tuple(hooks) != _HOOKS:
        missing = [comment for comment in expected if comment not in found]
        more = [comment for comment in found if comment not in expected]
        words = [f"missing: {', '.join(missing)}"] * bool(missing) + [f"unknown: {', '.join(more)}"] * bool(more)
        return f"the table inet {TABLE} has different rules than the file ({'; '.join(words) or 'chains'})"
    return ""


def _comment(rule: dict[str, Any]) -> str:
    return str(rule.get("comment", "a rule without comment"))
