# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Which nodes to try next, together, after a collective over several nodes failed: until it is plain which is bad.

Nothing is kept between two questions: all follows from the trials so far. What is taken for true: a bad node makes
every run fail that it takes part in, and where a group of nodes works, each smaller group of them works too.

First all nodes are tried two by two, all pairs at once. A node of a pair that works is good. A node of a pair that does
not work is tried with good nodes: it is bad where it fails with two of them. Two good nodes that fail together have a
bad link between them, if they do so twice. Where all pairs work and a greater group does not, the group is halved, and
where both halves work, crossed, until no smaller one fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

PASS, FAIL, UNKNOWN = "pass", "fail", "unknown"

_MOST = 8
"""How often a node is tried in a pair without success. Where no node was found to be good by then, it is the fault of
something that all share."""
_SURE = 2
"""How many good nodes a bad one fails with, how often a bad link fails, how often a run may not come about."""


@dataclass(frozen=True)
class Trial:
    """A run over several nodes.

    :ivar nodes: their names, in the order in which they were given.
    :ivar verdict: PASS, FAIL, or UNKNOWN where it did not come about, which says nothing of the nodes.
    :ivar value: what was measured, e.g. the bus bandwidth in GB/s; None where nothing was.
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

    :ivar groups: the groups to try, all at the same time: no node is in two of them. None: there is nothing to try.
    :ivar good: nodes that took part in a run that worked.
    :ivar bad: nodes that fail with whomever.
    :ivar links: pairs of good nodes that fail with each other, and only so.
    :ivar groups_failing: groups of good nodes that fail though no smaller group of them was seen to.
    :ivar unclear: nodes of which neither can be said.
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
    """Return what the trials tell of the nodes, and which groups to try next.

    :param nodes: the nodes in question, in an order in which neighbours are near to each other in the network.
    :param trials: all runs so far; the one over all nodes that failed may be the first.
    :param known_good: nodes that are known to be good; they need not be among the others.
    :raises ValueError: fewer than two nodes.
    """
    if len({*nodes, *known_good}) < 2:
        raise ValueError("a run over several nodes needs two of them at least")
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
        """Whether it failed with enough good ones."""
        with_good = {
            trial.members - {node}
            for trial in self.failed
            if node in trial.members and trial.members - {node} <= self.good
        }
        return len(with_good) >= _SURE

    def _links(self, times: int) -> Iterator[tuple[str, str]]:
        """Yield pairs of good nodes that failed so often, and never worked."""
        pairs = [trial.members for trial in self.failed if len(trial.members) == 2 and trial.members <= self.good]
        for pair in dict.fromkeys(pairs):
            if pairs.count(pair) >= times and not self.works(pair):
                first, second = sorted(pair, key=lambda name: (self.partners.index(name), name))
                yield first, second

    def works(self, group: frozenset[str]) -> bool:
        """Whether the group, or a greater one that it is part of, worked, or it is good and alone."""
        return any(group <= passed for passed in self.passed) or (len(group) == 1 and group <= self.good)

    def tried(self, group: Iterable[str]) -> bool:
        """Whether there is nothing to be learned from trying it."""
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
        # What failed once between two good ones is tried once more.
        for first, second in self._links(1):
            if (first, second) not in self.links and first in free and second in free:
                free.remove(first)
                free.remove(second)
                yield first, second

    def _in_pairs_so_far(self, node: str) -> int:
        return sum(node in trial.nodes and len(trial.members) == 2 for trial in self.trials)

    def _untried_pairs(self, nodes: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield pairs that have not been tried, each node in one of them."""
        # The one that was left over last time comes first.
        waiting = sorted(nodes, key=self._in_pairs_so_far)
        while waiting:
            node = waiting.pop(0)
            partner = next((other for other in waiting if not self.tried((node, other))), None)
            if partner is not None:
                waiting.remove(partner)
                yield node, partner

    def narrowed(self) -> tuple[tuple[tuple[str, ...], ...], list[tuple[str, ...]]]:
        """Return smaller groups to try of a failing one whose nodes and links are good; and those that have none."""
        narrowest: list[tuple[str, ...]] = []
        unexplained = [trial for trial in self.failed if self._is_unexplained(trial.members)]
        for trial in sorted(unexplained, key=lambda trial: len(trial.members)):
            # A smaller one of its nodes explains it.
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
        """Return the groups that this one is to be cut into next; none where all were tried and worked."""
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
    clauses += [f"{_listed(group)} fail together, and no smaller group of them was seen to fail" for group in failing]
    if groups:
        clauses.append(f"{len(groups)} {'group' if len(groups) == 1 else 'groups'} to try next")
    elif known.suspects and not known.partners and _failed_at_all(known):
        clauses.append(
            "no two nodes work together: two nodes need a third, good one to compare with"
            if len(known.nodes) == 2
            else "no two nodes work together: look at what all share: settings, program, network"
        )
    elif known.suspects:
        clauses.append(f"nothing can be said of {_listed(known.suspects)}: too few runs with good nodes came about")
    return "; ".join(clauses) or "all nodes work with each other"


def _failed_at_all(known: _Evidence) -> bool:
    return any(len(trial.members) == 2 for trial in known.failed)


def _listed(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
