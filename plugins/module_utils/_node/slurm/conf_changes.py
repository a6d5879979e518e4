# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""How two states of Slurm's configuration differ, and what each change needs: ``scontrol reconfigure``, or a restart,
and of which daemon. Each answer includes its source.

Until 23.02, a daemon that reconfigures reads its files again, but keeps the plugins that it loaded at its start.
Therefore both daemons are restarted for every key; jobs survive that. Since 23.11, a daemon that reconfigures starts a
new process (scontrol(1): "this command operates by creating new processes for the daemons"), so few changes need more.

The files are those that slurmctld reads and sends to nodes. Entries are stored as digests, because some values are
passwords, and the state that a daemon has loaded is recorded in a file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from ..machine.root import Root
from .conf_text import Words, expanded, meaningful_lines, parse_conf, read_conf, words_of
from .hostlist import HostlistError, compress, expand
from .releases import Release, has_known_effects

NEW_PROCESSES: Release = (23, 11)
NODES_BY_RECONFIGURE: Release = (24, 11)
"""slurm.conf(5) requires restarts until 24.05; since 24.11 it allows "restarting or reconfiguring"."""

_MANUAL = "slurm.conf(5)"
_RESTART_SOURCE = "a restart applies every key, and jobs continue; the daemons load plugins only at their start"


class Reload(IntEnum):
    """What a daemon needs; a higher value includes the lower ones."""

    NOTHING = 0
    RECONFIGURE = 1
    RESTART = 2


@dataclass(frozen=True)
class Effect:
    """What a change needs.

    :ivar source: the source of this knowledge.
    :ivar loses_jobs: slurmctld would lose jobs, including running ones.
    :ivar needs_idle_node: it disturbs jobs that run on the node.
    """

    slurmctld: Reload
    slurmd: Reload
    source: str
    loses_jobs: bool = False
    needs_idle_node: bool = False


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_RECONFIGURE = Effect(
    Reload.RECONFIGURE, Reload.RECONFIGURE, f"{_MANUAL}: 'scontrol reconfigure' unless otherwise noted"
)

# Keys in lower case. Since 23.11: "This will not be able to change the daemons' listening TCP port settings or
# authentication mechanism".
_AUTHENTICATION = _words("authalttypes authaltparameters authinfo authtype credtype cryptotype")
_NEVER_BY_RECONFIGURE = _AUTHENTICATION | {"slurmctldhost", "slurmctldport", "slurmuser"}
_NEVER_BY_RECONFIGURE_SLURMD = _AUTHENTICATION | {"slurmdport", "slurmdspooldir", "slurmduser"}
# "all job information will be lost", "records of all jobs in any state may be lost"; and a move of the state folder.
_LOSES_JOBS = _words("clustername selecttype statesavelocation switchtype")

_FILES = {
    "cgroup.conf": _RECONFIGURE,
    "topology.conf": Effect(Reload.RECONFIGURE, Reload.RECONFIGURE, "topology.conf(5)"),
    "acct_gather.conf": Effect(Reload.RESTART, Reload.RESTART, "acct_gather.conf(5): upon restart of the daemons"),
}


def effect_of(key: str, release: Release) -> Effect:
    """Return what a change of this slurm.conf key needs. An unknown key needs restarts."""
    key = key.lower()
    loses = key in _LOSES_JOBS
    if not has_known_effects(key):
        return Effect(Reload.RESTART, Reload.RESTART, "a key that this collection does not know", loses)
    if release >= NEW_PROCESSES:
        source = "scontrol(1): not listening ports and authentication"
        slurmctld = Reload.RESTART if key in _NEVER_BY_RECONFIGURE or loses else Reload.RECONFIGURE
        slurmd = Reload.RESTART if key in _NEVER_BY_RECONFIGURE_SLURMD or key == "selecttype" else Reload.RECONFIGURE
        return Effect(slurmctld, slurmd, source, loses) if Reload.RESTART in (slurmctld, slurmd) else _RECONFIGURE
    return Effect(Reload.RESTART, Reload.RESTART, _RESTART_SOURCE, loses)


def effect_of_nodes(release: Release) -> Effect:
    """Return what it needs to add, remove and change nodes.

    Until 23.02, slurmctld exits with "hostnames inconsistency detected" if it reconfigures with other nodes than before
    (read_slurm_conf in its read_config.c).
    """
    if release >= NODES_BY_RECONFIGURE:
        return Effect(Reload.RECONFIGURE, Reload.RECONFIGURE, f"{_MANUAL}, NODE CONFIGURATION")
    return Effect(Reload.RESTART, Reload.RECONFIGURE, f"{_MANUAL}, NODE CONFIGURATION: restarting slurmctld")


