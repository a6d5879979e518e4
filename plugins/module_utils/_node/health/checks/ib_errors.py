# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Errors of InfiniBand links: counters of the ports, links that flap, and the adapters' driver in the kernel's log."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...machine.rdma import INFINIBAND, Port, read_ports
from ...machine.root import Root
from ..applies import where_expected
from ..check import (
    BOOT,
    EPILOG,
    FAIL,
    OBSERVE,
    PERIODIC,
    REPLACE,
    UNKNOWN,
    WARN,
    Answer,
    Check,
    Context,
    Finding,
    Reading,
    growth,
)
from ..log_signs import Sign, look_for

# InfiniBand ports: the growth of their error counters.

# Counters of errors of the cable and its two ends, which programs cannot cause.
LIMITS: Mapping[str, int] = {
    "symbol_error": 10,
    "link_error_recovery": 10,
    "port_rcv_errors": 10,
    "local_link_integrity_errors": 10,
    "excessive_buffer_overrun_errors": 10,
}
"""The most new errors between two runs (rdma-core, infiniband-diags/etc/error_thresholds)."""
_ERRORS_COUNTERS, _OVER = "counters", "over"
_ERRORS_SOURCE = "rdma-core, infiniband-diags/etc/error_thresholds"
_ERRORS_HINT = (
    "See 'perfquery' and 'mlxlink -c'; if the errors continue, the cable or the adapter is faulty: redeploy the VM"
)


def _measure_errors(context: Context) -> Answer:
    ports = [port for port in read_ports(context.root) if port.link_layer == INFINIBAND]
    now = {port.label: _read_errors(context.root, port) for port in ports}
    if not any(now.values()):
        return Answer(findings=(Finding(UNKNOWN, "no InfiniBand port shows its error counters"),))
    before = context.history.get(_ERRORS_COUNTERS)
    over_before = context.history.get(_OVER) or []
    context.history.keep(_ERRORS_COUNTERS, now)
    if before is None:
        return Answer(skipped="the first run in this boot: the counters are recorded, and the next run compares")
    readings, findings, over = [], [], []
    for port in ports:
        counters, earlier = now[port.label], before.get(port.label) or {}
        if not counters:
            findings.append(Finding(UNKNOWN, f"{port.label} does not show its error counters", port.device))
        for name, value in counters.items():
            grown = growth(earlier.get(name), value)
            if grown is None:
                continue
            readings.append(Reading(f"ib_{name}", grown, "errors", port.device, LIMITS[name], at_most=True))
            if grown > LIMITS[name]:
                over.append(f"{port.label} {name}")
                again = over[-1] in over_before
                words = f"{port.label} has {grown} new {name} since the last run{', as before' if again else ''}"
                findings.append(Finding(FAIL if again else WARN, words, port.device, _ERRORS_HINT))
    context.history.keep(_OVER, over)
    return Answer(
        good=f"the error counters of {len(ports)} InfiniBand ports are within the limits",
        readings=tuple(readings),
        findings=tuple(findings),
        limit=f"at most 10 new errors of a kind between two runs ({_ERRORS_SOURCE}); more twice in a row fail",
    )


def _read_errors(root: Root, port: Port) -> dict[str, int]:
    folder = f"/sys/class/infiniband/{port.device}/ports/{port.number}/counters"
    found = {name: root.number(f"{folder}/{name}") for name in LIMITS}
    return {name: value for name, value in found.items() if value is not None}


IB_ERRORS = Check(
    name="ib_errors",
    title="Error counters of the InfiniBand ports",
    explain=(
        "Compares five error counters of each InfiniBand port with their values in the last run: symbol_error, "
        "link_error_recovery, port_rcv_errors, local_link_integrity_errors and excessive_buffer_overrun_errors. If a "
        "counter has grown by more than 10 since the last run, the check warns. If the same counter has grown by more "
        "than 10 in two runs in a row, the check fails. The number 10 is the threshold of ibqueryerrors "
        f"({_ERRORS_SOURCE})."
    ),
    tiers=(PERIODIC,),
    measure=_measure_errors,
    applies=where_expected("hca_count", "InfiniBand"),
    action=OBSERVE,
)


# InfiniBand links that go down and up again, from the adapters' counters and the log of the network service.

