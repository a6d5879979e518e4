# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Health results of a cluster of any size, as ``hpcnode health`` prints them and a task registers them.

Most nodes are healthy. A few have realistic faults: a GPU that fell off the bus, slow copies, a slow link, a check that
hangs, an old driver, a hot GPU, no SSH. The same seed gives the same cluster.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

TIME = "2026-11-22T16:40:00Z"
GPUS = tuple(f"{number:04}:00:00.0" for number in range(1, 9))
PORTS = tuple(f"mlx5_ib{number}" for number in range(8))
DISKS = tuple(f"nvme{number}n1" for number in range(8))
SIZES = ("Standard_ND96asr_v4", "Standard_ND96isr_H100_v5")

# Name, summary if healthy, and readings: name, unit, devices, usual value, spread, limit, whether that is a maximum.
Readings = tuple[tuple[str, str, tuple[str, ...], float, float, "float | None", bool], ...]
CHECKS: tuple[tuple[str, str, Readings], ...] = (
    ("gpu_count", "8 of 8 GPUs", (("gpu_count", "", ("",), 8, 0, 8, False),)),
    ("gpu_identity", "PCI and NVML agree on 8 GPUs", ()),
    ("gpu_ecc", "no uncorrectable errors", (("gpu_ecc_uncorrectable", "", GPUS, 0, 0, 0, True),)),
    ("gpu_remapped_rows", "no row was remapped", (("gpu_remapped_rows", "", GPUS, 0, 0, 8, True),)),
    ("gpu_xid", "no XID since boot", (("gpu_xid_count", "", ("",), 0, 0, None, False),)),
    ("gpu_clocks", "as set", (("gpu_graphics_clock", "MHz", GPUS, 1410, 0, None, False),)),
    ("gpu_throttle", "nothing slows them down", (("gpu_throttled_share", "%", GPUS, 0, 0, 5, True),)),
    ("gpu_temperature", "the hottest is below its limit", (("gpu_temperature", "C", GPUS, 41, 3.5, 85, True),)),
    ("gpu_power", "below the limit", (("gpu_power", "W", GPUS, 62, 4, 400, True),)),
    ("gpu_nvlink", "96 of 96 links are up", (("gpu_nvlink_up", "", GPUS, 12, 0, 12, False),)),
    ("gpu_persistence", "on", ()),
    ("fabric_manager", "active", ()),
    ("gpu_driver", "all alike", ()),
    ("gpu_pcie", "x16 at 16 GT/s", (("gpu_pcie_width", "", GPUS, 16, 0, 16, False),)),
    ("ib_ports", "8 ports are active", (("ib_rate", "Gb/s", PORTS, 200, 0, 200, False),)),
    ("ib_flaps", "no link went down in 24 h", (("ib_link_down", "", PORTS, 0, 0, 5, True),)),
    ("ib_errors", "few errors", (("ib_symbol_errors", "", PORTS, 2, 1.5, None, False),)),
    ("ib_pkeys", "a partition key on each port", ()),
    ("nvme_count", "8 of 8 disks", (("nvme_count", "", ("",), 8, 0, 8, False),)),
    ("nvme_wear", "little worn", (("nvme_percentage_used", "%", DISKS, 4, 1.2, 90, True),)),
    ("nvme_temperature", "cool", (("nvme_temperature", "C", DISKS, 38, 2.5, 70, True),)),
    ("scratch_raid", "all members are active", ()),
    ("memory", "885 GiB", (("memory", "GiB", ("",), 885, 0.4, 855, False),)),
    ("cpu", "96 CPUs", (("cpus", "", ("",), 96, 0, 96, False),)),
    ("numa", "4 nodes", (("numa_nodes", "", ("",), 4, 0, 4, False),)),
    ("pci_topology", "as the NCCL topology says", ()),
    ("mounts", "3 mounts answer", (("mount_seconds", "s", ("/home", "/shared"), 0.004, 0.001, None, False),)),
    ("free_space", "room everywhere", (("free_space", "%", ("/", "/scratch"), 81, 4, 5, False),)),
    ("time_sync", "in step", (("time_offset", "ms", ("",), 0.12, 0.05, 100, True),)),
    ("services", "all active", ()),
    ("leftovers", "nothing left of dead jobs", (("zombies", "", ("",), 0, 0, None, False),)),
    ("gpu_host_bandwidth", "at least 24.1 GB/s", (("gpu_host_bandwidth", "GB/s", GPUS, 24.6, 0.12, 21, False),)),
    ("gpu_peer_bandwidth", "at least 268 GB/s", (("gpu_peer_bandwidth", "GB/s", GPUS, 271, 1.1, 235, False),)),
    ("nccl_allreduce", "232 GB/s", (("nccl_allreduce", "GB/s", ("",), 232.5, 0.6, 228, False),)),
    ("nccl_alltoall", "196 GB/s", (("nccl_alltoall", "GB/s", ("",), 196, 1.5, None, False),)),
    ("nccl_ib_loopback", "19.6 GB/s", (("nccl_ib_loopback", "GB/s", ("",), 19.6, 0.2, 18, False),)),
    ("ib_write_bandwidth", "196 Gb/s", (("ib_write_bandwidth", "Gb/s", PORTS, 196.4, 0.4, 180, False),)),
    ("gemm", "279 TFLOP/s", (("gemm", "TFLOP/s", GPUS, 279, 1.8, None, False),)),
    ("cpu_stream", "312 GB/s", (("cpu_stream", "GB/s", ("",), 312, 3, None, False),)),
    ("dcgm", "level 2 passed", (("dcgm_tests", "", ("",), 14, 0, None, False),)),
)