def effect_of_hardware(release: Release) -> Effect:
    """Return what a change of a node's processors, memory or GRES needs on that node."""
    if release >= NODES_BY_RECONFIGURE:
        return effect_of_nodes(release)
    return Effect(Reload.RESTART, Reload.RESTART, f"{_MANUAL}, NODE CONFIGURATION: restarting slurmctld and slurmd")


def effect_of_partitions(is_removed: bool) -> Effect:
    """Return what a change of partitions needs.

    "If a partition that is in use is deleted ... jobs using the partition are canceled" (slurm.conf(5)).
    """
    return Effect(Reload.RECONFIGURE, Reload.RECONFIGURE, f"{_MANUAL}, PARTITION CONFIGURATION", loses_jobs=is_removed)


def effect_of_file(name: str, release: Release) -> Effect:
    """Return what a change of another file needs."""
    if name == "job_container.conf":
        # slurmctld sends nodes the files that it read when it started or reconfigured (configless_update in
        # proc_req.c). Without a reconfigure, the restarted slurmd would get the old file again.
        source = f"{name}(5): 'slurmd will need to be restarted', and 'no jobs are running'"
        return Effect(Reload.RECONFIGURE, Reload.RESTART, source, needs_idle_node=True)
    if name == _GRES:
        slurmd = Reload.RESTART if release < NEW_PROCESSES else Reload.RECONFIGURE
        return Effect(Reload.RESTART, slurmd, "gres.conf(5): changes to Cores and Type")
    if name == "plugstack.conf":
        slurmd = Reload.RESTART if release < NEW_PROCESSES else Reload.RECONFIGURE
        return Effect(Reload.RECONFIGURE, slurmd, "slurmd's slurmd.c: spank_slurmd_init only at its start")
    if name == "cgroup.conf CgroupPlugin":
        return effect_of("ProctrackType", release)
    return _FILES.get(name, _RECONFIGURE if name.startswith("cgroup.conf") else Effect(
        Reload.RESTART, Reload.RESTART, "a file that this collection does not know"))  # fmt: skip


SHIPPED_FILES = (
    "slurm.conf",
    "acct_gather.conf",
    "cgroup.conf",
    "gres.conf",
    "job_container.conf",
    "plugstack.conf",
    "topology.conf",
)
"""Of the files that a slurmctld of 22.05 sends (fetch_config.c), those that a GPU cluster has."""

_MAIN, _CGROUP, _GRES = "slurm.conf", "cgroup.conf", "gres.conf"
_PARTITION, _OTHERS = "slurm.conf PartitionName=", "slurm.conf NodeSet, DownNodes"
_HARDWARE = ("cpus", "procs", "boards", "sockets", "socketsperboard", "corespersocket", "threadspercore", "realmemory",
             "gres", "corespeccount", "cpuspeclist", "memspeclimit")  # fmt: skip


@dataclass(frozen=True)
class Snapshot:
    """The content of the files.

    :ivar entries: a digest for each key, partition and further file, by a readable name.
    :ivar nodes: a digest of the nodes' words, by host list.
    :ivar hardware: a digest of only those words and lines of gres.conf that describe the hardware, by host list.
    """

    entries: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, str] = field(default_factory=dict)
    hardware: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """A difference, in words, and what it needs.

    :ivar partition: the partition that was removed.
    :ivar nodes: the nodes that were removed.
    """

    what: str
    effect: Effect
    partition: str = ""
    nodes: tuple[str, ...] = ()


def file_digests(root: Root, folder: str) -> dict[str, str]:
    """Return the SHA-256 of each file in the folder that slurmctld sends; it does not send empty ones."""
    digests = {}
    for name in SHIPPED_FILES:
        try:
            with open(root.at(f"{folder}/{name}"), "rb") as file:
                content = file.read()
        except OSError:
            continue
        if content:
            digests[name] = hashlib.sha256(content).hexdigest()
    return digests


def read_snapshot(root: Root, folder: str) -> Snapshot:
    """Return the content of the files in a folder."""
    conf = read_conf(root, folder)
    entries = {f"{_MAIN} {conf.names[key]}": _digest(value) for key, value in conf.settings.items()}
    entries.update((f"{_PARTITION}{name}", _digest_of(words)) for name, words in conf.partitions.items())
    if conf.others:
        entries[_OTHERS] = _digest("\n".join(conf.others))
    for name in SHIPPED_FILES:
        text = root.text(f"{folder}/{name}")
        if name == _MAIN or not text:
            continue
        if name == _CGROUP:
            settings = parse_conf(text)
            entries.update((f"{name} {settings.names[key]}", _digest(v)) for key, v in settings.settings.items())
        elif meaningful_lines(text):
            entries[name] = _digest("\n".join(meaningful_lines(text)))
    gres = _gres_of(root.text(f"{folder}/{_GRES}") or "", conf.nodes)
    hardware = {name: {**_hardware_of(words), **gres.get(name, {})} for name, words in conf.nodes.items()}
    return Snapshot(entries, _by_digest(conf.nodes), _by_digest(hardware))