_FLAPS_SOURCE = "azurehpc-health-checks, customTests/azure_ib_link_flapping.nhc"
LIMIT_NAME, BEARABLE, WINDOW_S = "ib_flaps", 4, 24 * 3600
"""In the source, 5 or more within 24 hours are a fault. A site can set its own limit under this name."""
_FLAPS_COUNTERS, _FLAPS = "counters", "flaps"
_NET = "/sys/class/net"
_SERVICE = "systemd-networkd"
_LOST = ": Lost carrier"
_MOST_LINES = 5000
_FLAPS_HINT = "The cable, its switch port or the adapter is at fault: redeploy or replace the instance"

_Flaps = dict[str, list[tuple[float, int]]]
"""By port: when link losses were seen, in seconds since the epoch, and how many."""


def _measure_flaps(context: Context) -> Answer:
    ports = [port for port in read_ports(context.root) if port.link_layer == INFINIBAND]
    if not ports:
        return Answer(findings=(Finding(UNKNOWN, "there is no InfiniBand port"),))
    interfaces = _interfaces(context.root)
    now = {port.label: _read_flaps(context.root, port, interfaces) for port in ports}
    before = context.history.get(_FLAPS_COUNTERS)
    flaps: _Flaps = {
        label: [(float(entry[0]), int(entry[1])) for entry in kept] for label, kept in _earlier_flaps(context).items()
    }
    logged: Mapping[str, list[float]] | None = None
    if before is None or not all(now.values()):
        # The counters do not show when losses before the first run happened.
        logged = _logged(context)
    for port in ports:
        losses = flaps.setdefault(port.label, [])
        if before is not None and now[port.label]:
            grown = _growth(before.get(port.label) or {}, now[port.label])
            losses.extend([(context.now, grown)] if grown else [])
        elif logged is not None:
            flaps[port.label] = [(when, 1) for when in logged.get(interfaces.get(port.busid or "", ""), ())]
    flaps = {label: _recent(losses, context.now) for label, losses in flaps.items()}
    context.history.keep(_FLAPS_COUNTERS, now)
    context.history.keep(_FLAPS, {label: losses for label, losses in flaps.items() if losses})
    blind = [port for port in ports if not now[port.label] and logged is None]
    if before is None and logged is None and not blind:
        return Answer(skipped="the first run in this boot: the counters are recorded, and the next run compares")
    return _judged([port for port in ports if port not in blind], blind, flaps, _limit(context))


def _earlier_flaps(context: Context) -> Mapping[str, Sequence[Sequence[Any]]]:
    return context.history.get(_FLAPS) or {}


def _limit(context: Context) -> int:
    return int(context.settings.limits.get(LIMIT_NAME, BEARABLE))


def _judged(ports: Sequence[Port], blind: Sequence[Port], flaps: _Flaps, limit: int) -> Answer:
    readings, findings = [], []
    for port in ports:
        count = sum(times for _when, times in flaps[port.label])
        readings.append(Reading("ib_flaps", count, "in 24 h", port.device, limit, at_most=True))
        if count > limit:
            words = f"{port.label} lost its link {count} times within 24 hours"
            findings.append(Finding(FAIL, words, port.device, _FLAPS_HINT))
    for port in blind:
        words = f"{port.label} shows neither link_downed nor carrier_down_count, and no log shows link losses"
        findings.append(Finding(UNKNOWN, words, port.device, "See 'ibstat', and 'journalctl -u systemd-networkd'"))
    return Answer(
        good=f"{len(ports)} InfiniBand links are stable",
        readings=tuple(readings),
        findings=tuple(findings),
        limit=f"at most {limit} times within 24 hours ({_FLAPS_SOURCE}: 5 are a fault)",
    )


def _interfaces(root: Root) -> dict[str, str]:
    """Return the network interfaces (IPoIB) by the PCI address of their adapter."""
    found = {}
    for name in root.entries(_NET):
        busid = root.link_name(f"{_NET}/{name}/device")
        if busid:
            found[busid] = name
    return found


def _read_flaps(root: Root, port: Port, interfaces: Mapping[str, str]) -> dict[str, int]:
    folder = f"/sys/class/infiniband/{port.device}/ports/{port.number}/counters"
    found = {"link_downed": root.number(f"{folder}/link_downed")}
    name = interfaces.get(port.busid or "")
    if name:
        found["carrier_down_count"] = root.number(f"{_NET}/{name}/carrier_down_count")
    return {name: value for name, value in found.items() if value is not None}


def _growth(before: Mapping[str, int], now: Mapping[str, int]) -> int:
    """Return how often the link went down since the last run. Both counters count this; the larger one is used."""
    return max([0, *(grown for name, value in now.items() if (grown := growth(before.get(name), value)))])


