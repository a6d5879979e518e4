# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Selects the groups of nodes to try next after a collective over several nodes failed, until the bad nodes are known.

It keeps no state between calls: everything follows from the trials so far. It assumes that a bad node makes every run
fail in which it takes part, and that if a group of nodes works, each smaller group of them works too.

First, all nodes are tried in pairs, all pairs at the same time. A node of a pair that works is good. A node of a pair
that fails is tried with good nodes: it is bad if it fails with two of them. Two good nodes that fail together twice
have a bad link between them. If all pairs work but a larger group fails, the group is halved; if both halves work, new
halves are formed from their quarters, until no smaller group fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..machine.verdict import FAIL, PASS

_MOST = 8
"""How often a node is tried in a pair without success. If no node was found to be good by then, the fault is in
something that all nodes share."""
_SURE = 2
"""How many good nodes a bad node must fail with, how often a bad link must fail, and how often a group is tried that
cannot be measured."""


@dataclass(frozen=True)
class Trial:
    """A run over several nodes.

    :ivar nodes: their names, in the given order.
    :ivar verdict: PASS, FAIL, or UNKNOWN if it did not run, which says nothing about the nodes.
    :ivar value: the measured value, e.g. the bus bandwidth in GB/s; None if nothing was measured.
    :ivar why: one line: what was wrong.
    """

    nodes: tuple[str, ...]
    verdict: str
    value: float | None = None
    why: str = ""

    @property
    def members(self) -> frozenset[str]:
        """The nodes without their order."""
        return frozenset(self.nodes)


@dataclass(frozen=True)
class Step:
    """What is known, and what to try next.

    :ivar groups: the groups to try, all at the same time: no node is in two of them. Empty if there is nothing to try.
    :ivar good: nodes that took part in a run that worked.
    :ivar bad: nodes that fail with every node.
    :ivar links: pairs of good nodes that fail only with each other.
    :ivar groups_failing: groups of good nodes that fail although no smaller group of them failed.
    :ivar unclear: nodes that could not be judged.
    :ivar words: one line for people.
    """

    groups: tuple[tuple[str, ...], ...]
    good: tuple[str, ...]
    bad: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    groups_failing: tuple[tuple[str, ...], ...]
    unclear: tuple[str, ...]
    words: str

    @property
    def done(self) -> bool:
        """Whether there is nothing more to try."""
        return not self.groups


def next_step(nodes: Sequence[str], trials: Iterable[Trial] = (), known_good: Sequence[str] = ()) -> Step:
    """Return what the trials say about the nodes, and which groups to try next.

    :param nodes: the nodes in question, ordered so that neighbours are near each other in the network.
    :param trials: all runs so far; the failed run over all nodes may be the first.
    :param known_good: nodes that are known to be good; they need not be in ``nodes``.
    :raises ValueError: fewer than two nodes.
    """
    if len({*nodes, *known_good}) < 2:
        raise ValueError("a run over several nodes needs at least two nodes")
    known = _Evidence(tuple(dict.fromkeys(nodes)), tuple(trials), tuple(dict.fromkeys(known_good)))
    groups: tuple[tuple[str, ...], ...] = tuple(known.pairs())
    failing: list[tuple[str, ...]] = []
    if not groups:
        groups, failing = known.narrowed()
    return Step(
        groups,
        tuple(node for node in known.nodes if node in known.good),
        known.bad,
        known.links,
        tuple(failing),
        () if groups else known.suspects,
        _words(known, groups, failing),
    )


