# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A test of perftest between a server and a client on one adapter of this node."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from ...machine.pci import read_pci
from ...machine.rdma import INFINIBAND, Port, read_ports
from ...machine.run import Result
from ..check import FAIL, UNKNOWN, CannotTell, Context, Finding
from . import tools

FOLDERS = ("/opt/perftest/bin", "/usr/local/perftest/bin")
SOURCE = "perftest"

_HERE = "127.0.0.1"
_TRIES, _PAUSE_S = 20, 0.25
"""How often a client tries to reach its server, which takes a moment to listen."""
_NOT_YET = "Couldn't connect to"
_IN_USE = ("Couldn't listen to port", "Address already in use", "address in use")
_WITHOUT_CUDA = ("Unsupported memory type", "unrecognized option '--use_cuda")


class WithoutCuda(RuntimeError):
    """This perftest was built without CUDA."""


def active_ports(context: Context) -> list[Port]:
    """Return the InfiniBand ports that carry data.

    :raises CannotTell: there is none.
    """
    ports = [port for port in read_ports(context.root) if port.link_layer == INFINIBAND]
    found = [port for port in ports if port.works]
    if not found:
        raise CannotTell(f"none of {len(ports)} InfiniBand ports is active, so nothing can be measured")
    return found


def gpu_near(context: Context, port: Port) -> int | None:
    """Return the number of a GPU, in the order of PCI, on the adapter's NUMA node: its place there is the adapter's."""
    devices = read_pci(context.root)
    gpus = [device for device in devices if device.is_gpu and device.vendor == 0x10DE]
    own = next((device for device in devices if device.busid == port.busid), None)
    if own is None:
        return None
    adapters = [device for device in devices if device.is_hca and device.numa_node == own.numa_node]
    near = [number for number, gpu in enumerate(gpus) if gpu.numa_node == own.numa_node]
    return near[adapters.index(own) % len(near)] if near and own in adapters else None


def between(
    context: Context, path: str, port: Port, options: Sequence[str], within_s: float
) -> tuple[str, list[Finding]]:
    """Run a server and a client on this port, and return what the client printed and what is wrong.

    Both must come to a good end: what a client prints whose server failed may be another server's.

    :raises WithoutCuda: the options are for memory of GPUs, and this perftest knows none.
    """
    number = free_port()
    command = [path, "-d", port.device, "-i", str(port.number), "-p", str(number), "-F", *options]
    environment = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    served: list[Result] = []
    server = threading.Thread(
        target=lambda: served.append(tools.call(context, command, within_s, environment)), daemon=True
    )
    server.start()
    client = Result((), tools.MISSING, "", "")
    for _try in range(_TRIES):
        client = tools.call(context, [*command, _HERE], within_s, environment)
        if _NOT_YET not in client.stderr + client.stdout or served:
            break
        time.sleep(_PAUSE_S)
    server.join(within_s + 10)
    results = {"the server of": served[0] if served else replace(client, rc=tools.OVERDUE), "the client of": client}
    name = path.rpartition("/")[2]
    if any(words in result.stdout + result.stderr for result in results.values() for words in _WITHOUT_CUDA):
        raise WithoutCuda
    found: list[Finding] = []
    for whose, result in results.items():
        said = result.stdout + result.stderr
        if any(words in said for words in _IN_USE):
            words = f"port {number}, on which {name} listens for {port.label}, is in use: {tools.last_line(result)}"
            return "", [Finding(UNKNOWN, words, port.label, "Run the check again")]
        if whose == "the client of" and _NOT_YET in said and not found:
            words = f"{name} did not reach its own server for {port.label}: {tools.last_line(result)}"
            return "", [Finding(UNKNOWN, words, port.label)]
        refused = tools.refusal(context, result, f"{whose} {name} on {port.label}", within_s, port.label)
        found += [refused] if refused else []
    # The one that failed by itself says more than the one that only lost its peer.
    found.sort(key=lambda finding: finding.verdict != FAIL)
    return ("", found[:1]) if found else (client.stdout, [])


def free_port() -> int:
    """Return the number of a TCP port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind((_HERE, 0))
        port: int = probe.getsockname()[1]
        return port
