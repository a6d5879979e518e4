# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Bandwidth and latency of each InfiniBand adapter, with perftest."""

from __future__ import annotations

import math
import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...machine.pci import read_pci
from ...machine.rdma import INFINIBAND, Port, read_ports
from ...machine.run import Result, last_line
from .. import deep
from ..applies import with_infiniband
from ..check import DEEP, FAIL, REPLACE, UNKNOWN, WARN, Answer, CannotMeasure, Check, Context, Finding, Reading
from ..deep import WITH_PROGRAM, limit_findings, must_be_idle, outliers
from ..settings import in_words

# The output of perftest (``ib_write_bw``, ``ib_write_lat``): a heading that begins with ``#bytes``, and rows below.

_AVERAGE = re.compile(r"BW average\[(Gb|MiB|MB)/sec\]")
_GBPS = {"Gb": 1.0, "MiB": 8 * 1048576 / 1e9, "MB": 8 * 1e6 / 1e9}
_PARSER_BYTES, _ITERATIONS, _PEAK, _BANDWIDTH = range(4)
_TYPICAL = 4


def bandwidth_gbps(text: str, size: int) -> float | None:
    """Return the average bandwidth in Gb/s of messages of this size; None if it was not printed."""
    unit = _AVERAGE.search(text)
    if not unit:
        return None
    for words in _rows(text[unit.end() :]):
        if len(words) > _BANDWIDTH and words[_PARSER_BYTES] == size:
            value = words[_BANDWIDTH] * _GBPS[unit[1]]
            return value if math.isfinite(value) and value > 0 else None
    return None


def latency_us(text: str) -> float | None:
    """Return the typical latency in microseconds; None if it was not printed."""
    heading = text.find("t_typical[usec]")
    if heading < 0:
        return None
    for words in _rows(text[heading:]):
        if len(words) > _TYPICAL:
            value = words[_TYPICAL]
            return value if math.isfinite(value) and value > 0 else None
    return None


def _rows(text: str) -> Iterator[list[float]]:
    for line in text.splitlines():
        try:
            words = [float(word) for word in line.split()]
        except ValueError:
            continue
        if words:
            yield words


# A test of perftest between a server and a client on one adapter of this node.

FOLDERS = ("/opt/perftest/bin", "/usr/local/perftest/bin")
SOURCE = "perftest"

_HERE = "127.0.0.1"
_TRIES, _PAUSE_S = 20, 0.25
"""Retries of a client until its server listens, and the pause in seconds."""
_NOT_YET = "Couldn't connect to"
_IN_USE = ("Couldn't listen to port", "Address already in use", "address in use")
_WITHOUT_CUDA = ("Unsupported memory type", "unrecognized option '--use_cuda")


class WithoutCuda(RuntimeError):
    """This perftest was built without CUDA."""


def active_ports(context: Context) -> list[Port]:
    """Return the active InfiniBand ports.

    :raises CannotMeasure: there is none.
    """
    ports = [port for port in read_ports(context.root) if port.link_layer == INFINIBAND]
    found = [port for port in ports if port.works]
    if not found:
        raise CannotMeasure(f"none of {len(ports)} InfiniBand ports is active, so nothing can be measured")
    return found


def gpu_near(context: Context, port: Port) -> int | None:
    """Return the number, in PCI order, of the GPU with the adapter's position on the adapter's NUMA node."""
    devices = read_pci(context.root)
    gpus = [device for device in devices if device.is_gpu and device.vendor == 0x10DE]
    adapter = next((device for device in devices if device.busid == port.busid), None)
    if adapter is None:
        return None
    adapters = [device for device in devices if device.is_hca and device.numa_node == adapter.numa_node]
    near = [number for number, gpu in enumerate(gpus) if gpu.numa_node == adapter.numa_node]
    return near[adapters.index(adapter) % len(near)] if near and adapter in adapters else None