@dataclass
class Node:
    """A node's results before they become a document."""

    host: str
    size: str
    checks: dict[str, dict[str, Any]]
    silent: str = ""
    words: dict[str, str] = field(default_factory=dict)


def cluster(count: int, seed: int = 7) -> list[dict[str, Any]]:
    """Return the inventory name, inventory variables and registered result of each node."""
    chance = random.Random(seed)
    nodes = [_healthy(f"compute-{number}", SIZES[number % 4 == 3], chance) for number in range(count)]
    for place, add_fault in zip(chance.sample(range(count), min(count, len(FAULTS))), FAULTS, strict=False):
        add_fault(nodes[place])
    return [_registered(number, node, chance) for number, node in enumerate(nodes)]


def _healthy(host: str, size: str, chance: random.Random) -> Node:
    checks = {name: _check(name, words, list(_readings(readings, chance))) for name, words, readings in CHECKS}
    checks["gpu_driver"]["readings"] = [reading("gpu_driver", "570.86.15")]
    if size.endswith("H100_v5"):
        checks["nccl_ib_loopback"].update(verdict="skip", summary="this size has no limit for it", readings=[])
    return Node(host, size, checks)


def _check(name: str, words: str, readings: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": name,
        "verdict": "pass",
        "summary": words,
        "hint": "",
        "action": "nothing",
        "fault": "",
        "cause": "node",
        "seconds": 0.02,
        "latched": False,
        "limit": "",
        "findings": [],
        "readings": readings or [reading(name, "good")],
    }


def reading(name: str, value: Any, unit: str = "", device: str = "", **more: Any) -> dict[str, Any]:
    """Return a reading in the format of the document."""
    return {"name": name, "value": value, "unit": unit, "device": device, "limit": None, "at_most": False, **more}


def _readings(of: Readings, chance: random.Random) -> Iterator[dict[str, Any]]:
    for name, unit, devices, usual, spread, limit, at_most in of:
        for device in devices:
            value = round(chance.gauss(usual, spread), 3) if spread else usual
            yield reading(name, max(0, value), unit, device, limit=limit, at_most=at_most)


def find(node: Node, check: str, verdict: str, summary: str, hint: str, **more: Any) -> None:
    """Add a finding to a check of the node."""
    finding = {"verdict": verdict, "summary": summary, "device": more.pop("device", ""), "hint": hint}
    full = {**finding, "action": more.get("action"), "fault": more.get("fault"), "cause": "node", "latch": False}
    node.checks[check].update(verdict=verdict, summary=summary, hint=hint, findings=[full], **more)


