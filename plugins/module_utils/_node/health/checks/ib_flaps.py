# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""InfiniBand links that go down and come up again, by the adapters' counters and by what the network service logged."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...machine.rdma import INFINIBAND, Port, read_ports
from ...machine.root import Root
from ..check import BOOT, FAIL, PERIODIC, REPLACE, UNKNOWN, Answer, Check, Context, Finding, Reading
from ..growth import growth
from ..promised import where_promised

_SOURCE = "azurehpc-health-checks, customTests/azure_ib_link_flapping.nhc"
LIMIT_NAME, BEARABLE, WINDOW_S = "ib_flaps", 4, 24 * 3600
"""The source takes 5 and more within 24 hours for a fault. A site's own limit goes by this name."""
_COUNTERS, _FLAPS = "counters", "flaps"
_NET = "/sys/class/net"
_SERVICE = "systemd-networkd"
_LOST = ": Lost carrier"
_MOST_LINES = 5000
_HINT = "The cable, its switch port or the adapter is at fault: redeploy or replace the instance"

_Flaps = dict[str, list[tuple[float, int]]]
"""When a port was seen to have lost its link, and how often, in seconds since the epoch."""


def _measure(context: Context) -> Answer:
    ports = [port for port in read_ports(context.root) if port.link_layer == INFINIBAND]
    if not ports:
        return Answer(findings=(Finding(UNKNOWN, "there is no InfiniBand port whose link could be watched"),))
    interfaces = _interfaces(context.root)
    now = {port.label: _read(context.root, port, interfaces) for port in ports}
    before = context.history.get(_COUNTERS)
    flaps: _Flaps = {
        label: [(float(entry[0]), int(entry[1])) for entry in kept] for label, kept in _kept(context).items()
    }
    logged: Mapping[str, list[float]] | None = None
    if before is None or not all(now.values()):
        # The counters tell nothing of the time before the first look.
        logged = _logged(context)
    for port in ports:
        seen = flaps.setdefault(port.label, [])
        if before is not None and now[port.label]:
            grown = _growth(before.get(port.label) or {}, now[port.label])
            seen.extend([(context.now, grown)] if grown else [])
        elif logged is not None:
            flaps[port.label] = [(when, 1) for when in logged.get(interfaces.get(port.busid or "", ""), ())]
    flaps = {label: _recent(seen, context.now) for label, seen in flaps.items()}
    context.history.keep(_COUNTERS, now)
    context.history.keep(_FLAPS, {label: seen for label, seen in flaps.items() if seen})
    blind = [port for port in ports if not now[port.label] and logged is None]
    if before is None and logged is None and not blind:
        return Answer(skipped="the first run in this boot: the counters are noted, the next run compares")
    return _judged([port for port in ports if port not in blind], blind, flaps, _limit(context))


def _kept(context: Context) -> Mapping[str, Sequence[Sequence[Any]]]:
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
            findings.append(Finding(FAIL, words, port.device, _HINT))
    for port in blind:
        words = f"{port.label} tells neither link_downed nor carrier_down_count, and no log tells it either"
        findings.append(Finding(UNKNOWN, words, port.device, "See 'ibstat', and 'journalctl -u systemd-networkd'"))
    return Answer(
        good=f"{len(ports)} InfiniBand links are steady",
        readings=tuple(readings),
        findings=tuple(findings),
        limit=f"at most {limit} times within 24 hours ({_SOURCE}: 5 are a fault)",
    )


def _interfaces(root: Root) -> dict[str, str]:
    """Return the network interfaces (IPoIB) by the PCI address of their adapter."""
    found = {}
    for name in root.entries(_NET):
        busid = root.link_name(f"{_NET}/{name}/device")
        if busid:
            found[busid] = name
    return found


def _read(root: Root, port: Port, interfaces: Mapping[str, str]) -> dict[str, int]:
    folder = f"/sys/class/infiniband/{port.device}/ports/{port.number}/counters"
    found = {"link_downed": root.number(f"{folder}/link_downed")}
    name = interfaces.get(port.busid or "")
    if name:
        found["carrier_down_count"] = root.number(f"{_NET}/{name}/carrier_down_count")
    return {name: value for name, value in found.items() if value is not None}


def _growth(before: Mapping[str, int], now: Mapping[str, int]) -> int:
    """Return how often the link went down since: both counters count the same."""
    return max([0, *(grown for name, value in now.items() if (grown := growth(before.get(name), value)))])


def _recent(seen: Sequence[tuple[float, int]], now: float) -> list[tuple[float, int]]:
    return [(when, count) for when, count in seen if now - when <= WINDOW_S]


def _logged(context: Context) -> dict[str, list[float]] | None:
    """Return when interfaces lost their carrier, by name, as the network service logged it in this boot.

    None where it does not tell: no journal, or another service looks after the network.
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


CHECK = Check(
    name="ib_flaps",
    title="InfiniBand links that come and go",
    explain=(
        "How often each InfiniBand link went down within 24 hours: by link_downed of the port and carrier_down_count "
        "of its network interface, and for the time before the first look by what systemd-networkd logged. 5 times and "
        f"more fail ({_SOURCE})."
    ),
    tiers=(PERIODIC, BOOT),
    measure=_measure,
    applies=where_promised("hca_count", "InfiniBand"),
    action=REPLACE,
    fault="NHC2005",
    further_limits=(LIMIT_NAME,),
)
