# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of nodes that are not there yet, so that an instance which a scale set gets later can join by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.hostlist import compress

from .cluster import ClusterError, Hostvars, Node, is_uniform_id, node_name

DEFAULT_COUNT = 32
"""Spare names of a scale set that ``wanted`` does not name."""
MOST = 5000
"""More names than any scale set can have instances, and few enough for slurmctld."""
_KEYS = {"count", "vm_size", "first"}


class SpareNames(TypedDict):
    """The spare names of one Uniform scale set.

    ``highest`` is the highest instance id that the set is known to have had, -1 for none; ``names`` is the spare ones.
    """

    set: str
    vm_size: str
    highest: int
    names: list[str]
    nodes: str


@dataclass(frozen=True)
class _Wish:
    """What the user wants for a set."""

    count: int
    vm_size: str | None = None
    first: int = 0


def spare_names(hosts: Iterable[Hostvars], wanted: Any, seen: Mapping[str, int]) -> list[SpareNames]:
    """Return the spare names of each Uniform scale set, in the order of the sets' names.

    They follow the highest id that the set has, or is known to have had: ids of a Uniform set are never used again, so
    what is missing below does not come back.

    :param wanted: how many names a set gets: a number for all sets, or a mapping of sets to a number or to ``count``,
        ``vm_size`` and ``first``. A set that has no instance gets names only if a ``vm_size`` is given for it.
    :param seen: the highest id that each set was known to have had before.
    :raises ClusterError: ``wanted`` is of another form.
    """
    wishes, others = _wishes(wanted)
    members: dict[str, dict[int, Hostvars]] = {}
    taken = set()
    for hostvars in hosts:
        taken.add(node_name(hostvars))
        if is_uniform_id(hostvars):
            members.setdefault(str(hostvars["azure_vmss"]), {})[int(hostvars["azure_instance_id"])] = hostvars
    found: list[SpareNames] = []
    for name in sorted(members.keys() | {name for name, wish in wishes.items() if wish.vm_size}):
        instances = members.get(name, {})
        wish = wishes.get(name, _Wish(others))
        highest = max([int(seen.get(name, -1)), *instances])
        ids = range(max(highest + 1, wish.first), max(highest + 1, wish.first) + wish.count)
        names = [each for each in (f"{name}-{number}" for number in ids) if each not in taken]
        size = wish.vm_size or _size_of_next(instances)
        if not size:
            raise ClusterError(
                f"scale set {name} has no VM size: give one in slurm_spare_nodes, or 0 for no spare nodes."
            )
        found.append({"set": name, "vm_size": size, "highest": highest, "names": names, "nodes": compress(names)})
    return found


def spare_nodes(spares: Iterable[SpareNames], described_sizes: Mapping[str, Mapping[str, Any]]) -> list[Node]:
    """Return the nodes that these names stand for.

    :raises UnknownVmSize: a size is known to nobody.
    """
    return [
        Node(name, "", spare["set"], find_size(spare["vm_size"], described_sizes), is_spare=True)
        for spare in spares
        for name in spare["names"]
    ]


def _size_of_next(instances: Mapping[int, Hostvars]) -> str | None:
    """Return the size that the next instance gets: the model's, else that of the newest instance."""
    newest = instances[max(instances)]
    model = newest.get("azure_scale_set")
    size = (model.get("vm_size") if isinstance(model, Mapping) else None) or newest.get("azure_vm_size")
    return str(size) if size else None


def _wishes(wanted: Any) -> tuple[dict[str, _Wish], int]:
    """Return what is wanted for the sets that are named, and the count for all others."""
    if isinstance(wanted, Mapping):
        return {str(name): _wish(str(name), wish) for name, wish in wanted.items()}, DEFAULT_COUNT
    return {}, _number(wanted, "slurm_spare_nodes")


def _wish(name: str, wish: Any) -> _Wish:
    where = f"slurm_spare_nodes.{name}"
    if not isinstance(wish, Mapping):
        return _Wish(_number(wish, where))
    unknown = sorted(str(key) for key in wish if key not in _KEYS)
    if unknown:
        raise ClusterError(f"{where} has unknown keys: {', '.join(unknown)}; it may have {', '.join(sorted(_KEYS))}.")
    size = wish.get("vm_size")
    return _Wish(
        count=_number(wish.get("count", DEFAULT_COUNT), f"{where}.count"),
        vm_size=str(size) if size else None,
        first=_number(wish.get("first", 0), f"{where}.first", most=10**9),
    )


def _number(value: Any, where: str, most: int = MOST) -> int:
    # From the command line a number comes as a text.
    text = str(value).strip()
    if isinstance(value, bool) or not (text.isascii() and text.isdecimal()) or int(text) > most:
        raise ClusterError(f"{where} is {value!r}: it must be a whole number from 0 to {most}.")
    return int(text)
