# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Node-hours by account, from slurmdbd. Jobs that share a node share its time equally.

Without enforced associations, a user can submit with any text as account, also with a line break. So sacct separates
fields by a text that nobody can know before, and the account is the last one. Users decide how many jobs and accounts
there are, so only the jobs of one day are in memory at a time, and the smallest accounts are added up.
"""

from __future__ import annotations

import secrets
from typing import Callable

from ..slurm.hostlist import HostlistError, expand
from ..slurm.nodes import as_reason
from .accounting import Query, Times, query, slices, slurm_time

_FIELDS = "Start,End,NodeList,Account"
_LONGEST = 40
_MOST_ACCOUNTS = 1000
OTHERS = "other accounts"
"""Name of what the smallest accounts of a set used, if it has too many of them."""

_Use = tuple[float, float, str]


def node_hours(
    since: float, until: float, set_of: Callable[[str], str | None], ask: Query = query
) -> dict[str, dict[str, float]]:
    """Return the node-hours of each account, by the set of the nodes.

    :param since, until: seconds since the epoch.
    :param set_of: the set that a node belongs to; None if it is not to be counted.
    :raises CommandFailed: slurmdbd does not answer.
    """
    found: dict[str, dict[str, float]] = {}
    for begin, stop in slices(since, until):
        for name, uses in _uses(begin, stop, set_of, ask).items():
            by_account = found.setdefault(set_of(name) or "", {})
            for account, seconds in _shared(uses).items():
                by_account[account] = by_account.get(account, 0.0) + seconds / 3600
        found = {name: _largest(by_account) for name, by_account in found.items()}
    return found


def _uses(since: float, until: float, set_of: Callable[[str], str | None], ask: Query) -> dict[str, list[_Use]]:
    """Return when which account used each node."""
    delimiter = f"~{secrets.token_hex(8)}~"
    read_time = Times()
    on: dict[str, list[_Use]] = {}

    def handle(line: str) -> None:
        fields = line.split(delimiter)
        if len(fields) != 4:
            return
        try:
            began, ended = read_time(fields[0]), read_time(fields[1])
            names = [name for name in expand(fields[2]) if set_of(name)]
        except (ValueError, HostlistError):
            # A time or a list of nodes that does not exist, such as "None assigned".
            return
        first, last = max(since, until if began is None else began), min(until, until if ended is None else ended)
        if first < last:
            use = (first, last, as_reason(fields[3], _LONGEST))
            for name in names:
                on.setdefault(name, []).append(use)

    words = ["sacct", "--allusers", "--allocations", "--duplicates", "--noheader", "--parsable2"]
    words += [f"--delimiter={delimiter}", f"--starttime={slurm_time(since)}", f"--endtime={slurm_time(until)}"]
    ask([*words, f"--format={_FIELDS}"], handle)
    return on


def _largest(by_account: dict[str, float]) -> dict[str, float]:
    """Return the accounts that used the most; what the others used is added up."""
    if len(by_account) <= _MOST_ACCOUNTS:
        return by_account
    rest = by_account.pop(OTHERS, 0.0)
    listed = sorted(by_account.items(), key=lambda one: -one[1])
    return {**dict(listed[:_MOST_ACCOUNTS]), OTHERS: rest + sum(hours for _name, hours in listed[_MOST_ACCOUNTS:])}


def _shared(uses: list[_Use]) -> dict[str, float]:
    """Return the seconds of each account on one node."""
    found: dict[str, float] = {}
    changes = sorted(change for first, last, account in uses for change in ((first, 1, account), (last, -1, account)))
    running: dict[str, int] = {}
    jobs, before = 0, 0.0
    for moment, change, account in changes:
        if moment > before:
            for one, count in running.items():
                found[one] = found.get(one, 0.0) + (moment - before) * count / jobs
            before = moment
        jobs += change
        running[account] = running.get(account, 0) + change
        if not running[account]:
            del running[account]
    return found
