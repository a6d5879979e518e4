# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""InfiniBand ports: how fast their error counters grow."""

from __future__ import annotations

from collections.abc import Mapping

from ...machine.rdma import INFINIBAND, Port, read_ports
from ...machine.root import Root
from ..check import FAIL, OBSERVE, PERIODIC, UNKNOWN, WARN, Answer, Check, Context, Finding, Reading
from ..growth import growth
from ..promised import where_promised

# Those that tell of the cable and its two ends, and of nothing that a program does wrong.
LIMITS: Mapping[str, int] = {
    "symbol_error": 10,
    "link_error_recovery": 10,
    "port_rcv_errors": 10,
    "local_link_integrity_errors": 10,
    "excessive_buffer_overrun_errors": 10,
}
"""More than so many new errors between two runs are too many (rdma-core, infiniband-diags/etc/error_thresholds)."""
_COUNTERS, _OVER = "counters", "over"
_SOURCE = "rdma-core, infiniband-diags/etc/error_thresholds"
_HINT = "'perfquery' and 'mlxlink -c' tell more; errors that go on are the cable's or the adapter's: redeploy the VM"


def _measure(context: Context) -> Answer:
    ports = [port for port in read_ports(context.root) if port.link_layer == INFINIBAND]
    now = {port.label: _read(context.root, port) for port in ports}
    if not any(now.values()):
        return Answer(findings=(Finding(UNKNOWN, "no InfiniBand port tells its error counters"),))
    before = context.history.get(_COUNTERS)
    over_before = context.history.get(_OVER) or []
    context.history.keep(_COUNTERS, now)
    if before is None:
        return Answer(skipped="the first run in this boot: the counters are noted, the next run compares")
    readings, findings, over = [], [], []
    for port in ports:
        counters, earlier = now[port.label], before.get(port.label) or {}
        if not counters:
            findings.append(Finding(UNKNOWN, f"{port.label} does not tell its error counters", port.device))
        for name, value in counters.items():
            grown = growth(earlier.get(name), value)
            if grown is None:
                continue
            readings.append(Reading(f"ib_{name}", grown, "errors", port.device, LIMITS[name], at_most=True))
            if grown > LIMITS[name]:
                over.append(f"{port.label} {name}")
                again = over[-1] in over_before
                words = f"{port.label} has {grown} new {name} since the last run{', and had before' if again else ''}"
                findings.append(Finding(FAIL if again else WARN, words, port.device, _HINT))
    context.history.keep(_OVER, over)
    return Answer(
        good=f"the error counters of {len(ports)} InfiniBand ports stand still or nearly so",
        readings=tuple(readings),
        findings=tuple(findings),
        limit=f"at most 10 new errors of a kind between two runs ({_SOURCE}); more of them twice running fail",
    )


def _read(root: Root, port: Port) -> dict[str, int]:
    folder = f"/sys/class/infiniband/{port.device}/ports/{port.number}/counters"
    found = {name: root.number(f"{folder}/{name}") for name in LIMITS}
    return {name: value for name, value in found.items() if value is not None}


CHECK = Check(
    name="ib_errors",
    title="Error counters of the InfiniBand ports",
    explain=(
        "How much symbol_error, link_error_recovery, port_rcv_errors, local_link_integrity_errors and "
        "excessive_buffer_overrun_errors of each port have grown since the last run. More than 10 warn, the thresholds "
        f"of ibqueryerrors ({_SOURCE}); twice running they fail."
    ),
    tiers=(PERIODIC,),
    measure=_measure,
    applies=where_promised("hca_count", "InfiniBand"),
    action=OBSERVE,
)
