# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What NCCL's own log says about the environment that was really in force (NCCL_DEBUG=INFO).

A variable in a job script proves nothing: NCCL reads the first of several settings, and a plugin that does not load is
replaced silently. NCCL logs each variable that it read, whatever it came from (src/misc/param.cc and param.h), the
adapters with ``[RO]`` for relaxed ordering (src/transport/net_ib), the plugin (src/plugin/net.cc, before 2.27
src/net.cc), and with the subsystem TUNING the algorithm of each operation (src/enqueue.cc).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_SET = re.compile(r"NCCL INFO (NCCL_[A-Z0-9_]+) set (?:by environment )?to (\S+?)\.?$", re.MULTILINE)
_VERSION = re.compile(r"NCCL version (\S+)")
_BOOTSTRAP = re.compile(r"NCCL INFO Bootstrap ?: Using (\S+?):")
_ADAPTERS = re.compile(r"NCCL INFO NET/IB ?: Using (.*)$", re.MULTILINE)
_ADAPTER = re.compile(r"\[\d+\]([^ :]+):\d+/")
_NETWORK = re.compile(r"NCCL INFO Using network (.+?)\s*$", re.MULTILINE)
_PLUGIN = re.compile(
    r"NCCL INFO (?:Plugin Path ?: (?P<path>\S+)"
    r"|(?P<loaded>NET/Plugin ?: (?:Loaded|Using).*?)\s*$"
    r"|(?P<p2p>P2P plugin (?:v\d+ )?\S+))",
    re.MULTILINE,
)
_NO_PLUGIN = re.compile(r"NET/Plugin ?: (?:No plugin found|Could not find: libnccl-net\.so)")
_ALGORITHM = re.compile(r"(\w+): (\d+) Bytes -> Algo (\w+) proto (\w+)")
_ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
"""By the numbers that NCCL before 2.24 printed (src/include/nccl_common.h)."""
_PROTOCOLS = ("LL", "LL128", "SIMPLE")
_DEVICE = re.compile(r"^#\s+Rank\s+(\d+) .*\bon\s+(\S+)\s+device\s+\d+\s+\[([0-9a-fA-F:.]+)\]", re.MULTILINE)

DEBUG: Mapping[str, str] = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV,NET,TUNING"}
"""Variables with which NCCL writes all of this."""


@dataclass(frozen=True)
class InForce:
    """The environment that NCCL reported.

    :ivar seen: whether NCCL logged anything; if not, nothing is known.
    :ivar version: of NCCL.
    :ivar variables: those that it read, from the environment or a file, with their values.
    :ivar interface: the interface over which ranks find each other.
    :ivar network: what carries the data between nodes: ``IB``, ``Socket``, or a plugin's name; empty if not logged.
    :ivar adapters: names of the InfiniBand adapters.
    :ivar relaxed_ordering: whether the adapters use relaxed ordering; None if not logged.
    :ivar sharp: whether the adapters support SHARP in the network.
    :ivar plugin: the network plugin as NCCL reported it; empty if it reported none.
    :ivar no_plugin: whether NCCL reported that there is none.
    :ivar algorithms: ``RING/SIMPLE`` and the like by message size in bytes, if NCCL logged them.
    :ivar by_bus: whether the GPUs are numbered by their PCI addresses (CUDA_DEVICE_ORDER=PCI_BUS_ID); None if the
        program does not show addresses.
    """

    seen: bool = False
    version: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    interface: str = ""
    network: str = ""
    adapters: tuple[str, ...] = ()
    relaxed_ordering: bool | None = None
    sharp: bool = False
    plugin: str = ""
    no_plugin: bool = False
    algorithms: Mapping[int, str] = field(default_factory=dict)
    by_bus: bool | None = None

    @property
    def topology_file(self) -> str:
        """Path of the topology file that NCCL read; empty if it read none."""
        return self.variables.get("NCCL_TOPO_FILE", "")


def read(text: str) -> InForce:
    """Return what the output of a program with NCCL says."""
    version, bootstrap = _VERSION.search(text), _BOOTSTRAP.search(text)
    adapters, network = _ADAPTERS.search(text), _NETWORK.search(text)
    plugin = next((found for found in map(_plugin, _PLUGIN.finditer(text)) if found), "")
    return InForce(
        seen="NCCL INFO" in text,
        version=version[1] if version else "",
        variables=dict(_SET.findall(text)),
        interface=bootstrap[1] if bootstrap else "",
        network=network[1] if network else "",
        adapters=tuple(_ADAPTER.findall(adapters[1])) if adapters else (),
        relaxed_ordering="[RO]" in adapters[1] if adapters else None,
        sharp=bool(adapters and "/SHARP" in adapters[1]),
        plugin=plugin,
        no_plugin=not plugin and bool(_NO_PLUGIN.search(text)),
        algorithms={int(size): _algorithm(name, protocol) for _what, size, name, protocol in _ALGORITHM.findall(text)},
        by_bus=_by_bus(text),
    )


def _plugin(found: re.Match[str]) -> str:
    return found["path"] or found["loaded"] or found["p2p"] or ""


def _algorithm(name: str, protocol: str) -> str:
    known = (_ALGORITHMS, name), (_PROTOCOLS, protocol)
    words = [names[int(word)] if word.isdecimal() and int(word) < len(names) else word for names, word in known]
    return "/".join(words)


def _by_bus(text: str) -> bool | None:
    """Return whether the ranks of each node use GPUs in the order of their PCI addresses."""
    nodes: dict[str, list[str]] = {}
    for _rank, node, address in sorted(_DEVICE.findall(text), key=lambda found: int(found[0])):
        nodes.setdefault(node, []).append(address.lower())
    addresses = [one for listed in nodes.values() for one in listed]
    # Older versions print only the bus, which is 0x00 for each GPU of an Azure VM.
    if not addresses or any(":" not in one for one in addresses) or len(addresses) == len(nodes):
        return None
    return all(listed == sorted(listed) for listed in nodes.values())


_ABOUT = "not logged"


def in_words(found: InForce) -> dict[str, str]:
    """Return the environment in force as terms and texts, for people."""
    algorithms = list(dict.fromkeys(found.algorithms.values()))
    return {
        "NCCL": found.version or _ABOUT,
        "topology file": found.topology_file or "none was read",
        "relaxed ordering": {True: "on", False: "off", None: _ABOUT}[found.relaxed_ordering],
        "interface": found.interface or _ABOUT,
        "network": found.network or _ABOUT,
        "adapters": ", ".join(found.adapters) or _ABOUT,
        "network plugin": found.plugin or ("none was loaded" if found.no_plugin else _ABOUT),
        "SHARP": "in the adapters" if found.sharp else "not in the adapters",
        "NCCL_IB_AR_THRESHOLD": found.variables.get("NCCL_IB_AR_THRESHOLD", "not set (NCCL's default is 8192)"),
        "NCCL_ALGO": found.variables.get("NCCL_ALGO", "not set: NCCL chooses"),
        "algorithms": ", ".join(algorithms) or _ABOUT,
        "order of the GPUs": {True: "by PCI address", False: "NOT by PCI address", None: _ABOUT}[found.by_bus],
    }