def run_pair(
    context: Context, path: str, port: Port, options: Sequence[str], within_s: float
) -> tuple[str, list[Finding]]:
    """Run a server and a client on this port, and return the client's output and the findings.

    Both must succeed: if the server failed, the client may have measured another server.

    :raises WithoutCuda: the options need GPU memory, but this perftest was built without CUDA.
    """
    number = free_port()
    command = [path, "-d", port.device, "-i", str(port.number), "-p", str(number), "-F", *options]
    environment = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    served: list[Result] = []
    server = threading.Thread(
        target=lambda: served.append(deep.run_tool(context, command, within_s, environment)), daemon=True
    )
    server.start()
    client = Result((), deep.MISSING, "", "")
    for _try in range(_TRIES):
        client = deep.run_tool(context, [*command, _HERE], within_s, environment)
        if _NOT_YET not in client.stderr + client.stdout or served:
            break
        time.sleep(_PAUSE_S)
    server.join(within_s + 10)
    results = {"the server of": served[0] if served else replace(client, rc=deep.OVERDUE), "the client of": client}
    name = path.rpartition("/")[2]
    if any(words in result.stdout + result.stderr for result in results.values() for words in _WITHOUT_CUDA):
        raise WithoutCuda
    found: list[Finding] = []
    for role, result in results.items():
        output = result.stdout + result.stderr
        if any(words in output for words in _IN_USE):
            words = f"TCP port {number}, which {name} needs for {port.label}, is in use: {last_line(result)}"
            return "", [Finding(UNKNOWN, words, port.label, "Run the check again")]
        if role == "the client of" and _NOT_YET in output and not found:
            words = f"{name} could not connect to its own server for {port.label}: {last_line(result)}"
            return "", [Finding(UNKNOWN, words, port.label)]
        refused = deep.run_problem(context, result, f"{role} {name} on {port.label}", within_s, port.label)
        found += [refused] if refused else []
    # A failure comes before UNKNOWN, because the other side may only have lost its peer.
    found.sort(key=lambda finding: finding.verdict != FAIL)
    return ("", found[:1]) if found else (client.stdout, [])


def free_port() -> int:
    """Return the number of a free TCP port."""
    with socket.socket() as probe:
        probe.bind((_HERE, 0))
        port: int = probe.getsockname()[1]
        return port


# Whether each InfiniBand adapter reaches its bandwidth.

_WRITE_BANDWIDTH = "ib_write_bandwidth"
OF_GPU, OF_HOST = "ib_gdr_write", "ib_write"

_SIZE = 8388608
_BANDWIDTH_BYTES = re.compile(r"(\d+) B\b")
_QUEUE_PAIRS = re.compile(r"(\d+) queue pairs")
_RUN_S = 30.0
_HINT = "Check the port's errors with 'hpcnode health run periodic --only ib_errors'; then replace the node"


def _measure_bandwidth(context: Context) -> Answer:
    """Measure writes through each adapter, from memory of a near GPU if possible, else from host memory."""
    ports = active_ports(context)
    path = deep.required_program(context, IB_WRITE_BANDWIDTH, "ib_write_bw", FOLDERS, SOURCE)
    must_be_idle(context, IB_WRITE_BANDWIDTH)
    of_gpu = context.settings.threshold(context.size, OF_GPU)
    findings: list[Finding] = []
    if of_gpu:
        try:
            return _answer(context, path, ports, OF_GPU, findings)
        except WithoutCuda:
            words = "ib_write_bw was built without CUDA: it measured host memory, not GPU memory"
            findings.append(
                Finding(WARN, words, hint=f"Install a perftest with CUDA, and set options.{_WRITE_BANDWIDTH}.program")
            )
    return _answer(context, path, ports, OF_HOST, findings)