def _hardware_of(words: Words) -> Words:
    return {key: value for key, value in words.items() if key in _HARDWARE}


def _gres_of(text: str, nodes: Iterable[str]) -> dict[str, Words]:
    """Return the lines of gres.conf that apply to each node, without its name: other nodes' names do not concern it."""
    lines: dict[str, list[str]] = {}
    for line in meaningful_lines(text):
        words = words_of(line)
        names = expanded(words.pop("nodename", "["))
        # A notation that only Slurm knows may mean any node.
        for name in nodes if "[" in names[0] else names:
            lines.setdefault(name, []).append(" ".join(f"{key}={words[key]}" for key in sorted(words)))
    return {name: {_GRES: "\n".join(own)} for name, own in lines.items()}


def _by_digest(nodes: Mapping[str, Words]) -> dict[str, str]:
    """Return a digest of each node's words; nodes with the same digest are one host list."""
    alike: dict[str, list[str]] = {}
    for name, words in nodes.items():
        alike.setdefault(_digest_of(words), []).append(name)
    return {compress(names): digest for digest, names in alike.items()}


def _digest_of(words: Words) -> str:
    return _digest("\n".join(f"{key}={words[key]}" for key in sorted(words)))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def find_changes(before: Snapshot, after: Snapshot, release: Release) -> list[Change]:
    """Return the differences between two states of the files, and what each needs. Pure."""
    changes = []
    for name in sorted({*before.entries, *after.entries}):
        if _folded(before.entries).get(name.lower()) != _folded(after.entries).get(name.lower()):
            changes.append(_change_of(name, name in after.entries, release))
    return [*changes, *_node_changes(_each_node(before.nodes), _each_node(after.nodes), release)]


def _folded(entries: Mapping[str, str]) -> dict[str, str]:
    """Slurm ignores the case of keys."""
    return {name.lower(): digest for name, digest in entries.items()}


def _change_of(name: str, is_present: bool, release: Release) -> Change:
    what = f"{name} {'changed' if is_present else 'was removed'}"
    if name.startswith(_PARTITION):
        return Change(what, effect_of_partitions(not is_present), "" if is_present else name[len(_PARTITION) :])
    if name == _OTHERS:
        return Change(what, effect_of_nodes(release))
    if name.startswith(f"{_MAIN} "):
        return Change(what, effect_of(name.split()[1], release))
    return Change(what, effect_of_file(name, release))


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
    effect = effect_of_nodes(release)
    # slurmctld ends a job that has a node which it does not know any more (reset_job_bitmaps in its read_config.c).
    found = (
        ("new nodes", added, effect, ()),
        ("nodes no longer", removed, replace(effect, loses_jobs=True), tuple(removed)),
        ("nodes changed", other, effect, ()),
    )
    return [
        Change(f"{verb} in slurm.conf: {compress(names)}", needed, nodes=gone)
        for verb, names, needed, gone in found
        if names
    ]


def restart_relevant(snapshot: Snapshot, release: Release) -> dict[str, dict[str, str]]:
    """Return the entries whose change requires a restart of slurmd, in a form that can be sent to nodes.

    gres.conf is part of each node's hardware, so that a line for new nodes restarts no slurmd of another node.
    """
    entries = {
        name: digest
        for name, digest in snapshot.entries.items()
        if name != _GRES and _change_of(name, True, release).effect.slurmd is Reload.RESTART
    }
    restarts = effect_of_hardware(release).slurmd is Reload.RESTART
    return {"entries": entries, "hardware": dict(snapshot.hardware) if restarts else {}}


def restart_relevant_for(relevant: Mapping[str, Mapping[str, str]], node: str) -> dict[str, str]:
    """Return those of the entries that apply to one node."""
    entries = dict(relevant.get("entries", {}))
    digest = _each_node(relevant.get("hardware", {})).get(node)
    return {**entries, _node_line(node): digest} if digest else entries


def _node_line(node: str) -> str:
    return f"slurm.conf NodeName={node}"


def restart_changes(before: Mapping[str, str], after: Mapping[str, str], node: str, release: Release) -> list[Change]:
    """Return the differences between two states of a node's entries."""
    names: Iterable[str] = sorted({*before, *after})
    return [
        Change(f"{name} changed", effect_of_hardware(release))
        if name == _node_line(node)
        else _change_of(name, name in after, release)
        for name in names
        if before.get(name) != after.get(name)
    ]