def _recent(losses: Sequence[tuple[float, int]], now: float) -> list[tuple[float, int]]:
    return [(when, count) for when, count in losses if now - when <= WINDOW_S]


def _logged(context: Context) -> dict[str, list[float]] | None:
    """Return when interfaces lost their carrier in this boot, by name, from the log of the network service.

    None without such a log: there is no journal, or another service manages the network.
    """
    since = f"--since=@{int(context.now) - WINDOW_S}"
    command = ["journalctl", "--boot", f"--unit={_SERVICE}", since, f"--lines={_MOST_LINES}"]
    answer = context.run([*command, "--output=json", "--no-pager", "--quiet"])
    if answer.rc != 0 or not answer.stdout.strip():
        return None
    found: dict[str, list[float]] = {}
    for line in answer.stdout.splitlines():
        try:
            entry = json.loads(line)
            message, when = str(entry["MESSAGE"]), int(entry["__REALTIME_TIMESTAMP"]) / 1e6
        except (ValueError, KeyError, TypeError):
            continue
        if message.endswith(_LOST):
            found.setdefault(message[: -len(_LOST)], []).append(when)
    return found


IB_FLAPS = Check(
    name="ib_flaps",
    title="InfiniBand links that flap",
    explain=(
        "Counts how often each InfiniBand link went down within 24 hours, from the counters link_downed of the port "
        "and carrier_down_count of its network interface. For the time before the first run, it uses the log of "
        "systemd-networkd. The check fails if a link went down more than 4 times (limit ib_flaps; "
        f"{_FLAPS_SOURCE})."
    ),
    tiers=(PERIODIC, BOOT),
    measure=_measure_flaps,
    applies=where_expected("hca_count", "InfiniBand"),
    action=REPLACE,
    fault="NHC2005",
    further_limits=(LIMIT_NAME,),
)


# Messages of the InfiniBand adapters' driver in the kernel's log about their firmware and cables.

# The driver's messages begin with function, line and process.
_ADAPTER = r"mlx5_core ([0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.\d): (?:\w+:\d+:\(pid \d+\): )?"
_DRIVER_LOG_SOURCE = "drivers/net/ethernet/mellanox/mlx5/core: "
_LOG = "'journalctl -k -b -g mlx5_core' has the lines"

IB_DRIVER_LOG_SIGNS = (
    Sign(
        "firmware",
        re.compile(
            rf"{_ADAPTER}(?:device's health compromised - reached miss count|Fatal error \d+ detected"
            # The severities are the kernel's log levels: 0 to 3 are errors and worse.
            r"|Health issue observed, [^,]+, severity\([0-3]\)"
            r"|health recovery (?:failed|flow aborted)|Driver is in error state\. Unloading|PCI slot is unavailable"
            r"|(?:cmd\[\d+\]: )?\w+\(0x[0-9a-f]+\) (?:Async, )?timeout\. Will cause a leak of a command resource)"
        ),
        FAIL,
        "the firmware of adapter {device} has stopped working",
        f"Restart the VM from Azure, and redeploy it if it happens again; {_LOG}",
        REPLACE,
        "NHC2002",
        source=f"{_DRIVER_LOG_SOURCE}health.c, cmd.c",
    ),
    Sign(
        "cable",
        re.compile(rf"{_ADAPTER}Port module event\[error\]: module \d+, "),
        WARN,
        "adapter {device} reports a problem with its cable",
        f"See the checks ib_errors and ib_flaps; {_LOG}",
        OBSERVE,
        "",
        source=f"{_DRIVER_LOG_SOURCE}events.c",
    ),
)


def _measure_driver_log(context: Context) -> Answer:
    return look_for(
        context, IB_DRIVER_LOG_SIGNS, "ib_driver_messages", "no adapter reported a problem since the last run"
    )


IB_DRIVER_LOG = Check(
    name="ib_driver_log",
    title="the InfiniBand adapters' driver in the kernel's log",
    explain=(
        "Looks in the kernel's log of this boot for messages of the driver mlx5_core. The check fails if the firmware "
        "of an adapter has stopped or no longer accepts commands. It warns if an adapter reports a problem with its "
        "cable. A finding stays until the machine restarts or somebody clears it."
    ),
    tiers=(PERIODIC, EPILOG, BOOT),
    measure=_measure_driver_log,
    applies=where_expected("hca_count", "InfiniBand"),
    action=REPLACE,
    fault="NHC2002",
)
