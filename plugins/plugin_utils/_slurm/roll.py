# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides which nodes get another image next, when a rollout stops, and what it says at its end. All of it is pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .cluster import natural

LEFT, DONE, CANDIDATE = "left out", "done", "candidate"
WAITING, FREE, CHANGING, BOOTING, BACK = "waiting", "free", "changing", "booting", "back"
_MOST_NAMED = 20
"""Most nodes in a message."""
_IN_WORK = (WAITING, FREE, CHANGING, BOOTING)


@dataclass(frozen=True)
class Node:
    """A node at one moment.

    :ivar scale_set: resource id of its scale set.
    :ivar outdated: whether its instance has another image than the set's model; None if there is no such instance.
    :ivar changing: whether Azure is changing the instance.
    :ivar slurm: the node as ``rolling.facts_of`` returns it; None if slurmctld does not know it.
    """

    name: str
    scale_set: str
    outdated: bool | None
    changing: bool
    slurm: Mapping[str, Any] | None

    @property
    def has_jobs(self) -> bool:
        """Whether it is in use."""
        return self.slurm is not None and self.slurm["jobs"] is not None


def phase_of(node: Node) -> tuple[str, str]:
    """Return where the node is in the rollout, and why it is left out, if it is."""
    slurm = node.slurm
    if node.outdated is None:
        return LEFT, "its instance no longer exists"
    if slurm is None:
        return LEFT, "slurmctld does not know it"
    if slurm["ours"]:
        return _phase_of_ours(node, slurm), ""
    if not node.outdated:
        return DONE, ""
    if slurm["powered_off"]:
        return LEFT, f"it is {slurm['state']}"
    if slurm["out"]:
        return LEFT, f"it is {slurm['state']}: {slurm['reason'] or 'no reason given'}"
    if node.changing:
        return LEFT, "Azure is changing its instance"
    if not slurm["answers"]:
        return LEFT, "its slurmd does not answer"
    return CANDIDATE, ""


def _phase_of_ours(node: Node, slurm: Mapping[str, Any]) -> str:
    if node.changing:
        return CHANGING
    if node.outdated:
        return WAITING if node.has_jobs else FREE
    # The start time proves that this is the new system. Without a mark, the node was not reimaged by a rollout.
    restarted = not slurm["mark"] or slurm["slurmd_started"] != slurm["mark"]
    return BACK if restarted and slurm["answers"] else BOOTING


@dataclass(frozen=True)
class Step:
    """What to do now.

    :ivar drain: nodes to drain.
    :ivar mark: nodes without jobs, to mark and then to reimage.
    :ivar resume: nodes to resume.
    :ivar phases: the phase of each node.
    :ivar left: the nodes that are left out, with the reason.
    """

    drain: tuple[str, ...] = ()
    mark: tuple[str, ...] = ()
    resume: tuple[str, ...] = ()
    phases: Mapping[str, str] = field(default_factory=dict)
    left: Mapping[str, str] = field(default_factory=dict)

    @property
    def acts(self) -> bool:
        """Whether there is something to do."""
        return bool(self.drain or self.mark or self.resume)

    def all_in(self, *phases: str) -> list[str]:
        """Return the nodes in these phases."""
        return [name for name, phase in self.phases.items() if phase in phases]


def decide(
    nodes: Iterable[Node], *, at_most: int, canary: bool = False, stopping: bool = False, lost: Iterable[str] = ()
) -> Step:
    """Return what to do now.

    Nodes without jobs come first. A node with jobs is drained only if fewer than ``at_most`` nodes are out.

    :param at_most: how many nodes may be out at a time.
    :param canary: only one node of each set, which stays drained when it has come back.
    :param stopping: start nothing more, release the nodes that are only drained, and wait for the others.
    :param lost: nodes that did not come back in time.
    """
    listed = sorted(nodes, key=lambda node: natural(node.name))
    judged = {node.name: phase_of(node) for node in listed}
    phases = {name: phase for name, (phase, _why) in judged.items()}
    left = {name: why for name, (phase, why) in judged.items() if phase == LEFT}
    back = () if canary else tuple(name for name, phase in phases.items() if phase == BACK)
    if stopping:
        released = tuple(
            node.name
            for node in listed
            if phases[node.name] in (WAITING, FREE) and node.slurm is not None and not node.slurm["mark"]
        )
        return Step(resume=(*back, *released), phases=phases, left=left)
    lost_nodes = set(lost)
    free = tuple(name for name, phase in phases.items() if phase == FREE and name not in lost_nodes)
    out = [node for node in listed if phases[node.name] in (*_IN_WORK, *((BACK,) if canary else ()))]
    # Sorting is stable: the natural order stays among nodes with and without jobs.
    candidates = sorted((node for node in listed if phases[node.name] == CANDIDATE), key=lambda node: node.has_jobs)
    if canary:
        candidates = _one_of_each_set(candidates, {node.scale_set for node in out})
    room = max(0, at_most - len(out))
    return Step(tuple(node.name for node in candidates[:room]), free, back, phases, left)