class _Evidence:
    """What the trials say."""

    def __init__(self, nodes: tuple[str, ...], trials: tuple[Trial, ...], known_good: tuple[str, ...]) -> None:
        self.nodes = nodes
        self.trials = trials
        self.passed = [trial.members for trial in trials if trial.verdict == PASS]
        self.failed = [trial for trial in trials if trial.verdict == FAIL]
        self.in_vain = [trial.members for trial in trials if trial.verdict not in (PASS, FAIL)]
        self.good = frozenset(known_good).union(*self.passed)
        self.partners = tuple(dict.fromkeys([*(node for node in nodes if node in self.good), *known_good]))
        self.bad = tuple(node for node in nodes if node not in self.good and self._is_bad(node))
        self.suspects = tuple(node for node in nodes if node not in self.good and node not in self.bad)
        self.links = tuple(self._links(_SURE))

    def _is_bad(self, node: str) -> bool:
        """Whether it failed with enough good nodes."""
        with_good = {
            trial.members - {node}
            for trial in self.failed
            if node in trial.members and trial.members - {node} <= self.good
        }
        return len(with_good) >= _SURE

    def _links(self, times: int) -> Iterator[tuple[str, str]]:
        """Yield pairs of good nodes that failed at least this often and never worked."""
        pairs = [trial.members for trial in self.failed if len(trial.members) == 2 and trial.members <= self.good]
        for pair in dict.fromkeys(pairs):
            if pairs.count(pair) >= times and not self.works(pair):
                first, second = sorted(pair, key=lambda name: (self.partners.index(name), name))
                yield first, second

    def works(self, group: frozenset[str]) -> bool:
        """Whether the group, or a larger group that contains it, worked, or it is a single good node."""
        return any(group <= passed for passed in self.passed) or (len(group) == 1 and group <= self.good)

    def tried(self, group: Iterable[str]) -> bool:
        """Whether trying this group would give no new information."""
        members = frozenset(group)
        if self.works(members) or any(trial.members == members for trial in self.failed):
            return True
        return self.in_vain.count(members) >= _SURE

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the pairs to try next."""
        fresh = [node for node in self.suspects if not self._in_pairs_so_far(node)]
        again = [node for node in self.suspects if node not in fresh and self._in_pairs_so_far(node) < _MOST]
        while len(fresh) > 1:
            yield fresh.pop(0), fresh.pop(0)
        again += fresh
        free = list(self.partners)
        alone: list[str] = []
        for node in again:
            partner = next((other for other in free if not self.tried((node, other))), None)
            if partner is None:
                alone.append(node)
            else:
                free.remove(partner)
                yield node, partner
        if not self.partners:
            yield from self._untried_pairs(alone)
        # A pair of good nodes that failed once is tried a second time.
        for first, second in self._links(1):
            if (first, second) not in self.links and first in free and second in free:
                free.remove(first)
                free.remove(second)
                yield first, second

    def _in_pairs_so_far(self, node: str) -> int:
        return sum(node in trial.nodes and len(trial.members) == 2 for trial in self.trials)

    def _untried_pairs(self, nodes: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield pairs that have not been tried, with each node in at most one of them."""
        # The node that had no partner last time comes first.
        waiting = sorted(nodes, key=self._in_pairs_so_far)
        while waiting:
            node = waiting.pop(0)
            partner = next((other for other in waiting if not self.tried((node, other))), None)
            if partner is not None:
                waiting.remove(partner)
                yield node, partner

    def narrowed(self) -> tuple[tuple[tuple[str, ...], ...], list[tuple[str, ...]]]:
        """Return the smaller groups to try next of a failing group whose nodes and links are good, and the failing
        groups that cannot be narrowed further."""
        narrowest: list[tuple[str, ...]] = []
        unexplained = [trial for trial in self.failed if self._is_unexplained(trial.members)]
        for trial in sorted(unexplained, key=lambda trial: len(trial.members)):
            # A smaller failing group of its nodes explains the failure.
            if any(frozenset(group) < trial.members for group in narrowest) or trial.nodes in narrowest:
                continue
            groups = self._smaller(trial.nodes)
            if groups:
                return groups, []
            narrowest.append(trial.nodes)
        return (), narrowest

    def _is_unexplained(self, group: frozenset[str]) -> bool:
        return len(group) > 2 and group <= self.good and not any({*link} <= group for link in self.links)

    def _smaller(self, group: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
        """Return the smaller groups to try next; none if all of them were tried and worked."""
        middle = len(group) // 2
        first, second = group[:middle], group[middle:]
        quarter = middle // 2
        for one, other in (
            (first, second),
            (first[:quarter] + second[:quarter], first[quarter:] + second[quarter:]),
            (first[:quarter] + second[quarter:], first[quarter:] + second[:quarter]),
        ):
            cut = tuple(half for half in (one, other) if len(half) > 1 and half != group and not self.tried(half))
            if cut:
                return cut
        return ()


def _words(known: _Evidence, groups: Sequence[Sequence[str]], failing: Sequence[Sequence[str]]) -> str:
    clauses = []
    if known.bad:
        clauses.append(f"{_listed(known.bad)} {'fails' if len(known.bad) == 1 else 'fail'} with each node tried")
    clauses += [f"{first} and {second} work with others, but not with each other" for first, second in known.links]
    clauses += [f"{_listed(group)} fail together, but no smaller group of them failed" for group in failing]
    if groups:
        clauses.append(f"{len(groups)} {'group' if len(groups) == 1 else 'groups'} to try next")
    elif known.suspects and not known.partners and _failed_at_all(known):
        clauses.append(
            "the two nodes do not work together: to find the bad one, add a third node that is known to be good"
            if len(known.nodes) == 2
            else "no two nodes work together: check what all nodes share: settings, program, network"
        )
    elif known.suspects:
        clauses.append(f"{_listed(known.suspects)} could not be judged: there were too few runs with good nodes")
    return "; ".join(clauses) or "all nodes work with each other"


def _failed_at_all(known: _Evidence) -> bool:
    return any(len(trial.members) == 2 for trial in known.failed)


def _listed(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
