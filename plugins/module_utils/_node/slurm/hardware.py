# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Compare a node's real hardware, from ``slurmd -C`` and its device files, with slurm.conf."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..machine.root import Root
from ..machine.run import Run, must
from .conf_text import SlurmConf, Words, meaningful_lines, words_of
from .hostlist import HostlistError, expand
from .nodes import HARDWARE, SLURMD_WAITS

_COUNTS = ("CPUs", "Boards", "SocketsPerBoard", "CoresPerSocket", "ThreadsPerCore", "RealMemory")
# Before 25.05, "slurmd -C" ignores these parameters, and prints other sockets than slurmd uses.
_LAYOUT_PARAMETERS = ("l3cache_as_socket", "numa_node_as_socket")
_NO_COMPARISON = "config_overrides"


@dataclass(frozen=True)
class NodeHardware:
    """The hardware of a node.

    :ivar counts: slurmd's figures, by their names in ``slurmd -C``.
    :ivar missing_files: device files that gres.conf lists for this node, but that do not exist.
    :ivar waits: why slurmd must still be restarted, once no job runs here.
    """

    counts: Mapping[str, int]
    missing_files: Sequence[str] = ()
    waits: Sequence[str] = ()


def read_counts(run: Run) -> dict[str, int]:
    """Ask slurmd for this machine's hardware.

    :raises CommandFailed: slurmd cannot find it out.
    """
    return parse_counts(must(run(["slurmd", "-C"])).stdout)


def parse_counts(printed: str) -> dict[str, int]:
    """Return the figures in the output of ``slurmd -C``."""
    line = next((line for line in printed.splitlines() if line.startswith("NodeName=")), "")
    matches = {name: re.search(rf"(?:^| ){name}=(\d+)", line) for name in _COUNTS}
    return {name: int(count[1]) for name, count in matches.items() if count}


def missing_files(gres_conf: str, node: str, root: Root) -> list[str]:
    """Return the device files that gres.conf lists for a node, but that do not exist on this machine."""
    missing = []
    for line in meaningful_lines(gres_conf):
        words = words_of(line)
        if "file" in words and (_names(words.get("nodename", node), node)):
            missing += [path for path in _paths(words["file"]) if not root.exists(path)]
    return missing


def _names(listed: str, node: str) -> bool:
    try:
        return node in expand(listed)
    except HostlistError:
        return False


def _paths(pattern: str) -> list[str]:
    try:
        return expand(pattern)
    except HostlistError:
        # A notation with several brackets, which only Slurm can expand.
        return []


def from_result(result: Mapping[str, Any]) -> NodeHardware:
    """Return the hardware from the result of the module slurmd on a node."""
    return NodeHardware(result.get("hardware") or {}, result.get("missing_files") or (), result.get("waits") or ())


def differences(conf: SlurmConf, node: str, reported: NodeHardware) -> list[str]:
    """Return the differences between a node and slurm.conf, one text each. Pure.

    Figures that slurm.conf does not have are not compared: slurmctld derives them. More hardware than configured
    is not a difference. Slurm's own text in the node's reason is ignored, because it may be outdated.
    """
    parameters = conf.settings.get("slurmdparameters", "").lower().split(",")
    missing = [f"{path} is missing" for path in reported.missing_files]
    words = conf.nodes.get(node)
    if words is None or _NO_COMPARISON in parameters:
        return missing
    differing = list(_lower(words, reported.counts, _memory_share(conf, words)))
    if not any(parameter in parameters for parameter in _LAYOUT_PARAMETERS):
        differing += _other_layout(words, reported.counts)
    return differing + missing


def _memory_share(conf: SlurmConf, words: Words) -> float:
    """Return the share of its RealMemory that slurmctld requires of a node (node_reg_mem_percent of slurm.conf(5))."""
    stated = re.search(r"node_reg_mem_percent=([\d.]+)", conf.settings.get("slurmctldparameters", "").lower())
    if stated:
        return float(stated[1]) / 100
    return 0.9 if words.get("state", "").upper() == "CLOUD" else 1.0


def _lower(words: Words, counts: Mapping[str, int], memory_share: float) -> Iterable[str]:
    for key, configured, share in (
        ("CPUs", words.get("cpus", words.get("procs")), 1.0),
        ("RealMemory", words.get("realmemory"), memory_share),
    ):
        if configured and configured.isdecimal() and key in counts and counts[key] < int(configured) * share:
            yield f"{key} is {counts[key]}, configured {configured}"


def _other_layout(words: Words, counts: Mapping[str, int]) -> Iterable[str]:
    boards = counts.get("Boards", 1)
    has = {
        "Sockets": boards * counts.get("SocketsPerBoard", 0),
        "CoresPerSocket": counts.get("CoresPerSocket", 0),
        "ThreadsPerCore": counts.get("ThreadsPerCore", 0),
    }
    sockets = words.get("sockets")
    if not sockets and words.get("socketsperboard", "").isdecimal() and words.get("boards", "1").isdecimal():
        sockets = str(int(words["socketsperboard"]) * int(words.get("boards", "1")))
    stated = {"sockets": sockets or "", **{key: words.get(key, "") for key in ("corespersocket", "threadspercore")}}
    for key, count in has.items():
        configured = stated[key.lower()]
        if configured.isdecimal() and count and count != int(configured):
            yield f"{key} is {count}, configured {configured}"


def reason_against(conf: SlurmConf, node: str, reported: NodeHardware) -> str | None:
    """Return the reason why a node should not get jobs; None if there is none. Pure."""
    differing = differences(conf, node, reported)
    if differing:
        return f"{HARDWARE} {'; '.join(differing)}"
    return f"{SLURMD_WAITS} {'; '.join(reported.waits)}" if reported.waits else None