def _answer(context: Context, path: str, ports: list[Port], limit_name: str, findings: list[Finding]) -> Answer:
    threshold = context.settings.threshold(context.size, limit_name)
    at = threshold.at if threshold else ""
    stated = _BANDWIDTH_BYTES.search(at)
    size = int(stated[1]) if stated else _SIZE
    pairs = _QUEUE_PAIRS.search(at)
    readings, found = [], list(findings)
    for port in ports:
        options = ["-s", str(size), *(["-q", pairs[1]] if pairs else ()), "--report_gbits"]
        gpu = gpu_near(context, port) if limit_name == OF_GPU else None
        if limit_name == OF_GPU and gpu is None:
            found.append(Finding(UNKNOWN, f"no GPU is near {port.label}, so it was not measured", port.label))
            continue
        options += [] if gpu is None else [f"--use_cuda={gpu}"]
        output, wrong = run_pair(context, path, port, options, _RUN_S)
        found += wrong
        value = bandwidth_gbps(output, size)
        if value is not None:
            limit = threshold.limit if threshold else None
            readings.append(Reading(f"{limit_name}_bandwidth", round(value, 2), "Gb/s", port.label, limit))
        elif not wrong:
            words = f"ib_write_bw on {port.label} succeeded, but printed no bandwidth"
            found.append(Finding(UNKNOWN, words, port.label, f"Run it by hand: {path} -d {port.device}"))
    what = "the write bandwidth"
    found += limit_findings(readings, threshold, what, _HINT) if threshold else outliers(readings, what)
    slowest = min((float(one.value) for one in readings), default=0)
    memory = "GPU" if limit_name == OF_GPU else "host"
    good = f"{len(readings)} adapters, the slowest with {slowest:.4g} Gb/s, in {memory} memory"
    return Answer(good, tuple(readings), tuple(found), in_words(threshold) if threshold else "")


IB_WRITE_BANDWIDTH = Check(
    name=_WRITE_BANDWIDTH,
    title="bandwidth of the adapters",
    explain=(
        "Runs ib_write_bw between each InfiniBand adapter and itself, in memory of a GPU on the adapter's NUMA node. "
        "It uses the message size and the number of queue pairs at which the VM size's limit ib_gdr_write was "
        "measured, and compares the result with this limit (azurehpc-health-checks, check_ib_bw_gdr). If the VM size "
        "has no such limit, the check uses host memory and the limit ib_write. If perftest was built without CUDA, the "
        "check also uses host memory and the limit ib_write, and warns."
    ),
    tiers=(DEEP,),
    measure=_measure_bandwidth,
    applies=with_infiniband,
    limit_s=8 * 2 * _RUN_S + 60,
    action=REPLACE,
    fault="NHC2003",
    asks_device=True,
    thresholds=(OF_GPU, OF_HOST),
    options=WITH_PROGRAM,
)


# Whether each InfiniBand adapter reaches its latency.

_LATENCY = "ib_latency"
LIMIT = "ib_latency_local"

_WHAT = "the write latency"


def _measure_latency(context: Context) -> Answer:
    """Run ``ib_write_lat`` between each adapter and itself."""
    ports = active_ports(context)
    path = deep.required_program(context, IB_LATENCY, "ib_write_lat", FOLDERS, SOURCE)
    must_be_idle(context, IB_LATENCY)
    threshold = context.settings.threshold(context.size, LIMIT)
    readings, found = [], []
    for port in ports:
        output, wrong = run_pair(context, path, port, (), _RUN_S)
        found += wrong
        value = latency_us(output)
        if value is not None:
            limit = threshold.limit if threshold else None
            readings.append(Reading(LIMIT, value, "us", port.label, limit, at_most=True))
        elif not wrong:
            found.append(Finding(UNKNOWN, f"ib_write_lat on {port.label} printed no latency", port.label))
    found += limit_findings(readings, threshold, _WHAT, _HINT) if threshold else outliers(readings, _WHAT)
    slowest = max((float(one.value) for one in readings), default=0)
    good = f"{len(readings)} adapters, the slowest with {slowest:.3g} us"
    return Answer(good, tuple(readings), tuple(found), in_words(threshold) if threshold else "")


IB_LATENCY = Check(
    name=_LATENCY,
    title="latency of the adapters",
    explain=(
        "Runs ib_write_lat between each InfiniBand adapter and itself, and compares the typical latency with the VM "
        "size's limit ib_latency_local (azurehpc, experimental/ndv4_a100_healthchecks). If there is no limit, it "
        "compares the node's adapters with each other."
    ),
    tiers=(DEEP,),
    measure=_measure_latency,
    applies=with_infiniband,
    limit_s=8 * 2 * _RUN_S + 60,
    action=REPLACE,
    fault="NHC2003",
    asks_device=True,
    thresholds=(LIMIT,),
    options=WITH_PROGRAM,
)