def _one_of_each_set(candidates: Iterable[Node], served: set[str]) -> list[Node]:
    """Return the first candidate of each set that has no node in work."""
    first: dict[str, Node] = {}
    for node in candidates:
        if node.scale_set not in served:
            first.setdefault(node.scale_set, node)
    return list(first.values())


def is_over(step: Step, *, canary: bool, stopping: bool, lost: Iterable[str] = ()) -> bool:
    """Whether there is nothing left to do or to wait for."""
    if step.acts:
        return False
    lost_nodes = set(lost)
    awaited = (CHANGING, BOOTING) if stopping else _IN_WORK
    return not any(phase in awaited and name not in lost_nodes for name, phase in step.phases.items())


def words_of(step: Step) -> str:
    """Return how far the rollout is, as words."""
    total = sum(phase != LEFT for phase in step.phases.values())
    counts = {
        f"of {total} nodes have the image": len(step.all_in(DONE)),
        "wait for the end of jobs": len(step.all_in(WAITING)),
        "are reimaged": len(step.all_in(FREE, CHANGING)),
        "boot": len(step.all_in(BOOTING)),
        "are back": len(step.all_in(BACK)),
    }
    return ", ".join(f"{number} {what}" for what, number in counts.items() if number or what.startswith("of"))


def set_line(scale_set: Mapping[str, Any]) -> str:
    """Return a line about the image of a scale set and its instances."""
    image, before = str(scale_set["image"]), str(scale_set["before"])
    change = "" if image == before else f", before {before or 'an image of a shared or community gallery'}"
    outdated, current = len(scale_set["outdated"]), len(scale_set["current"])
    return f"{scale_set['name']}: {image}{change}; {current} of {outdated + current} instances have it"


def report(result: Mapping[str, Any], scale_sets: Iterable[Mapping[str, Any]], check: bool = False) -> str:
    """Return the result of a rollout as text.

    :param result: what ``slurm_roll`` returned.
    :param scale_sets: what ``vmss_image`` returned.
    """
    to_do, left_out = list(result["to_do"]), dict(result["left_out"])
    if check:
        parts = [f"Would get the image: {_names(to_do)}."]
    else:
        parts = [f"Reimaged: {_names(result['reimaged'])}. Resumed: {_names(result['resumed'])}."]
    if result["stopped"]:
        parts.insert(0, f"Stopped: {str(result['stopped']).rstrip('.')}.")
        parts += _after_a_stop(result, scale_sets)
    if left_out:
        reasons = "; ".join(f"{name}: {why}" for name, why in list(left_out.items())[:_MOST_NAMED])
        more = f"; and {len(left_out) - _MOST_NAMED} more" if len(left_out) > _MOST_NAMED else ""
        parts.append(f"Left out, with another image: {reasons}{more}. Run this again when they are in service.")
    return " ".join(parts)


def _after_a_stop(result: Mapping[str, Any], scale_sets: Iterable[Mapping[str, Any]]) -> list[str]:
    parts = []
    if result["drained"]:
        parts.append(f"Still drained: {_names(result['drained'])}.")
    if result["to_do"]:
        parts.append(f"These nodes have another image: {_names(result['to_do'])}.")
    earlier = sorted({str(item["before"]) for item in scale_sets if item["before"] != item["image"]})
    back = f" -e image={earlier[0]}" if len(earlier) == 1 and earlier[0] else " with the image before"
    parts.append(f"New instances get the new image. To continue, run this again. To go back, run it{back}.")
    return parts


def _names(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return (", ".join(listed[:_MOST_NAMED]) or "none") + more
