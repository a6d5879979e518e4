# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The files that slurmctld reads and ships to nodes: what they say, entry by entry, and how two states of them differ.

Entries are kept as digests: some values are passwords, and what a daemon has taken lies in a file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Callable

from ..machine.root import Root
from . import effects
from .conf_text import SlurmConf, Words, meaningful_lines, parse_conf, read_conf
from .effects import Effect, Need, Release
from .hostlist import HostlistError, compress, expand

FILES = (
    "slurm.conf",
    "acct_gather.conf",
    "cgroup.conf",
    "gres.conf",
    "job_container.conf",
    "plugstack.conf",
    "topology.conf",
)
"""Of those that a slurmctld of 22.05 ships (fetch_config.c), the ones that a GPU cluster has."""

_MAIN, _CGROUP = "slurm.conf", "cgroup.conf"
_PARTITION, _OTHERS = "slurm.conf PartitionName=", "slurm.conf NodeSet, DownNodes"
_HARDWARE = ("cpus", "procs", "boards", "sockets", "socketsperboard", "corespersocket", "threadspercore", "realmemory",
             "gres", "corespeccount", "cpuspeclist", "memspeclimit")  # fmt: skip


@dataclass(frozen=True)
class Snapshot:
    """What the files say.

    :ivar entries: a digest for each key, partition and further file, by a name that people understand.
    :ivar nodes: a digest of the nodes' words, by host list.
    :ivar hardware: the same of those words alone that say what the machine has.
    """

    entries: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, str] = field(default_factory=dict)
    hardware: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """Something that differs, in words, and what it needs."""

    what: str
    effect: Effect
    partition: str = ""


def file_digests(root: Root, folder: str) -> dict[str, str]:
    """Return the SHA-256 of each file of the folder that is shipped; empty ones are not."""
    digests = {}
    for name in FILES:
        try:
            with open(root.at(f"{folder}/{name}"), "rb") as file:
                content = file.read()
        except OSError:
            continue
        if content:
            digests[name] = hashlib.sha256(content).hexdigest()
    return digests


def read_snapshot(root: Root, folder: str) -> Snapshot:
    """Return what the files of a folder say."""
    conf = read_conf(root, folder)
    entries = {f"{_MAIN} {conf.names[key]}": _digest(value) for key, value in conf.settings.items()}
    entries.update((f"{_PARTITION}{name}", _digest_of(words)) for name, words in conf.partitions.items())
    if conf.others:
        entries[_OTHERS] = _digest("\n".join(conf.others))
    for name in FILES:
        text = root.text(f"{folder}/{name}")
        if name == _MAIN or not text:
            continue
        if name == _CGROUP:
            settings = parse_conf(text)
            entries.update((f"{name} {settings.names[key]}", _digest(v)) for key, v in settings.settings.items())
        elif meaningful_lines(text):
            entries[name] = _digest("\n".join(meaningful_lines(text)))
    return Snapshot(entries, _by_digest(conf, lambda words: words), _by_digest(conf, _hardware_of))


def _hardware_of(words: Words) -> Words:
    return {key: value for key, value in words.items() if key in _HARDWARE}


def _by_digest(conf: SlurmConf, chosen: Callable[[Words], Words]) -> dict[str, str]:
    """Return a digest of the chosen words of each node, the nodes that have the same one as one host list."""
    alike: dict[str, list[str]] = {}
    for name, words in conf.nodes.items():
        alike.setdefault(_digest_of(chosen(words)), []).append(name)
    return {compress(names): digest for digest, names in alike.items()}


def _digest_of(words: Words) -> str:
    return _digest("\n".join(f"{key}={words[key]}" for key in sorted(words)))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def changes(before: Snapshot, after: Snapshot, release: Release) -> list[Change]:
    """Return in what two states of the files differ, and what each difference needs. Pure."""
    found = []
    for name in sorted({*before.entries, *after.entries}):
        if _folded(before.entries).get(name.lower()) != _folded(after.entries).get(name.lower()):
            found.append(_change_of(name, name in after.entries, release))
    return [*found, *_node_changes(_each_node(before.nodes), _each_node(after.nodes), release)]


def _folded(entries: Mapping[str, str]) -> dict[str, str]:
    """Slurm does not look at the case of keys."""
    return {name.lower(): digest for name, digest in entries.items()}


def _change_of(name: str, is_there: bool, release: Release) -> Change:
    what = f"{name} {'changed' if is_there else 'was removed'}"
    if name.startswith(_PARTITION):
        return Change(what, effects.effect_of_partitions(not is_there), "" if is_there else name[len(_PARTITION) :])
    if name == _OTHERS:
        return Change(what, effects.effect_of_nodes(release))
    if name.startswith(f"{_MAIN} "):
        return Change(what, effects.effect_of(name.split()[1], release))
    return Change(what, effects.effect_of_file(name, release))


def _each_node(lists: Mapping[str, str]) -> dict[str, str]:
    each: dict[str, str] = {}
    for hostlist, digest in lists.items():
        try:
            each.update((name, digest) for name in expand(hostlist))
        except HostlistError:
            each[hostlist] = digest
    return each


def _node_changes(before: Mapping[str, str], after: Mapping[str, str], release: Release) -> list[Change]:
    added = [name for name in after if name not in before]
    removed = [name for name in before if name not in after]
    other = [name for name in after if name in before and before[name] != after[name]]
    effect = effects.effect_of_nodes(release)
    return [
        Change(f"{verb} in slurm.conf: {compress(names)}", effect)
        for verb, names in (("new nodes", added), ("nodes no longer", removed), ("nodes changed", other))
        if names
    ]


def part_for_slurmd(snapshot: Snapshot, release: Release) -> dict[str, dict[str, str]]:
    """Return that part of a state for whose change a slurmd must be restarted, in a form that can be sent to nodes."""
    entries = {
        name: digest
        for name, digest in snapshot.entries.items()
        if _change_of(name, True, release).effect.slurmd is Need.RESTART
    }
    restarts = effects.effect_of_own_hardware(release).slurmd is Need.RESTART
    return {"entries": entries, "hardware": dict(snapshot.hardware) if restarts else {}}


def part_for_node(part: Mapping[str, Mapping[str, str]], node: str) -> dict[str, str]:
    """Return what of that part concerns one node."""
    entries = dict(part.get("entries", {}))
    own = _each_node(part.get("hardware", {})).get(node)
    return {**entries, _own_line(node): own} if own else entries


def _own_line(node: str) -> str:
    return f"slurm.conf NodeName={node}"


def part_changes(before: Mapping[str, str], after: Mapping[str, str], node: str, release: Release) -> list[Change]:
    """Return in what a node's part differs."""
    names: Iterable[str] = sorted({*before, *after})
    return [
        Change(f"{name} changed", effects.effect_of_own_hardware(release))
        if name == _own_line(node)
        else _change_of(name, name in after, release)
        for name in names
        if before.get(name) != after.get(name)
    ]