def _lost_gpu(node: Node) -> None:
    node.checks["gpu_count"]["readings"][0]["value"] = 7
    words = "7 of 8 GPUs: 0003:00:00.0 is not there"
    hint = "It fell off the bus: redeploy the instance, and report the host to Azure."
    find(node, "gpu_count", "fail", words, hint, action="replace", fault="NHC2009", device=GPUS[2], limit="8 (VM size)")
    hint = "Restart the machine once; if it comes again, replace it."
    find(node, "gpu_xid", "fail", "XID 79 on 0003:00:00.0", hint, action="replace", fault="NHC2001", latched=True)


def _slow_copy(node: Node) -> None:
    node.checks["gpu_host_bandwidth"]["readings"][4]["value"] = 22.1
    node.checks["gpu_host_bandwidth"]["readings"][5]["value"] = 21.9


def _weak_link(node: Node) -> None:
    node.checks["ib_write_bandwidth"]["readings"][3]["value"] = 171.2
    words = "mlx5_ib3 writes 171.2 Gb/s, at least 180 is wanted"
    find(node, "ib_write_bandwidth", "fail", words, "Run it again; then replace.", action="replace", fault="NHC2003")


def _hanging_tool(node: Node) -> None:
    find(node, "dcgm", "unknown", "dcgmi did not answer within 60 s", "See whether nvidia-dcgm runs.", readings=[])


def _old_driver(node: Node) -> None:
    node.checks["gpu_driver"]["readings"][0]["value"] = "550.144.03"


def _hot(node: Node) -> None:
    node.checks["gpu_temperature"]["readings"][6]["value"] = 83.0
    words = "0007:00:00.0 has 83 C, 85 is its limit"
    find(node, "gpu_temperature", "warn", words, "Look whether its fans and neighbours are hot too.", action="observe")


def _silent(node: Node) -> None:
    node.silent = "Failed to connect to the host via ssh: connect to host 10.0.0.9 port 22: No route to host"


FAULTS = (_lost_gpu, _silent, _slow_copy, _weak_link, _hanging_tool, _old_driver, _hot, _hot)


def azure_id(host: str) -> str:
    """Return the id of a node's instance. It is not among its variables, because a play would then call Azure."""
    group = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/train_(a)/providers"
    return f"{group}/Microsoft.Compute/virtualMachineScaleSets/compute/virtualMachines/{host.rpartition('-')[2]}"


def _registered(number: int, node: Node, chance: random.Random) -> dict[str, Any]:
    identity = f"{chance.getrandbits(128):032x}"
    vm_id = f"{identity[:8]}-{identity[8:12]}-{identity[12:16]}-{identity[16:20]}-{identity[20:]}"
    variables = {"azure_vm_size": node.size, "azure_vm_id": vm_id}
    if node.silent:
        return {"host": node.host, "inventory": variables, "result": {"unreachable": True, "msg": node.silent}}
    verdicts = [check["verdict"] for check in node.checks.values()]
    verdict = next(one for one in ("fail", "unknown", "warn", "pass") if one in verdicts)
    document = {
        "schema": 1,
        "command": "health",
        "status": {"fail": 1, "unknown": 2}.get(verdict, 0),
        "tier": "deep",
        "time": TIME,
        "seconds": round(chance.uniform(180, 240), 1),
        "verdict": verdict,
        "node": {
            "name": node.host,
            "vm_id": vm_id,
            "vm_size": node.size,
            "host": f"BN4PrdHPC{number // 2:04}",
            "boot_id": f"{chance.getrandbits(128):032x}",
            "image": "2026.11.1",
            "collection": "0.1.0",
        },
        "checks": list(node.checks.values()),
    }
    return {"host": node.host, "inventory": variables, "result": {"changed": False, "health": document}}


def suspect(host_name: str, words: str = "7 of 8 GPUs") -> dict[str, Any]:
    """Return a node on a host that had two faults, the older one first."""
    fault = {"check": "gpu_count", "code": "NHC2009", "device": "0003:00:00.0", "summary": words, "vm_id": "vm-3"}
    old = {**fault, "node": words, "first": "2026-10-01T00:00:00Z", "last": "2026-10-02T00:00:00Z"}
    new = {**old, "check": "gpu_xid", "last": "2026-11-20T00:00:00Z"}
    return {
        "host_name": host_name,
        "node": host_name,
        "vm_id": "v",
        "host": words,
        "faults": [old, new],
        "warning": words,
    }
